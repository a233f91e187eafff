"""The ways to a host: two Unix sockets, or two ports on 127.0.0.1 and a token.

Ports are for systems where asyncio has no Unix sockets (Windows) and for runtime folders that cannot hold any:
WARMLINE_TRANSPORT=tcp asks for them. Every user of a machine can connect to a port. So the host writes its ports, with
a token that is new at each start, into a file that nobody else can read (`HostPaths.socket`), and answers nobody who
does not show the token first. A port that a dead host has left may be anybody's by now: nothing is sent to one whose
host does not hold its lease.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import os
import secrets
import stat
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import grpc
from filelock import FileLock, Timeout
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from .frames import framed
from .paths import HostPaths
from .rpc import CHANNEL_OPTIONS, method_path

LOOPBACK: Final = "127.0.0.1"
_TOKEN_BYTES: Final = 32
_SHOWN_AS: Final = "warmline-token"
# Who connects to a port and shows no token within this time is hung up on.
_SHOW_SECONDS: Final = 5.0
_LONGEST_FILE: Final = 4096

Metadata = tuple[tuple[str, str], ...]
P = TypeVar("P", bound=asyncio.Protocol)


class Ports(BaseModel):
    """What the file of a host on ports holds, as JSON."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    grpc: int = Field(ge=1, le=65535)
    stream: int = Field(ge=1, le=65535)
    token: str = Field(pattern=rf"^[0-9a-f]{{{2 * _TOKEN_BYTES}}}$")

    @property
    def greeting(self) -> bytes:
        """What a client sends first on the stream's port."""
        return framed(self.token.encode())


# -- the client's side -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Way:
    """A gRPC channel to a host, and what each call shows there."""

    channel: grpc.aio.Channel
    metadata: Metadata | None = None

    def one_answer(self, method: str, message: bytes, seconds: float | None = None) -> Any:
        """Call a method that answers once; bytes in, bytes out."""
        call: Any = self.channel.unary_unary(method_path(method))
        return call(message, timeout=seconds, metadata=self.metadata)

    def many_answers(self, method: str, message: bytes) -> Any:
        """Call a method that streams its answers; bytes in, bytes out."""
        call: Any = self.channel.unary_stream(method_path(method))
        return call(message, metadata=self.metadata)

    async def close(self, seconds: float = 0.0) -> None:
        """Close the channel; calls that run may end by themselves for so long."""
        await self.channel.close(seconds)

    async def __aenter__(self) -> Way:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def way_to(paths: HostPaths) -> Way | None:
    """Return a way to the host of `paths`, to be closed; None where none is to be found. Nothing is sent yet."""
    if not paths.tcp:
        return _channel(paths.address) if paths.socket.exists() else None
    ports = _ports_of(paths)
    return None if ports is None else _channel(f"{LOOPBACK}:{ports.grpc}", ((_SHOWN_AS, ports.token),))


async def connected(paths: HostPaths, make: Callable[[], P]) -> P:
    """Connect to the host's streams of generations; raises OSError where nobody listens."""
    loop = asyncio.get_running_loop()
    if not paths.tcp:
        _, call = await loop.create_unix_connection(make, str(paths.stream))
        return call
    ports = _ports_of(paths)
    if ports is None:
        raise ConnectionRefusedError("no host holds the lease")
    transport, call = await loop.create_connection(make, LOOPBACK, ports.stream)
    transport.write(ports.greeting)
    return call


def is_running(paths: HostPaths) -> bool:
    """Tell whether a host holds the lease."""
    lease = FileLock(paths.lease, timeout=0)
    with contextlib.suppress(Timeout):
        lease.acquire()
        lease.release()
        return False
    return True


def _channel(address: str, metadata: Metadata | None = None) -> Way:
    return Way(grpc.aio.insecure_channel(address, options=CHANNEL_OPTIONS), metadata)


def _ports_of(paths: HostPaths) -> Ports | None:
    try:
        with open(paths.socket, "rb") as file:
            status = os.fstat(file.fileno())
            data = file.read(_LONGEST_FILE)
    except OSError:
        return None
    if sys.platform != "win32" and (status.st_uid != os.getuid() or stat.S_IMODE(status.st_mode) & 0o077):
        return None  # not what a host writes
    try:
        ports = Ports.model_validate_json(data)
    except ValidationError:
        return None
    return ports if is_running(paths) else None


# -- the host's side -------------------------------------------------------------------------------------------------


class Door:
    """Where a host listens: gRPC, and before that the streams of generations."""

    def __init__(self, paths: HostPaths) -> None:
        self._paths = paths
        self._token = secrets.token_hex(_TOKEN_BYTES) if paths.tcp else ""
        self._listener: asyncio.Server | None = None

    @property
    def interceptors(self) -> list[grpc.aio.ServerInterceptor]:
        """What the gRPC server has to ask before it answers."""
        return [_Admission(self._token)] if self._token else []

    async def open(self, server: grpc.aio.Server, make: Callable[[], asyncio.Protocol]) -> None:
        """Listen, start the gRPC server, and be found; raises OSError where nothing can be listened on."""
        for path in self._files:
            with contextlib.suppress(FileNotFoundError):
                path.unlink()  # of a host that was killed; the lease says that none lives
        previous = os.umask(0o177)
        try:
            if self._token:
                await self._open_ports(server, make)
            else:
                loop = asyncio.get_running_loop()
                # First: whoever finds the other socket may use this one.
                self._listener = await loop.create_unix_server(make, str(self._paths.stream))
                # Under a name of its own: gRPC removes what it was bound to when it stops, whosever it is by then.
                bound = self._paths.folder / f"{os.getpid()}.new"
                with contextlib.suppress(FileNotFoundError):
                    bound.unlink()
                server.add_insecure_port(f"unix:{bound}")
                await server.start()
                bound.replace(self._paths.socket)
        finally:
            os.umask(previous)
        for path in self._files:
            path.chmod(0o600)

    async def _open_ports(self, server: grpc.aio.Server, make: Callable[[], asyncio.Protocol]) -> None:
        greeting = framed(self._token.encode())
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(lambda: _Admitting(greeting, make), LOOPBACK, 0)
        port = server.add_insecure_port(f"{LOOPBACK}:0")
        await server.start()
        ports = Ports(grpc=port, stream=self._listener.sockets[0].getsockname()[1], token=self._token)
        # Whole or not at all: a client may look for it now.
        beside = self._paths.socket.with_suffix(".new")
        beside.write_text(ports.model_dump_json(), "utf-8")
        beside.replace(self._paths.socket)

    @property
    def _files(self) -> tuple[Path, ...]:
        return (self._paths.socket,) if self._token else (self._paths.stream, self._paths.socket)

    @property
    def stands(self) -> bool:
        """Whether what clients find the host by is still there."""
        return all(os.path.lexists(path) for path in self._files)

    def shut(self) -> None:
        """Take no new streams; those that there are go on."""
        if self._listener is not None:
            self._listener.close()

    def remove(self) -> None:
        """Be found no more."""
        for path in self._files:
            with contextlib.suppress(OSError):
                path.unlink()


class _Admitting(asyncio.Protocol):
    """Reads a greeting off a new connection, and gives the connection to what `make` makes; hangs up on any other."""

    def __init__(self, greeting: bytes, make: Callable[[], asyncio.Protocol]) -> None:
        self._greeting = greeting
        self._make = make
        self._read = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._timer = asyncio.get_running_loop().call_later(_SHOW_SECONDS, transport.close)

    def data_received(self, data: bytes) -> None:
        self._read += data
        shown = self._read[: len(self._greeting)]
        if len(shown) < len(self._greeting):
            return
        self._timer.cancel()
        if not hmac.compare_digest(shown, self._greeting):
            self._transport.abort()
            return
        call = self._make()
        self._transport.set_protocol(call)
        call.connection_made(self._transport)
        if rest := self._read[len(shown) :]:
            call.data_received(rest)

    def connection_lost(self, _error: Exception | None) -> None:
        self._timer.cancel()


class _Admission(grpc.aio.ServerInterceptor):
    """Answers no call that does not show the token."""

    def __init__(self, token: str) -> None:
        self._token = token.encode()
        self._refusal: Any = grpc.unary_unary_rpc_method_handler(_refuse)

    async def intercept_service(
        self, continuation: Callable[[Any], Awaitable[Any]], details: grpc.HandlerCallDetails
    ) -> Any:
        shown = [value for key, value in details.invocation_metadata or () if key == _SHOWN_AS]
        if len(shown) == 1 and hmac.compare_digest(str(shown[0]).encode(), self._token):
            return await continuation(details)
        return self._refusal


async def _refuse(_request: bytes, context: Any) -> bytes:
    await context.abort(grpc.StatusCode.UNAUTHENTICATED, "this engine belongs to somebody else")
    raise AssertionError("abort raises")
