"""An engine host in the test's own loop, whose engine is made up, and messages with a value in every field."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import types
import typing
from collections.abc import AsyncIterator, Callable
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from warmline.errors import WarmlineError
from warmline.host.frames import framed
from warmline.host.outlet import Aside
from warmline.host.paths import host_paths
from warmline.host.receiving import Receiver
from warmline.host.remote import RemoteEngine
from warmline.host.rpc import decoder
from warmline.host.server import EngineHost
from warmline.host.ways import ADMITTED, LOOPBACK, Ports
from warmline.host.wire import ChatRequest, CompletionRequest, EngineStatus, Event, Started, Tell, VariantStatus
from warmline.variant import ResolvedVariant

#: For tests of what one of the ways to a host alone has.
ON_SOCKETS = pytest.mark.parametrize("runtime", ["unix"], indirect=True)
ON_PORTS = pytest.mark.parametrize("runtime", ["tcp"], indirect=True)
DIGEST = "sha256:" + "ab" * 32
BY_NAME: dict[str, Any] = {
    "digest": DIGEST,
    "source_digest": DIGEST,
    "identity": DIGEST,
    "device": "GPU.1",
    "name": "some-name",
    "percent": 77,
    "scale": Decimal("-0.1000001"),
}


def full(model: type[BaseModel]) -> Any:
    """Build an instance whose every field has a value that is not its default."""
    values = {}
    for name, field in model.model_fields.items():
        default = field.get_default(call_default_factory=True)
        value = sample(name, field.annotation, default)
        # A literal of one value has no other.
        assert value != default or typing.get_args(field.annotation) == (default,), f"{model.__name__}.{name}"
        values[name] = value
    return model(**values)


def sample(name: str, annotation: Any, default: Any = None) -> Any:
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return sample(name, arguments[0], default)
    if origin in (typing.Union, types.UnionType):
        return sample(name, next(one for one in arguments if one is not type(None)), default)
    if origin is typing.Literal:
        return next((one for one in arguments if one != default), default)
    if origin is tuple:
        return tuple(sample(name, one) for one in arguments if one is not Ellipsis)
    if origin is dict:
        return {sample("name", arguments[0]): sample(name, arguments[1])}
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return full(annotation)
    if dataclasses.is_dataclass(annotation):
        hints = typing.get_type_hints(annotation)
        fields = dataclasses.fields(annotation)
        return annotation(**{each.name: sample(each.name, hints[each.name], each.default) for each in fields})
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return next(one for one in annotation if one != default)
    if name in BY_NAME and BY_NAME[name] != default and annotation in (str, type(BY_NAME[name])):
        if annotation is str and not isinstance(BY_NAME[name], str):
            return str(BY_NAME[name])
        return BY_NAME[name]
    known: dict[Any, Any] = {
        bool: not default,
        str: "t€xt \U0001f600\n",
        int: 131,
        float: 0.25,
        Decimal: Decimal("0.5"),
        Path: Path("some/where"),
    }
    return known[annotation]


class Echo:
    """An engine that keeps what it is asked and answers what it is told to."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.events: list[Event] = []
        self.variant_status: VariantStatus = full(VariantStatus)
        self.engine_status: EngineStatus = full(EngineStatus)
        self.failure: Exception | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._aside = Aside()
        self.soon = self._aside.call

    def begin(self, request: CompletionRequest | ChatRequest, receiver: Receiver) -> Callable[[], object]:
        if self.failure is not None and not isinstance(self.failure, WarmlineError):
            raise self.failure
        task = asyncio.create_task(self._tell(request, receiver))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task.cancel

    async def _tell(self, request: CompletionRequest | ChatRequest, receiver: Receiver) -> None:
        try:
            async with contextlib.aclosing(self.generate(request)) as batches:  # type: ignore[type-var]
                async for events in batches:
                    receiver.receive(events)
        except WarmlineError as error:
            receiver.error(error)

    async def generate(self, request: CompletionRequest | ChatRequest) -> AsyncIterator[list[Event]]:
        self.asked.append(request)
        if self.failure:
            raise self.failure
        for first in range(0, len(self.events), 2):  # some become known together, some alone
            yield self.events[first : first + 2]

    async def describe(self, variant: ResolvedVariant, client: str = "") -> VariantStatus:
        self.asked.append(variant)
        return self.variant_status

    load = describe

    async def prewarm(self, request: CompletionRequest) -> None:
        self.asked.append(request)

    async def embed(self, variant: ResolvedVariant, text: str, client: str) -> list[float]:
        self.asked.append((variant, text))
        return [0.0, -1.5]

    async def metrics(self) -> str:
        return "some 1\n"

    async def status(self, client: str) -> EngineStatus:
        return self.engine_status

    async def watch(self, client: str) -> AsyncIterator[EngineStatus]:
        yield self.engine_status
        await asyncio.Event().wait()

    def save(self) -> None:
        pass

    async def close(self) -> None:
        self._aside.close()


class Served:
    """A host in this loop, and a client of it."""

    def __init__(self, home: Path, runtime: Path) -> None:
        self.echo = Echo()
        self.paths = host_paths(home)
        assert self.paths.folder == runtime
        self.host = EngineHost(self.paths, self.echo, idle_seconds=None)  # type: ignore[arg-type]
        self.client = RemoteEngine(home)

    @property
    def host_files(self) -> tuple[Path, ...]:
        """What clients find the host by."""
        return (self.paths.socket,) if self.paths.tcp else (self.paths.socket, self.paths.stream)

    async def __aenter__(self) -> Served:
        self._task = asyncio.create_task(self.host.run())
        while not self.paths.pid.exists():
            await asyncio.sleep(0.005)
            assert not self._task.done()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.client.close()
        self.host.stop()
        await self._task


read_tell = decoder(Tell)
NONCE = b"n" * 32


class Raw:
    """A client of the stream that says what it is told to."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def of(cls, served: Served) -> Raw:
        if not served.paths.tcp:
            return cls(*await asyncio.open_unix_connection(str(served.paths.stream)))
        ports = Ports.model_validate_json(served.paths.socket.read_bytes())
        one = cls(*await asyncio.open_connection(LOOPBACK, ports.stream))
        await one.prove(ports)
        return one

    async def prove(self, ports: Ports) -> None:
        """Stand the challenge of a host on ports."""
        self.writer.write(await self.proof(ports))
        assert await self.reader.readexactly(1) == ADMITTED

    async def proof(self, ports: Ports) -> bytes:
        """Begin the challenge, and give what a host that wrote `ports` waits for."""
        self.writer.write(NONCE)
        nonces = NONCE + await self.reader.readexactly(32)
        between = [self.writer.get_extra_info(name) for name in ("sockname", "peername")]
        await self.reader.readexactly(32)  # the host's own proof
        return ports.proof(b"client", nonces, *between)

    def say(self, *messages: bytes) -> None:
        self.writer.write(b"".join(map(framed, messages)))

    async def hear(self) -> Tell:
        length = int.from_bytes(await self.reader.readexactly(4), "big")
        return read_tell(await self.reader.readexactly(length))

    async def ended(self) -> bool:
        """Tell whether the host has hung up."""
        with contextlib.suppress(ConnectionError):
            async with asyncio.timeout(5):
                return await self.reader.read() == b""
        return True


def completion(**changes: Any) -> CompletionRequest:
    return full(CompletionRequest).model_copy(update=changes)  # type: ignore[no-any-return]


async def answered(served: Served, request: CompletionRequest) -> list[Event]:
    async with asyncio.timeout(10):
        return [event async for event in served.client.complete(request)]


async def nothing_left(served: Served) -> None:
    """Wait until the host serves no stream and runs no generation."""
    async with asyncio.timeout(5):
        while served.host._calls or served.host._open or served.echo._tasks:  # noqa: ASYNC110
            await asyncio.sleep(0.005)


async def endless(_request: CompletionRequest) -> AsyncIterator[list[Event]]:
    yield [full(Started)]
    await asyncio.Event().wait()
