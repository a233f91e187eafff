"""The engine host: an `EngineService` behind its `Door`, one for each user, version and store.

Generations go over streams of their own (`hostcalls`), all else over gRPC.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

import grpc
from filelock import FileLock, Timeout

from .. import __version__
from ..errors import BackendError, WarmlineError
from .hostcalls import HostCall
from .local import LocalEngine
from .paths import HostPaths
from .process import note_leaving
from .rpc import MAX_MESSAGE, SERVICE, decoder, encode, error_details
from .ways import Door
from .wire import (
    CompletionRequest,
    Embedding,
    EmbedRequest,
    Empty,
    EngineStatus,
    HostInfo,
    Message,
    MetricsText,
    StatusRequest,
    StopRequest,
    VariantRequest,
    VariantStatus,
    protocol,
)

IDLE_SECONDS: Final = 15 * 60.0
# Whoever asks whether a host runs has the lease for a moment.
_LEASE_SECONDS: Final = 0.2
_GRACE_SECONDS: Final = 2.0
_TICK_SECONDS: Final = 0.5
_SAVE_AFTER_SECONDS: Final = 20.0
_log = logging.getLogger(__name__)

M = TypeVar("M", bound=Message)
Context = grpc.aio.ServicerContext[Any, Any]


class EngineHost:
    """Serves one engine until it is told to stop, or nobody has used it for a while.

    Parameters
    ----------
    paths
        Sockets, lease and store.
    engine
        What answers.
    idle_seconds
        Leaves after this long without a request and without a watcher; None for never.
    metrics_port
        Port of a Prometheus endpoint on 127.0.0.1; 0 for none. One that cannot be had costs the endpoint alone.
    """

    def __init__(
        self,
        paths: HostPaths,
        engine: LocalEngine,
        idle_seconds: float | None = IDLE_SECONDS,
        metrics_port: int = 0,
    ) -> None:
        self._paths = paths
        self._engine = engine
        self._idle_seconds = idle_seconds
        self._metrics_port = metrics_port
        self._started_at = datetime.now(UTC).isoformat(timespec="seconds")
        self._requests = 0
        self._open = 0
        self._idle_since = 0.0
        self._active_at = 0.0
        self._stop = asyncio.Event()
        self._calls: set[HostCall] = set()
        self._leaving = False
        self._leased: tuple[int, int] | None = None

    async def run(self) -> None:
        """Serve until stopped.

        Raises
        ------
        BackendError
            ``backend.host_running``: another host holds the lease. ``backend.listen``: no socket or port can be had.
        """
        lease = FileLock(self._paths.lease, timeout=_LEASE_SECONDS)
        try:
            lease.acquire(poll_interval=_LEASE_SECONDS / 20)
        except Timeout:
            raise BackendError(
                "an engine host of this version runs already",
                code="backend.host_running",
                file=str(self._paths.socket),
                remedy="Use it, or stop it: warmline engine stop",
            ) from None
        self._leased = self._lease()
        with contextlib.suppress(FileNotFoundError):
            self._paths.pid.unlink()  # of a host that was killed: that number may be another process's by now
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            with contextlib.suppress(NotImplementedError):  # Windows: there it is asked to leave
                loop.add_signal_handler(number, self._stop.set)
        self._idle_since = self._active_at = loop.time()
        door = Door(self._paths)
        server = grpc.aio.server(options=door.options)
        server.add_generic_rpc_handlers((self._handlers(),))
        try:
            try:
                await door.open(server, self._call)
            except (OSError, RuntimeError) as error:  # the second is gRPC's
                why, where = getattr(error, "strerror", None), getattr(error, "filename", None)
                raise BackendError(
                    f"the engine cannot listen: {why or 'no socket or port can be had'}",
                    code="backend.listen",
                    file=str(where or self._paths.socket),
                    remedy="Remove what stands there, and see to it that the folder is yours to write",
                ) from error
            self._paths.pid.write_text(f"{os.getpid()}\n")
            with self._endpoint():
                await self._until_stopped(door)
        finally:
            door.shut()
            if self._leads():
                note_leaving(self._paths)
            self._leaving = True  # who had connected, and not yet proven who it is, comes after this
            for call in list(self._calls):
                call.hang_up(_GRACE_SECONDS / 2)
            await asyncio.gather(server.stop(_GRACE_SECONDS), *(call.over() for call in self._calls))
            await self._engine.close()
            if self._leads():  # else these files are another host's
                door.remove()
                with contextlib.suppress(OSError):
                    self._paths.pid.unlink()
            lease.release()

    def stop(self) -> None:
        """Ask `run` to end; call it in the loop's thread."""
        self._stop.set()

    @contextlib.contextmanager
    def _endpoint(self) -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            if self._metrics_port:
                try:
                    stack.callback(self._engine.serve_metrics(self._metrics_port))
                except OSError as error:
                    _log.error("no metrics on 127.0.0.1:%d: %s", self._metrics_port, error.strerror or error)
                    self._metrics_port = 0
            yield

    async def _until_stopped(self, door: Door) -> None:
        loop = asyncio.get_running_loop()
        saved, lost = self._requests, 0
        while not self._stop.is_set():
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._stop.wait(), _TICK_SECONDS)
            # Twice, so that nobody who just moves a file ends the engine.
            lost = 0 if self._leads() and door.stands else lost + 1
            if lost > 1 and not any(call.busy for call in self._calls):
                _log.warning("the runtime folder was emptied: nobody can find this engine any more, it leaves")
                return
            quiet = loop.time() - self._active_at
            if quiet >= _SAVE_AFTER_SECONDS and saved != self._requests:
                saved = self._requests
                self._engine.save()
            if (
                self._idle_seconds is not None
                and not self._open
                and loop.time() - self._idle_since >= self._idle_seconds
            ):
                return

    def _lease(self) -> tuple[int, int] | None:
        try:
            status = os.stat(self._paths.lease)
        except OSError:
            return None
        return status.st_dev, status.st_ino

    def _leads(self) -> bool:
        """Tell whether the lease that this host holds is still the one that others ask for.

        A runtime folder may be emptied under a host: then the next one holds another. The number of a file that is held
        open is given to no other.
        """
        return self._leased is not None and self._lease() == self._leased

    def _begun(self) -> None:
        self._requests += 1
        self._open += 1
        self._active_at = asyncio.get_running_loop().time()

    def _ended(self) -> None:
        self._open -= 1
        self._idle_since = asyncio.get_running_loop().time()

    @contextlib.contextmanager
    def _in_use(self) -> Iterator[None]:
        self._begun()
        try:
            yield
        finally:
            self._ended()

    # -- methods -------------------------------------------------------------------------------------------------

    def _call(self) -> HostCall:
        return HostCall(
            self._engine, self._engine.soon, self._calls, self._begun, self._ended, leaving=lambda: self._leaving
        )

    def _handlers(self) -> grpc.GenericRpcHandler:
        methods = {
            "Watch": self._streaming(StatusRequest, lambda request: self._engine.watch(request.client)),
            "Describe": self._answering(VariantRequest, self._describe),
            "Load": self._answering(VariantRequest, self._load),
            "Prewarm": self._answering(CompletionRequest, self._prewarm),
            "Embed": self._answering(EmbedRequest, self._embed),
            "Metrics": self._answering(Empty, self._metrics),
            "Status": self._answering(StatusRequest, self._status),
            "Info": self._answering(Empty, self._info),
            "Stop": self._answering(StopRequest, self._stopping),
        }
        return grpc.method_handlers_generic_handler(SERVICE, methods)

    async def _describe(self, request: VariantRequest) -> VariantStatus:
        return await self._engine.describe(request.variant)

    async def _load(self, request: VariantRequest) -> VariantStatus:
        return await self._engine.load(request.variant, request.client)

    async def _prewarm(self, request: CompletionRequest) -> Empty:
        await self._engine.prewarm(request)
        return Empty()

    async def _embed(self, request: EmbedRequest) -> Embedding:
        return Embedding(values=tuple(await self._engine.embed(request.variant, request.text, request.client)))

    async def _metrics(self, _request: Empty) -> MetricsText:
        return MetricsText(text=await self._engine.metrics())

    async def _status(self, request: StatusRequest) -> EngineStatus:
        return await self._engine.status(request.client)

    async def _info(self, _request: Empty) -> HostInfo:
        return HostInfo(
            pid=os.getpid(),
            version=__version__,
            home=str(self._paths.home),
            started_at=self._started_at,
            requests=self._requests,
            metrics_port=self._metrics_port,
            protocol=protocol(),
        )

    async def _stopping(self, _request: StopRequest) -> Empty:
        asyncio.get_running_loop().call_soon(self._stop.set)
        return Empty()

    def _answering(self, model: type[M], method: Callable[[M], Awaitable[Message]]) -> Any:
        decode = decoder(model)

        async def handle(data: bytes, context: Context) -> bytes:
            with self._in_use():
                try:
                    return encode(await method(decode(data)))
                except WarmlineError as error:
                    await context.abort(grpc.StatusCode.FAILED_PRECONDITION, error_details(error))
            raise AssertionError("abort raises")

        return grpc.unary_unary_rpc_method_handler(handle)

    def _streaming(self, model: type[M], method: Callable[[M], AsyncIterator[EngineStatus]]) -> Any:
        decode = decoder(model)

        async def handle(data: bytes, context: Context) -> AsyncIterator[bytes]:
            with self._in_use():
                try:
                    async with contextlib.aclosing(method(decode(data))) as messages:  # type: ignore[type-var]
                        async for message in messages:
                            yield encode(message)
                except WarmlineError as error:
                    await context.abort(grpc.StatusCode.FAILED_PRECONDITION, error_details(error))

        return grpc.unary_stream_rpc_method_handler(handle)


__all__ = ["IDLE_SECONDS", "MAX_MESSAGE", "EngineHost"]
