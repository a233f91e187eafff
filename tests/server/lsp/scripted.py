"""Stand-ins at the protocol's two edges: an engine that says what a test wants, an editor that remembers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from lsprotocol import types
from warmline.errors import PromptError
from warmline.host.wire import (
    AdapterStatus,
    BackendStatus,
    BaseStatus,
    ChatRequest,
    CompletionRequest,
    ContextStatus,
    Delta,
    Done,
    EngineStatus,
    Event,
    Outcome,
    Started,
    State,
    VariantStatus,
)
from warmline.variant import ResolvedVariant
from warmline_server.lsp.initialize import Client
from warmline_server.lsp.session import Session


class ScriptedEngine:
    """Answers every completion with `pieces`; waits for `gate`, if set, before each; raises `error`, if set."""

    def __init__(self, *pieces: str, outcome: Outcome | None = Outcome.STOP) -> None:
        self.pieces: Sequence[str] = pieces
        self.outcome = outcome
        self.error: Exception | None = None
        self.probability = 1.0
        self.gate: asyncio.Event | None = None
        self.requests: list[CompletionRequest] = []
        self.stopped: list[CompletionRequest] = []
        self.loads: list[ResolvedVariant] = []
        self.prewarmed: list[CompletionRequest] = []
        self.guessed = asyncio.Event()
        self.chats: list[ChatRequest] = []
        self.chats_ended: list[ChatRequest] = []
        self.room: int | None = None
        self.metered = ""
        self.clients: set[str] = set()
        self.asked = asyncio.Event()
        self.ended = asyncio.Event()
        self.closed = False
        self.states: asyncio.Queue[EngineStatus] = asyncio.Queue()
        self.now = EngineStatus(state=State.EMPTY)

    async def complete(self, request: CompletionRequest) -> AsyncIterator[Event]:
        self.requests.append(request)
        self.asked.set()
        try:
            if self.error is not None:
                raise self.error
            yield Started(
                identity=(await self.describe(request.variant)).identity,
                prompt_tokens=10,
                reused_tokens=4,
                reason="prefix:4/10",
                fim="prefix-only",
                ttft_ms=1.0,
            )
            for piece in self.pieces:
                if self.gate is not None:
                    await self.gate.wait()
                yield Delta(text=piece)
            if self.gate is not None:
                await self.gate.wait()
            if self.outcome is not None:
                yield Done(
                    outcome=self.outcome,
                    text="".join(self.pieces),
                    predicted_tokens=3,
                    total_ms=2.0,
                    mean_probability=self.probability if request.probability else None,
                )
        finally:
            self.stopped.append(request)
            self.ended.set()

    async def chat(self, request: ChatRequest) -> AsyncIterator[Event]:
        """Answer as completions are; `room`, if set, is the number of messages that fit."""
        self.chats.append(request)
        self.asked.set()
        if self.error is not None:
            raise self.error
        if self.room is not None and len(request.messages) > self.room:
            raise PromptError("too long", code="prompt.room")
        try:
            yield Started(
                identity=identity(request.variant),
                prompt_tokens=20,
                reused_tokens=8,
                reason="prefix:8/20",
                fim="none",
                ttft_ms=1.0,
            )
            for piece in self.pieces:
                if self.gate is not None:
                    await self.gate.wait()
                yield Delta(text=piece)
            if self.outcome is not None:
                yield Done(outcome=self.outcome, text="".join(self.pieces), predicted_tokens=3, total_ms=2.0)
        finally:
            self.chats_ended.append(request)

    async def describe(self, variant: ResolvedVariant) -> VariantStatus:
        if self.error is not None:
            raise self.error
        return describe(variant)

    async def prewarm(self, request: CompletionRequest) -> None:
        self.prewarmed.append(request)
        self.guessed.set()
        if self.error is not None:
            raise self.error

    async def load(self, variant: ResolvedVariant, client: str = "") -> VariantStatus:
        self.loads.append(variant)
        self.asked.set()
        return await self.describe(variant)

    async def metrics(self) -> str:
        if self.error is not None:
            raise self.error
        return self.metered

    async def status(self, client: str = "") -> EngineStatus:
        self.clients.add(client)
        return self.now

    async def watch(self, client: str = "") -> AsyncIterator[EngineStatus]:
        self.clients.add(client)
        yield self.now
        while True:
            yield await self.states.get()

    async def close(self) -> None:
        self.closed = True


def identity(variant: ResolvedVariant) -> str:
    """Another one for `acme` than for the rest."""
    return "sha256:" + ("1" if variant.name == "acme" else "2") * 64


def describe(variant: ResolvedVariant) -> VariantStatus:
    adapters = tuple(
        AdapterStatus(
            name=adapter.name,
            digest="sha256:" + "a" * 64,
            scale=str(adapter.scale),
            effective_scale="2",
            trust="user",
            verified=False,
            source=adapter.source,
        )
        for adapter in variant.adapters
    )
    return VariantStatus(
        variant=variant.name,
        identity=identity(variant),
        base=BaseStatus(name=variant.base.name, digest="sha256:" + "b" * 64),
        adapters=adapters,
        backend=BackendStatus(name="scripted", version="1"),
        context=ContextStatus(n_ctx=4096, clamped=False),
        fim="prefix-only",
        template="none",
        bos="auto",
    )


class Memory:
    """An outlet that keeps what was sent, and lets a test wait for it."""

    def __init__(self) -> None:
        self.statuses: list[dict[str, Any]] = []
        self.diagnostics: dict[str, list[types.Diagnostic]] = {}
        self.logs: list[str] = []
        self.messages: list[str] = []
        self.questions: list[tuple[str, tuple[str, ...]]] = []
        self.answer: str | None = None
        self.reports: list[tuple[int | str, Any]] = []
        self.shown: list[str] = []
        self.refreshed = 0
        self._news = asyncio.Event()

    def notify(self, method: str, params: dict[str, Any]) -> None:
        assert method == "warmline/status"
        self.statuses.append(params)
        self._news.set()

    def publish_diagnostics(self, uri: str, items: list[types.Diagnostic]) -> None:
        self.diagnostics[uri] = items
        self._news.set()

    def log(self, kind: types.MessageType, text: str) -> None:
        self.logs.append(text)

    def show(self, kind: types.MessageType, text: str) -> None:
        assert kind in (types.MessageType.Warning, types.MessageType.Info)
        self.messages.append(text)

    async def ask(self, kind: types.MessageType, text: str, answers: tuple[str, ...]) -> str | None:
        self.questions.append((text, answers))
        self._news.set()
        return self.answer

    async def create_progress(self, token: str) -> bool:
        return True

    def send_progress(self, token: int | str, value: Any) -> None:
        self.reports.append((token, value))
        self._news.set()

    async def show_document(self, uri: str) -> bool:
        self.shown.append(uri)
        return True

    def refresh_lenses(self) -> None:
        self.refreshed += 1

    async def until(self, predicate: Any) -> None:
        while not predicate(self):
            self._news.clear()
            await self._news.wait()


class Room:
    """A workspace and a store on disk, and a session over them.

    One answer to each question and no guesses about the next one, unless `suggest` says otherwise: settings by their
    names in editors.
    """

    def __init__(
        self, tmp: Path, engine: ScriptedEngine, client: Client | None = None, suggest: dict[str, Any] | None = None
    ) -> None:
        self.home, self.root = tmp / "home", tmp / "ws"
        self.engine, self.memory = engine, Memory()
        (self.root / "src").mkdir(parents=True)
        (tmp / "base.gguf").touch()
        (tmp / "acme.gguf").touch()
        adapter = {"name": "style", "path": str(tmp / "acme.gguf")}
        self.base, self.adapter = tmp / "base.gguf", tmp / "acme.gguf"
        self.variant("plain", {"base": {"path": str(self.base)}})
        self.variant("acme", {"base": {"path": str(self.base)}, "adapters": [adapter]})
        self.select("acme")
        options = {"suggest": {"candidates": 1, "speculate": False, **(suggest or {})}}
        self.session = Session(replace(client or Client(), options=options), self.home, self.memory, lambda: engine)

    @property
    def config(self) -> Path:
        return self.root / ".warmline" / "config.json"

    def variant_path(self, name: str) -> Path:
        return self.home / "variants" / "llama" / f"{name}.json"

    def variant(self, name: str, content: dict[str, Any]) -> None:
        self.write(self.variant_path(name), {"name": name, **content})

    def select(self, name: str) -> None:
        self.write(self.config, {"variant": name})

    def write(self, path: Path, content: object) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content, indent=2))

    def uri(self, name: str = "src/a.py") -> str:
        return (self.root / name).as_uri()

    def open(self, text: str, name: str = "src/a.py", version: int = 1) -> str:
        uri = self.uri(name)
        self.session.documents.open(uri, "python", version, text)
        return uri

    @property
    def ls(self) -> Any:
        return SimpleNamespace(session=self.session)


def inline_params(
    uri: str,
    line: int,
    character: int,
    *,
    automatic: bool = False,
    selected: types.SelectedCompletionInfo | None = None,
) -> types.InlineCompletionParams:
    kinds = types.InlineCompletionTriggerKind
    return types.InlineCompletionParams(
        context=types.InlineCompletionContext(kinds.Automatic if automatic else kinds.Invoked, selected),
        text_document=types.TextDocumentIdentifier(uri),
        position=types.Position(line, character),
    )
