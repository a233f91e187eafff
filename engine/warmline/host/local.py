"""The engine in this very process, behind the same interface as one that runs in its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Hashable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from ..digests import DigestCache
from ..errors import WarmlineError
from ..trust import TrustStore
from ..variant import ResolvedVariant
from .effects import Effects
from .quarantine import CrashLedger
from .receiving import Receiver, in_loop, unexpected
from .service import EngineService
from .wire import ChatRequest, CompletionRequest, Done, EngineStatus, Event, Outcome, VariantStatus

if TYPE_CHECKING:
    from ..kv.pool import ContextPool

T = TypeVar("T")


class LocalEngine:
    """`EngineClient` over an `EngineService` of its own; native libraries are loaded at the first request.

    Parameters
    ----------
    home
        The user's store: approvals and the digest cache live there.
    approved
        Digests that count as approved besides the user's own approvals.
    host
        Whether this is the engine host's process: it keeps KV on disk and counts crashes.
    pool
        What keeps KV, in place of one that the settings describe.
    """

    def __init__(
        self,
        home: Path,
        approved: frozenset[str] = frozenset(),
        *,
        host: bool = False,
        pool: ContextPool | None = None,
    ) -> None:
        from ..backends.llama import LlamaBackend
        from ..backends.openvino import OpenVinoBackend
        from ..backends.openvino_native import installed
        from ..kv.disk import DiskSnapshots
        from ..kv.pool import ContextPool
        from ..kv.snapshots import SnapshotStore
        from ..settings import usable_settings

        trust = TrustStore(home / "trust.json")
        digests = self._digests = DigestCache(home / "cache" / "digests.json")
        self._crashes = CrashLedger(home / "crashes") if host else None
        if self._crashes is not None:
            self._crashes.open()
        settings = usable_settings(home)
        most, budget = settings.pipelines()
        on_disk = DiskSnapshots(settings.snapshots(home), settings.snapshot_disk_mib << 20) if host else None
        if pool is None:
            pool = ContextPool(settings.live_contexts, SnapshotStore(settings.snapshot_ram_mib << 20), on_disk)
        self._latest: dict[Hashable, object] = {}
        self._waiting: set[asyncio.Task[None]] = set()
        self._service = EngineService(
            LlamaBackend(digests),
            digests,
            lambda digest: digest in approved or trust.approved(digest),
            openvino=OpenVinoBackend(digests, warm_pipelines=most, pipeline_bytes=budget) if installed() else None,
            pool=pool,
            max_bases=settings.resident_bases,
            crashes=self._crashes,
            effects=Effects(home / "cache" / "effects.json" if host else None),
            log_prompts=host and settings.log_prompts,
        )

    def complete(self, request: CompletionRequest) -> AsyncGenerator[Event, None]:
        """See `EngineClient.complete`."""
        return self._events(request)

    def chat(self, request: ChatRequest) -> AsyncGenerator[Event, None]:
        """See `EngineClient.chat`."""
        return self._events(request)

    def soon(self, function: Callable[[], None]) -> None:
        """See `EngineService.soon`."""
        self._service.soon(function)

    def begin(self, request: CompletionRequest | ChatRequest, receiver: Receiver) -> Callable[[], None]:
        """Begin a request, in the loop's thread, and return what cancels it; `receiver` is told from any thread.

        One whose files have to be hashed first waits for that, and is superseded by a newer one of its kind, which may
        have found them hashed and have reached the scheduler first: there the older one would end it.
        """
        key: Hashable
        if isinstance(request, ChatRequest):
            key = (request.client, request.conversation)
        else:
            key = (request.client, request.document, request.candidate, request.idle)
        if self._service.is_quick(request.variant):
            self._latest.pop(key, None)
            return self._submit(request, receiver)
        ticket = self._latest[key] = object()
        submitted: list[Callable[[], None]] = []

        async def when_hashed() -> None:
            try:
                await self._hashed(request.variant)
                if self._latest.get(key) is ticket:
                    submitted.append(self._submit(request, receiver))
                else:
                    receiver.receive([Done(outcome=Outcome.SUPERSEDED, text="", predicted_tokens=0, total_ms=0.0)])
            except Exception as error:  # whatever it is, nobody must wait for ever
                receiver.error(unexpected(error))
            finally:
                if self._latest.get(key) is ticket:
                    del self._latest[key]

        waiting = asyncio.create_task(when_hashed())
        self._waiting.add(waiting)
        waiting.add_done_callback(self._waiting.discard)

        def cancel() -> None:
            waiting.cancel()
            for cancel_submitted in submitted:
                cancel_submitted()

        return cancel

    def _submit(self, request: CompletionRequest | ChatRequest, receiver: Receiver) -> Callable[[], None]:
        if isinstance(request, ChatRequest):
            return self._service.chat(request, receiver)
        return self._service.complete(request, receiver)

    async def _events(self, request: CompletionRequest | ChatRequest) -> AsyncGenerator[Event, None]:
        receiver = _QueueReceiver(asyncio.get_running_loop())
        cancel = self.begin(request, receiver)
        try:
            while True:
                events = await receiver.queue.get()
                if isinstance(events, WarmlineError):
                    raise events
                for event in events:
                    yield event
                if isinstance(events[-1], Done):
                    return
        finally:
            cancel()

    async def prewarm(self, request: CompletionRequest) -> None:
        """See `EngineClient.prewarm`."""
        self._service.prewarm(request)

    async def describe(self, variant: ResolvedVariant) -> VariantStatus:
        """See `EngineClient.describe`."""
        await self._hashed(variant)
        return await asyncio.to_thread(self._service.describe, variant)

    async def load(self, variant: ResolvedVariant, client: str = "") -> VariantStatus:
        """See `EngineClient.load`."""
        await self._hashed(variant)
        return await self._settled(lambda done, failed: self._service.load(variant, client, done, failed))

    async def status(self, client: str = "") -> EngineStatus:
        """See `EngineClient.status`."""
        return self._service.status(client)

    async def watch(self, client: str = "") -> AsyncIterator[EngineStatus]:
        """See `EngineClient.watch`."""
        loop = asyncio.get_running_loop()
        latest: asyncio.Queue[EngineStatus] = asyncio.Queue(maxsize=1)

        def replace(status: EngineStatus) -> None:
            if latest.full():
                latest.get_nowait()
            latest.put_nowait(status)

        stop = self._service.watch(lambda status: in_loop(loop, replace, status), client)
        try:
            while True:
                yield await latest.get()
        finally:
            stop()

    async def close(self) -> None:
        """See `EngineClient.close`."""
        self._digests.stop()
        await asyncio.to_thread(self._service.close)
        if self._crashes is not None:
            self._crashes.close()

    async def embed(self, variant: ResolvedVariant, text: str, client: str = "") -> list[float]:
        """See `EngineClient.embed`."""
        return await self._settled(lambda done, failed: self._service.embed(variant, client, text, done, failed))

    async def metrics(self) -> str:
        """See `EngineClient.metrics`."""
        return self._service.metrics_text()

    def serve_metrics(self, port: int) -> Callable[[], None]:
        """Serve the metrics over HTTP on 127.0.0.1 until what is returned is called; see `Metrics.serve`."""
        return self._service.serve_metrics(port)

    def save(self) -> None:
        """Write the hottest KV to disk when nothing else is to do."""
        self._service.save()

    async def _hashed(self, variant: ResolvedVariant) -> None:
        """Wait until what the variant names is hashed; giving up waiting is always possible."""
        if self._service.is_quick(variant):
            return
        loop = asyncio.get_running_loop()
        done = asyncio.Event()

        def work() -> None:
            try:
                self._service.hash_files(variant)
            finally:  # whatever happened, the request goes on: verifying says what is wrong
                in_loop(loop, done.set)

        # Not the loop's pool: a process that ends waits for those threads.
        threading.Thread(target=work, name="warmline-hash", daemon=True).start()
        await done.wait()

    async def _settled(
        self, begin: Callable[[Callable[[T], None], Callable[[WarmlineError], None]], Callable[[], None]]
    ) -> T:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()

        def succeed(result: T) -> None:
            if not future.done():
                future.set_result(result)

        def fail(error: WarmlineError) -> None:
            if not future.done():
                future.set_exception(error)

        cancel = begin(lambda result: in_loop(loop, succeed, result), lambda error: in_loop(loop, fail, error))
        try:
            return await future
        except asyncio.CancelledError:
            cancel()
            raise


class _QueueReceiver:
    """Brings events from the engine's thread to the loop's (`service.Receiver`)."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.queue: asyncio.Queue[Sequence[Event] | WarmlineError] = asyncio.Queue()

    def receive(self, events: Sequence[Event]) -> None:
        in_loop(self._loop, self.queue.put_nowait, events)

    def error(self, error: WarmlineError) -> None:
        in_loop(self._loop, self.queue.put_nowait, error)
