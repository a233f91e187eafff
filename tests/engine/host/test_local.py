"""The engine in one's own process: in which order requests reach it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from warmline.host.local import LocalEngine
from warmline.host.service import Receiver
from warmline.host.wire import CompletionRequest, Done, Event, Outcome
from warmline.variant import Profile, ResolvedBase, ResolvedVariant

VARIANT = ResolvedVariant(
    name="v",
    backend="llama",
    base=ResolvedBase(name="b", path=Path("b.gguf")),
    adapters=(),
    profile=Profile(),
    file="v",
)


class SlowToHash:
    """A service whose files are hashed when the test says so; it answers what reaches it at once."""

    def __init__(self) -> None:
        self.hashed = threading.Event()
        self.reached: list[str] = []

    def is_quick(self, _variant: ResolvedVariant) -> bool:
        return self.hashed.is_set()

    def hash_files(self, _variant: ResolvedVariant) -> None:
        assert self.hashed.wait(10)

    def complete(self, request: CompletionRequest, receiver: Receiver) -> Callable[[], None]:
        self.reached.append(request.prefix)
        receiver.receive([Done(outcome=Outcome.STOP, text=request.prefix, predicted_tokens=1, total_ms=1.0)])
        return lambda: None

    def close(self) -> None:
        pass


async def answer(engine: LocalEngine, prefix: str, document: str = "d") -> Event:
    request = CompletionRequest(client="c", document=document, variant=VARIANT, prefix=prefix)
    return [event async for event in engine.complete(request)][-1]


async def test_who_waited_for_a_hash_does_not_overtake_a_newer_request(tmp_path: Path) -> None:
    engine = LocalEngine(tmp_path)
    service: Any = SlowToHash()
    engine._service = service
    waiting = [asyncio.create_task(answer(engine, prefix)) for prefix in ("old", "older still")]
    other = asyncio.create_task(answer(engine, "other", document="another"))
    await asyncio.sleep(0.05)
    service.hashed.set()
    newest = await answer(engine, "new")
    assert isinstance(newest, Done)
    assert newest.outcome is Outcome.STOP
    for event in await asyncio.gather(*waiting):
        assert isinstance(event, Done)
        assert event.outcome is Outcome.SUPERSEDED
    assert isinstance(done := await other, Done)
    assert done.text == "other"
    assert sorted(service.reached) == ["new", "other"]
    await engine.close()
