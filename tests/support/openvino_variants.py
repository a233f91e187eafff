"""Variants of the imported base, and an engine that runs them beside llama.cpp's."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import smollm2
from warmline.backends.llama import LlamaBackend
from warmline.backends.openvino import OpenVinoBackend
from warmline.digests import DigestCache
from warmline.errors import WarmlineError
from warmline.filemodel import Backend
from warmline.host.effects import Effects
from warmline.host.service import EngineService
from warmline.host.wire import ChatRequest, ChatTurn, CompletionRequest, Done, Event, Started
from warmline.kv.pool import ContextPool
from warmline.variant import Profile, ResolvedAdapter, ResolvedBase, ResolvedVariant

SECONDS = 100
PEFT = {"acme": smollm2.ADAPTERS / "acme-style", "fim": smollm2.ADAPTERS / "fim-python"}
GGUF = {"acme": smollm2.ACME, "fim": smollm2.FIM}


def variant(
    base: Path, *adapters: str | Path, backend: Backend = "openvino", scale: str = "1", **profile: Any
) -> ResolvedVariant:
    """Make a variant; adapters by the name of an example, or by path."""
    known = PEFT if backend == "openvino" else GGUF
    paths = [known[one] if isinstance(one, str) else one for one in adapters]
    return ResolvedVariant(
        name="v",
        backend=backend,
        base=ResolvedBase(name="smollm2", path=base),
        adapters=tuple(
            ResolvedAdapter(name=path.stem if path.is_dir() else path.parent.name, path=path, scale=Decimal(scale))
            for path in paths
        ),
        profile=Profile(**{"n_ctx": 512, "max_tokens": 12, **profile}),
        file="v.json",
    )


class Heard:
    """Collects one request's events (`Receiver`)."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.failure: WarmlineError | None = None
        self.first = threading.Event()
        self.over = threading.Event()

    def receive(self, events: Sequence[Event]) -> None:
        self.events.extend(events)
        self.first.set()
        if isinstance(events[-1], Done):
            self.over.set()

    def error(self, error: WarmlineError) -> None:
        self.failure = error
        self.first.set()
        self.over.set()

    @property
    def started(self) -> Started:
        return next(event for event in self.events if isinstance(event, Started))

    @property
    def done(self) -> Done:
        assert self.over.wait(SECONDS)
        if self.failure is not None:
            raise self.failure
        return next(event for event in self.events if isinstance(event, Done))


class Engine:
    """Both backends in one service, as in the engine host.

    Parameters
    ----------
    effects
        What adapters were measured to change; each that is not in there takes a pipeline to measure.
    """

    def __init__(self, *, warm_pipelines: int = 1, effects: Effects | None = None) -> None:
        digests = DigestCache()
        self.effects = Effects() if effects is None else effects
        self.openvino = OpenVinoBackend(digests, warm_pipelines=warm_pipelines)
        self.pool = ContextPool(max_live=4)
        self.service = EngineService(
            LlamaBackend(digests),
            digests,
            lambda _digest: True,
            openvino=self.openvino,
            pool=self.pool,
            effects=self.effects,
        )

    def ask(self, of: ResolvedVariant, prefix: str, document: str = "d", **more: Any) -> Heard:
        heard = Heard()
        request = CompletionRequest(client="c", document=document, variant=of, prefix=prefix, **more)
        heard.cancel = self.service.complete(request, heard)  # type: ignore[attr-defined]
        return heard

    def complete(self, of: ResolvedVariant, prefix: str, **more: Any) -> Heard:
        heard = self.ask(of, prefix, **more)
        assert heard.done
        return heard

    def chat(self, of: ResolvedVariant, text: str, **more: Any) -> Heard:
        heard = Heard()
        turns = (ChatTurn(role="user", content=text),)
        self.service.chat(ChatRequest(client="c", conversation="k", variant=of, messages=turns, **more), heard)
        return heard

    def refused(self, of: ResolvedVariant) -> WarmlineError:
        heard = self.ask(of, "x = ")
        assert heard.over.wait(SECONDS)
        assert heard.failure is not None
        return heard.failure

    def close(self) -> None:
        self.service.close()
