"""The engine in a process of its own: started on demand, reached over gRPC, restarted when it dies."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import grpc

from ..errors import BackendError, WarmlineError
from ..variant import ResolvedVariant
from .calls import CallEnded, ClientCall, too_large
from .paths import HostPaths, host_paths
from .process import ensure_running, info
from .rpc import CHANNEL_OPTIONS, decoder, encode, error_from_details, many_answers, one_answer
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

M = TypeVar("M", bound=Message)


class RemoteEngine:
    """`EngineClient` over the engine host of a store.

    A host that dies costs the request that was running: it ends with BackendError ``backend.crashed``, and nothing of
    it is replayed. The next request starts a new host, with a growing pause when hosts die in a row.
    """

    def __init__(self, home: Path) -> None:
        self._paths: HostPaths = host_paths(home)
        self._channel: grpc.aio.Channel | None = None
        self._call: ClientCall | None = None
        self._closing: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()
        self._starts: deque[float] = deque(maxlen=16)

    async def complete(self, request: CompletionRequest) -> AsyncIterator[Event]:
        """See `EngineClient.complete`."""
        async with contextlib.aclosing(self._events(request)) as events:
            async for event in events:
                yield event

    async def chat(self, request: ChatRequest) -> AsyncIterator[Event]:
        """See `EngineClient.chat`."""
        async with contextlib.aclosing(self._events(request)) as events:
            async for event in events:
                yield event

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
            with contextlib.suppress(grpc.aio.AioRpcError):
                channel = await self._connected()
                call = many_answers(channel, "Watch")(encode(StatusRequest(client=client)))
                try:
                    async for data in call:
                        yield read(data)
                finally:
                    call.cancel()
            await self._disconnect()
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
                    asked = (status.st_ino, status.st_mtime_ns)
                    found = await info(self._paths)
                    if found is None or found.protocol == protocol():
                        return
            await asyncio.sleep(_RECONNECT_SECONDS)

    async def close(self) -> None:
        """Close the connection; the host goes on for others and leaves when it is idle."""
        await self._disconnect()

    async def _events(self, request: CompletionRequest | ChatRequest) -> AsyncGenerator[Event, None]:
        channel = await self._connected()
        if self._call is None:
            self._call = ClientCall(channel, lambda: self._call_ended(channel))
        try:
            async with contextlib.aclosing(self._call.events(request)) as events:
                async for event in events:
                    yield event
        except CallEnded as end:
            if end.cause is not None:
                raise await self._explained(end.cause) from None
            raise _crashed() from None

    def _call_ended(self, channel: grpc.aio.Channel) -> None:
        # The host has left or died: what comes next looks for another one.
        if self._channel is channel:
            self._channel = self._call = None
            self._closing = asyncio.create_task(channel.close())

    async def _ask(self, method: str, request: Message, model: type[M]) -> M:
        read: Callable[[bytes], M] = decoder(model)
        channel = await self._connected()
        try:
            answer: Any = await one_answer(channel, method)(encode(request))
        except grpc.aio.AioRpcError as error:
            raise await self._explained(error) from None
        return read(answer)

    async def _connected(self) -> grpc.aio.Channel:
        async with self._starting:
            if self._channel is None:
                await self._pause()
                await ensure_running(self._paths)
                self._starts.append(time.monotonic())
                self._channel = grpc.aio.insecure_channel(self._paths.address, options=CHANNEL_OPTIONS)
            return self._channel

    async def _pause(self) -> None:
        recent = [at for at in self._starts if time.monotonic() - at < _WINDOW_SECONDS]
        beyond = len(recent) - _FREE_STARTS
        if beyond >= 0:
            await asyncio.sleep(min(_LONGEST_WAIT, _FIRST_WAIT * 2**beyond))

    async def _disconnect(self) -> None:
        channel, self._channel, self._call = self._channel, None, None
        if channel is not None:
            await channel.close()

    async def _explained(self, error: grpc.aio.AioRpcError) -> WarmlineError:
        typed = error_from_details(error.details())
        if typed is not None:
            return typed
        if error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED:
            return too_large()
        await self._disconnect()
        return _crashed()


def _crashed() -> BackendError:
    return BackendError(
        "the engine host ended while it was at work",
        code="backend.crashed",
        remedy="Ask again: it is started anew; `warmline engine logs` says more",
    )
