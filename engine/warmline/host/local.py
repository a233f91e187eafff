"""The engine in this very process, behind the same interface as one that runs in its own."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from pathlib import Path

from ..digests import DigestCache
from ..errors import WarmlineError
from ..trust import TrustStore
from ..variant import ResolvedVariant
from .service import EngineService
from .wire import ChatRequest, CompletionRequest, Done, EngineStatus, Event, VariantStatus


class LocalEngine:
    """`EngineClient` over an `EngineService` of its own; native libraries are loaded at the first request.

    Parameters
    ----------
    home
        The user's store: approvals and the digest cache live there.
    approved
        Digests that count as approved besides the user's own approvals.
    """

    def __init__(self, home: Path, approved: frozenset[str] = frozenset()) -> None:
        from ..backends.llama import LlamaBackend

        trust = TrustStore(home / "trust.json")
        digests = DigestCache(home / "cache" / "digests.json")
        self._service = EngineService(
            LlamaBackend(digests), digests, lambda digest: digest in approved or trust.approved(digest)
        )

    async def complete(self, request: CompletionRequest) -> AsyncIterator[Event]:
        """See `EngineClient.complete`."""
        receiver = _QueueReceiver(asyncio.get_running_loop())
        async with contextlib.aclosing(_events(receiver, self._service.complete(request, receiver))) as events:
            async for event in events:
                yield event

    async def chat(self, request: ChatRequest) -> AsyncIterator[Event]:
        """See `EngineClient.chat`."""
        receiver = _QueueReceiver(asyncio.get_running_loop())
        async with contextlib.aclosing(_events(receiver, self._service.chat(request, receiver))) as events:
            async for event in events:
                yield event

    async def prewarm(self, request: CompletionRequest) -> None:
        """See `EngineClient.prewarm`."""
        self._service.prewarm(request)

    async def describe(self, variant: ResolvedVariant) -> VariantStatus:
        """See `EngineClient.describe`."""
        return await asyncio.to_thread(self._service.describe, variant)

    async def load(self, variant: ResolvedVariant) -> VariantStatus:
        """See `EngineClient.load`."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[VariantStatus] = loop.create_future()

        def settle(result: VariantStatus | WarmlineError) -> None:
            if future.done():
                return
            if isinstance(result, WarmlineError):
                future.set_exception(result)
            else:
                future.set_result(result)

        def post(result: VariantStatus | WarmlineError) -> None:
            _call(loop, settle, result)

        cancel = self._service.load(variant, post, post)
        try:
            return await future
        except asyncio.CancelledError:
            cancel()
            raise

    async def status(self) -> EngineStatus:
        """See `EngineClient.status`."""
        return self._service.status

    async def watch(self) -> AsyncIterator[EngineStatus]:
        """See `EngineClient.watch`."""
        loop = asyncio.get_running_loop()
        latest: asyncio.Queue[EngineStatus] = asyncio.Queue(maxsize=1)

        def replace(status: EngineStatus) -> None:
            if latest.full():
                latest.get_nowait()
            latest.put_nowait(status)

        stop = self._service.watch(lambda status: _call(loop, replace, status))
        try:
            while True:
                yield await latest.get()
        finally:
            stop()

    async def close(self) -> None:
        """See `EngineClient.close`."""
        await asyncio.to_thread(self._service.close)


class _QueueReceiver:
    """Brings events from the engine's thread to the loop's (`service.Receiver`)."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.queue: asyncio.Queue[Event | WarmlineError] = asyncio.Queue()

    def event(self, event: Event) -> None:
        _call(self._loop, self.queue.put_nowait, event)

    def error(self, error: WarmlineError) -> None:
        _call(self._loop, self.queue.put_nowait, error)


async def _events(receiver: _QueueReceiver, cancel: Callable[[], None]) -> AsyncGenerator[Event, None]:
    try:
        while True:
            item = await receiver.queue.get()
            if isinstance(item, WarmlineError):
                raise item
            yield item
            if isinstance(item, Done):
                return
    finally:
        cancel()


def _call(loop: asyncio.AbstractEventLoop, function: object, argument: object) -> None:
    try:
        loop.call_soon_threadsafe(function, argument)  # type: ignore[arg-type]  # a function of one argument
    except RuntimeError:
        # The loop has closed: nobody is left to be told.
        return
