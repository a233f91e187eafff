"""The engine in a process of its own: started on demand, reached over its sockets, restarted when it dies."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import grpc

from ..errors import BackendError, WarmlineError
from ..variant import ResolvedVariant
from .calls import CallEnded, ClientCall
from .paths import HostPaths, host_paths
from .process import check_answers, ensure_running, info
from .rpc import decoder, encode, error_from_details, stopping, too_large
from .ways import Way, way_to
from .wire import (
    ChatRequest,
    CompletionRequest,
    Embedding,
    EmbedRequest,
    Empty,
    EngineStatus,
    Event,
    HostInfo,
    Message,
    MetricsText,
    State,
    StatusRequest,
    VariantRequest,
    VariantStatus,
    protocol,
)

# After this many starts within the window the next one waits, twice as long each time.
_FREE_STARTS: Final = 3
_WINDOW_SECONDS: Final = 60.0
_FIRST_WAIT: Final = 0.5
_LONGEST_WAIT: Final = 20.0
_RECONNECT_SECONDS: Final = 0.25
# When a request is tried again that no host has begun, since each was about to leave.
_AGAIN_AFTER_SECONDS: Final = (0.0, 0.25, 1.0, None)
_CLOSE_SECONDS: Final = 5.0
_NOT_CONNECTED: Final = "failed to connect"  # how gRPC's core puts it

M = TypeVar("M", bound=Message)


@dataclass(eq=False, slots=True)
class _Host:
    """The ways to one host: gRPC, and the stream of generations as soon as there was one."""

    way: Way
    call: ClientCall | None = None

    async def close(self, seconds: float = 0.0) -> None:
        """Let what runs end by itself for so long."""
        call = self.call.close(seconds) if self.call is not None else asyncio.sleep(0)
        await asyncio.gather(self.way.close(seconds), call)


class RemoteEngine:
    """`EngineClient` over the engine host of a store.

    A host that dies costs the request that was running: it ends with BackendError ``backend.crashed``, and nothing of
    it is replayed. The next request starts a new host, with a growing pause when hosts die in a row.
    """

    def __init__(self, home: Path) -> None:
        self._paths: HostPaths = host_paths(home)
        self._host: _Host | None = None
        self._closing: set[asyncio.Task[None]] = set()
        self._closed = False
        self._starting = asyncio.Lock()
        self._starts: deque[float] = deque(maxlen=16)
        self._pid = 0

    def complete(self, request: CompletionRequest) -> AsyncGenerator[Event, None]:
        """See `EngineClient.complete`."""
        return self._events(request)

    def chat(self, request: ChatRequest) -> AsyncGenerator[Event, None]:
        """See `EngineClient.chat`."""
        return self._events(request)

    async def prewarm(self, request: CompletionRequest) -> None:
        """See `EngineClient.prewarm`."""
        await self._ask("Prewarm", request, Empty)

    async def describe(self, variant: ResolvedVariant) -> VariantStatus:
        """See `EngineClient.describe`."""
        return await self._ask("Describe", VariantRequest(variant=variant), VariantStatus)

    async def load(self, variant: ResolvedVariant, client: str = "") -> VariantStatus:
        """See `EngineClient.load`."""
        return await self._ask("Load", VariantRequest(variant=variant, client=client), VariantStatus)

    async def status(self, client: str = "") -> EngineStatus:
        """See `EngineClient.status`."""
        return await self._ask("Status", StatusRequest(client=client), EngineStatus)

    async def embed(self, variant: ResolvedVariant, text: str, client: str = "") -> list[float]:
        """See `EngineClient.embed`."""
        return list(
            (await self._ask("Embed", EmbedRequest(variant=variant, text=text, client=client), Embedding)).values
        )

    async def metrics(self) -> str:
        """See `EngineClient.metrics`."""
        return (await self._ask("Metrics", Empty(), MetricsText)).text

    async def info(self) -> HostInfo:
        """Say which host answers."""
        return await self._ask("Info", Empty(), HostInfo)

    async def watch(self, client: str = "") -> AsyncIterator[EngineStatus]:
        """See `EngineClient.watch`; a host that dies is told as state ``failed``, and its successor is watched."""
        read = decoder(EngineStatus)
        while True:
            host = None
            # Of a start that failed, who needed it hears; here it is waited for.
            with contextlib.suppress(WarmlineError):
                host = await self._found()
            if host is not None:
                with contextlib.suppress(grpc.aio.AioRpcError):
                    call = host.way.many_answers("Watch", encode(StatusRequest(client=client)))
                    try:
                        async for data in call:
                            yield read(data)
                    except asyncio.CancelledError:
                        if self._closed or _is_cancelled():
                            raise
                    finally:
                        call.cancel()
                self._let_go(host)
            yield EngineStatus(state=State.EMPTY)
            await self._until_there()

    async def _until_there(self) -> None:
        # A watcher starts no host, and ends none that speaks another protocol: it waits for whoever needs one. Each
        # socket is asked once, since asking keeps a host from leaving.
        asked: tuple[int, int] | None = None
        while True:
            with contextlib.suppress(OSError):
                status = os.stat(self._paths.socket)
                if (status.st_ino, status.st_mtime_ns) != asked:
                    found = await info(self._paths)
                    if found is not None:  # else it is what a killed host left, or one that is not ready yet
                        asked = (status.st_ino, status.st_mtime_ns)
                        if found.protocol == protocol():
                            return
            await asyncio.sleep(_RECONNECT_SECONDS)

    async def close(self) -> None:
        """Close the connection; the host goes on for others and leaves when it is idle."""
        self._closed = True
        host, self._host = self._host, None
        if host is not None:
            await host.close()
        for task in list(self._closing):
            task.cancel()
        await asyncio.gather(*self._closing, return_exceptions=True)

    async def _events(self, request: CompletionRequest | ChatRequest) -> AsyncGenerator[Event, None]:
        begun = False
        for wait in _AGAIN_AFTER_SECONDS:
            host = None
            try:
                host = self._host or await self._found()
                call = host.call or await self._called(host)
                async with contextlib.aclosing(call.events(request)) as events:
                    async for event in events:
                        begun = True
                        yield event
                return
            except CallEnded:
                raise await self._ended() from None
            except BackendError as error:
                if error.code != "backend.stopping" or begun or wait is None:
                    raise
            # The host was about to leave and has begun nothing: the next one takes it, once that one is gone.
            if host is not None:
                self._let_go(host)
            await asyncio.sleep(wait)

    async def _called(self, host: _Host) -> ClientCall:
        """Return the host's stream of generations, connected by whoever asks first."""
        async with self._starting:
            if host.call is None:
                try:
                    check = partial(check_answers, self._paths)
                    call = await ClientCall.connect(self._paths, partial(self._let_go, host), check)
                except OSError:
                    raise stopping() from None  # it has left since it was found
                if self._host is not host:  # who let go of it meanwhile closed what was there then
                    await call.close()
                    raise stopping()
                host.call = call
            return host.call

    def _let_go(self, host: _Host) -> None:
        """Forget a host that has left or died: what comes next looks for another one."""
        if self._host is host:
            self._host = None
            # With patience: what else runs there ends by itself, and would be cancelled by a close at once.
            task = asyncio.create_task(host.close(_CLOSE_SECONDS))
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    async def _ask(self, method: str, request: Message, model: type[M]) -> M:
        read = decoder(model)
        for wait in _AGAIN_AFTER_SECONDS:
            try:
                host = await self._found()
                return read(await self._answer(host, method, encode(request)))
            except BackendError as error:
                if error.code != "backend.stopping" or wait is None:
                    raise
            await asyncio.sleep(wait)
        raise AssertionError("the last one raises")

    async def _answer(self, host: _Host, method: str, data: bytes) -> bytes:
        try:
            answer: bytes = await host.way.one_answer(method, data)
            return answer
        except grpc.aio.AioRpcError as error:
            raise await self._explained(error, host) from None
        except asyncio.CancelledError:
            if _is_cancelled():
                raise
            raise await self._ended() from None  # it is the call that was cancelled, with its channel

    async def _found(self) -> _Host:
        async with self._starting:
            if self._host is None:
                await self._pause()
                found = await ensure_running(self._paths)
                if found.pid != self._pid:  # else it is the one that was let go of
                    self._pid = found.pid
                    self._starts.append(time.monotonic())
                way = way_to(self._paths)
                if way is None:
                    raise stopping()  # it has left since it was found
                self._host = _Host(way)
            return self._host

    async def _pause(self) -> None:
        recent = [at for at in self._starts if time.monotonic() - at < _WINDOW_SECONDS]
        beyond = len(recent) - _FREE_STARTS
        if beyond >= 0:
            await asyncio.sleep(min(_LONGEST_WAIT, _FIRST_WAIT * 2**beyond))

    async def _explained(self, error: grpc.aio.AioRpcError, host: _Host) -> WarmlineError:
        typed = error_from_details(error.details())
        if typed is not None:
            return typed
        if error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED:
            return too_large()
        self._let_go(host)
        if _NOT_CONNECTED in (error.details() or ""):
            return stopping()  # so nothing was begun
        return await self._ended()

    async def _ended(self) -> WarmlineError:
        """Say why a connection ended that something was awaited from."""
        try:
            await check_answers(self._paths)
        except WarmlineError as silent:
            return silent
        return BackendError(
            "the engine host ended while it was at work",
            code="backend.crashed",
            remedy="Ask again: it is started anew; `warmline engine logs` says more",
        )


def _is_cancelled() -> bool:
    """Tell whether somebody cancelled the current task, as opposed to a call that it waits for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
