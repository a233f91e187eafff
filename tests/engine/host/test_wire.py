"""Messages: every field survives the real channel, zero and default included; what is malformed gets an error."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import types
import typing
from collections.abc import AsyncIterator
from contextlib import suppress
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any

import grpc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel
from warmline.errors import BackendError, WarmlineError
from warmline.host import calls, process, server, wire
from warmline.host.calls import GENERATE, stopping
from warmline.host.paths import HostPaths
from warmline.host.process import ensure_running, info, stop
from warmline.host.remote import RemoteEngine
from warmline.host.rpc import CHANNEL_OPTIONS, MAX_MESSAGE, SERVICE, decoder, encode, one_answer
from warmline.host.server import EngineHost
from warmline.host.wire import (
    Ask,
    ChatRequest,
    ChatTurn,
    CompletionRequest,
    Delta,
    Done,
    EngineStatus,
    Event,
    Message,
    Started,
    State,
    Tell,
    VariantStatus,
    protocol,
)
from warmline.variant import ResolvedVariant

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


MESSAGES = [
    model
    for model in vars(wire).values()
    if isinstance(model, type) and issubclass(model, Message) and model is not Message
]


@pytest.mark.parametrize("model", MESSAGES, ids=lambda model: model.__name__)
def test_every_field_survives_the_codec(model: type[Message]) -> None:
    message = full(model)
    again = decoder(model)(encode(message))
    assert again == message
    assert {name: getattr(again, name) for name in model.model_fields} == dict(message)


class Echo:
    """An engine that keeps what it is asked and answers what it is told to."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.events: list[Event] = []
        self.variant_status: VariantStatus = full(VariantStatus)
        self.engine_status: EngineStatus = full(EngineStatus)
        self.failure: WarmlineError | None = None

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
        pass


@pytest.fixture
def runtime(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path_factory.mktemp("r")
    monkeypatch.setenv("WARMLINE_RUNTIME_DIR", str(folder))
    return folder


class Served:
    """A host in this loop, and a client of it."""

    def __init__(self, home: Path, runtime: Path) -> None:
        self.echo = Echo()
        self.paths = HostPaths(runtime, home)
        self._host = EngineHost(self.paths, self.echo, idle_seconds=None)  # type: ignore[arg-type]
        self.client = RemoteEngine(home)

    async def __aenter__(self) -> Served:
        self._task = asyncio.create_task(self._host.run())
        while not self.paths.pid.exists():
            await asyncio.sleep(0.005)
            assert not self._task.done()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.client.close()
        self._host.stop()
        await self._task


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


@given(texts, texts, st.integers(0, 2**31), st.lists(texts, max_size=3))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_is_sent_arrives_through_the_real_channel(
    tmp_path: Path, runtime: Path, text: str, other: str, number: int, pieces: list[str]
) -> None:
    async def run() -> None:
        async with Served(tmp_path, runtime) as served:
            request = full(CompletionRequest).model_copy(
                update={"prefix": text, "suffix": other, "first_line": number, "stop": tuple(pieces)}
            )
            started = full(Started).model_copy(update={"reused_tokens": 0, "reason": other})
            events = [started, *(Delta(text=piece) for piece in pieces), full(Done).model_copy(update={"text": text})]
            served.echo.events = events
            assert [event async for event in served.client.complete(request)] == events
            chat = full(ChatRequest).model_copy(update={"messages": (ChatTurn(role="user", content=text),)})
            assert [event async for event in served.client.chat(chat)] == events
            assert served.echo.asked == [request, chat]

    asyncio.run(run())


async def test_each_method_answers_what_the_engine_said(tmp_path: Path, runtime: Path) -> None:
    async with Served(tmp_path, runtime) as served:
        client, echo = served.client, served.echo
        variant: ResolvedVariant = full(ResolvedVariant)
        assert await client.describe(variant) == await client.load(variant) == echo.variant_status
        assert await client.status() == echo.engine_status
        assert await client.embed(variant, "é") == [0.0, -1.5]
        assert await client.metrics() == "some 1\n"
        await client.prewarm(full(CompletionRequest))
        watched = client.watch()
        assert await anext(watched) == echo.engine_status
        await watched.aclose()
        assert (await client.info()).home == str(tmp_path)
        assert echo.asked == [variant, variant, (variant, "é"), full(CompletionRequest)]


async def test_typed_errors_cross_whole(tmp_path: Path, runtime: Path) -> None:
    async with Served(tmp_path, runtime) as served:
        served.echo.failure = BackendError(
            "what — was wrong", code="backend.some", file="/a/ü.json", field="adapters[0].scale", remedy="Do this"
        )
        with pytest.raises(BackendError) as caught:
            [event async for event in served.client.complete(full(CompletionRequest))]
        assert caught.value.to_dict() == served.echo.failure.to_dict()


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"client": 1}', b"\xff\xfe", b'{"unknown": true}', b"[" * 5000])
async def test_malformed_messages_get_an_error_and_the_host_lives_on(
    tmp_path: Path, runtime: Path, data: bytes
) -> None:
    async with Served(tmp_path, runtime) as served:
        async with grpc.aio.insecure_channel(served.paths.address, options=CHANNEL_OPTIONS) as channel:
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await one_answer(channel, "Describe")(data)
            assert "backend.message" in (caught.value.details() or "")
            with pytest.raises(grpc.aio.AioRpcError):
                await one_answer(channel, "NoSuchMethod")(data)
        assert await served.client.status() == served.echo.engine_status


async def test_oversized_messages_get_a_typed_error_and_the_host_lives_on(tmp_path: Path, runtime: Path) -> None:
    async with Served(tmp_path, runtime) as served:
        request = full(CompletionRequest).model_copy(update={"prefix": "x" * (MAX_MESSAGE + 1)})
        with pytest.raises(BackendError) as caught:
            [event async for event in served.client.complete(request)]
        assert caught.value.code == "backend.message_size"
        assert await served.client.status() == served.echo.engine_status


async def test_a_generation_that_ends_early_is_an_error_not_an_answer(tmp_path: Path, runtime: Path) -> None:
    async with Served(tmp_path, runtime) as served:
        served.echo.events = [full(Started)]
        with pytest.raises(BackendError) as caught:
            [event async for event in served.client.complete(full(CompletionRequest))]
        assert caught.value.code == "backend.internal"


async def test_socket_and_folder_are_private_and_a_second_host_is_refused(tmp_path: Path, runtime: Path) -> None:
    async with Served(tmp_path, runtime) as served:
        assert served.paths.socket.stat().st_mode & 0o777 == 0o600
        with pytest.raises(BackendError) as caught:
            await EngineHost(served.paths, served.echo, idle_seconds=None).run()  # type: ignore[arg-type]
        assert caught.value.code == "backend.host_running"
        assert await served.client.status() == served.echo.engine_status
    assert not served.paths.socket.exists()


def test_an_event_of_another_kind_is_malformed() -> None:
    with pytest.raises(BackendError) as caught:
        decoder(Tell)(b'{"number": 1, "events": [{"kind": "surprise"}]}')
    assert caught.value.code == "backend.message"


async def test_what_is_no_ask_gets_an_error_and_the_call_goes_on(tmp_path: Path, runtime: Path) -> None:
    async with Served(tmp_path, runtime) as served:
        served.echo.events = [full(Done)]
        async with grpc.aio.insecure_channel(served.paths.address, options=CHANNEL_OPTIONS) as channel:
            call: Any = channel.stream_stream(f"/{SERVICE}/{GENERATE}")()
            for data in (b"", b"[]", b'{"number": 0}', b'{"number": 1, "more": 2}', b'{"number": 9}'):
                await call.write(data)
            await call.write(encode(Ask(number=3, complete=full(CompletionRequest))))
            read = decoder(Tell)
            tells = [read(await call.read()) for _ in range(5)]
            assert [tell.number for tell in tells] == [0, 0, 0, 1, 3]
            assert {tell.error.code for tell in tells if tell.error} == {"backend.message"}
            assert tells[-1].events == (full(Done),)
            call.cancel()


async def test_many_generations_share_a_call_and_each_is_cancelled_alone(tmp_path: Path, runtime: Path) -> None:
    async with Served(tmp_path, runtime) as served:
        ended: list[str] = []
        gone = asyncio.Event()

        async def generate(request: CompletionRequest) -> AsyncIterator[list[Event]]:
            try:
                yield [full(Started)]
                if request.document == "short":
                    yield [full(Done)]
                else:
                    await asyncio.Event().wait()
            finally:
                ended.append(request.document)
                gone.set()

        served.echo.generate = generate  # type: ignore[method-assign, assignment]
        asked = full(CompletionRequest)
        streams = {
            name: served.client.complete(asked.model_copy(update={"document": name}))
            for name in ("one", "two", "short")
        }
        for stream in streams.values():
            assert await anext(stream) == full(Started)
        assert await anext(streams["short"]) == full(Done)
        gone.clear()
        await streams["one"].aclose()  # type: ignore[attr-defined]
        await gone.wait()
        assert sorted(ended) == ["one", "short"]
        assert (await served.client.info()).requests >= 3
    assert "two" in ended


async def test_a_host_that_left_is_no_error_for_who_asks_next(tmp_path: Path, runtime: Path) -> None:
    client = RemoteEngine(tmp_path)
    for _ in range(2):
        async with Served(tmp_path, runtime) as served:
            served.echo.events = [full(Done)]
            assert [event async for event in client.complete(full(CompletionRequest))] == [full(Done)]
    await client.close()


async def test_who_is_cancelled_at_any_moment_takes_nobody_along(tmp_path: Path, runtime: Path) -> None:
    async with Served(tmp_path, runtime) as served:
        served.echo.events = [full(Started), full(Done)]
        big = full(CompletionRequest).model_copy(update={"prefix": "x" * 300_000})  # takes gRPC a while to write

        async def ask() -> list[Event]:
            return [event async for event in served.client.complete(big)]

        for turns in range(12):
            given_up, kept = asyncio.create_task(ask()), asyncio.create_task(ask())
            for _ in range(turns):
                await asyncio.sleep(0)
            given_up.cancel()
            assert await kept == served.echo.events
            with suppress(asyncio.CancelledError):
                await given_up


def of_other_source(message: Message) -> bytes:
    """Write a message as a client would whose requests have a field more."""
    data = json.loads(encode(message))
    if data.get("complete"):
        data["complete"]["surprise"] = True
    return json.dumps(data).encode()


@pytest.mark.parametrize("reads_numbers", [True, False])
async def test_a_request_that_the_host_cannot_read_ends_with_its_error(
    tmp_path: Path, runtime: Path, monkeypatch: pytest.MonkeyPatch, reads_numbers: bool
) -> None:
    async with Served(tmp_path, runtime) as served:
        ended = asyncio.Event()

        async def generate(_request: CompletionRequest) -> AsyncIterator[list[Event]]:
            try:
                yield [full(Started)]
                await asyncio.Event().wait()
            finally:
                ended.set()

        served.echo.generate = generate  # type: ignore[method-assign, assignment]
        other = served.client.complete(full(CompletionRequest))
        assert await anext(other) == full(Started)
        monkeypatch.setattr(calls, "encode", of_other_source)
        if not reads_numbers:
            monkeypatch.setattr(calls, "_number_of", lambda _data: 0)
        with pytest.raises(BackendError) as caught:
            await asyncio.wait_for(anext(served.client.complete(full(CompletionRequest))), 5)
        assert (caught.value.code, "warmline engine stop" in caught.value.remedy) == ("backend.message", True)
        if reads_numbers:
            assert not ended.is_set()  # the error is one request's alone
            await other.aclose()  # type: ignore[attr-defined]
        else:
            with pytest.raises(BackendError):
                await asyncio.wait_for(anext(other), 5)
        await asyncio.wait_for(ended.wait(), 5)


async def test_an_answer_that_cannot_be_read_ends_its_request(
    tmp_path: Path, runtime: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Served(tmp_path, runtime) as served:
        served.echo.events = [full(Started), full(Done)]
        monkeypatch.setattr(calls, "encode", lambda m: encode(m).replace(b'"kind":"started"', b'"kind":"begun"'))
        with pytest.raises(BackendError) as caught:
            await asyncio.wait_for(anext(served.client.complete(full(CompletionRequest))), 5)
        assert caught.value.code == "backend.message"


async def test_an_engine_that_fails_unexpectedly_ends_the_request(tmp_path: Path, runtime: Path) -> None:
    async with Served(tmp_path, runtime) as served:
        served.echo.failure = ValueError("some text of a document")  # type: ignore[assignment]
        with pytest.raises(BackendError) as caught:
            await asyncio.wait_for(anext(served.client.complete(full(CompletionRequest))), 5)
        assert (caught.value.code, "document" in str(caught.value)) == ("backend.internal", False)


async def test_an_idle_host_that_speaks_otherwise_makes_way_and_a_busy_one_is_left_alone(
    tmp_path: Path, runtime: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "protocol", lambda: "of other source")
    served = Served(tmp_path, runtime)
    await served.__aenter__()
    served.echo.engine_status = EngineStatus(state=State.BUSY)
    with pytest.raises(BackendError) as caught:
        await ensure_running(served.paths)
    assert caught.value.code == "backend.host_protocol"
    found = await info(served.paths)
    assert found is not None and (found.pid, found.protocol) == (os.getpid(), "of other source")
    served.echo.engine_status = EngineStatus(state=State.READY)
    try:
        own = await ensure_running(served.paths)
        assert own.pid != os.getpid()
        assert own.protocol == protocol()
        assert await ensure_running(served.paths) == own.model_copy(update={"requests": own.requests + 1})
    finally:
        await served.client.close()
        await asyncio.to_thread(stop, served.paths)


async def test_half_a_character_is_sent_as_the_replacement_for_it(tmp_path: Path, runtime: Path) -> None:
    async with Served(tmp_path, runtime) as served:
        served.echo.events = [full(Done)]
        text = {"prefix": "a\ud83d\U0001f600", "suffix": "\udc00", "context": ("\ud800",), "header": "x\udfff"}
        request = CompletionRequest(client="c", document="d", variant=full(ResolvedVariant), **text)
        assert [event async for event in served.client.complete(request)] == [full(Done)]
        asked = served.echo.asked[0]
        found = (asked.prefix, asked.suffix, asked.context, asked.header)
        assert found == ("a�\U0001f600", "�", ("�",), "x�")


async def test_a_path_that_is_not_unicode_is_a_typed_error(tmp_path: Path, runtime: Path) -> None:
    async with Served(tmp_path, runtime) as served:
        variant: ResolvedVariant = full(ResolvedVariant)
        base = variant.base.model_copy(update={"path": Path("models/\udcff.gguf")})
        with pytest.raises(BackendError) as caught:
            await served.client.describe(variant.model_copy(update={"base": base}))
        assert caught.value.code == "backend.message"


async def test_a_request_that_is_given_up_before_it_was_sent_is_not_sent(tmp_path: Path, runtime: Path) -> None:
    async with Served(tmp_path, runtime) as served:
        served.echo.events = [full(Done)]
        request = full(CompletionRequest)

        async def ask(name: str) -> list[Event]:
            asked = request.model_copy(update={"document": name})
            return [event async for event in served.client.complete(asked)]

        await ask("first")  # the call is there
        request = request.model_copy(update={"prefix": "x" * 4_000_000})  # while one is written, the others wait
        tasks = [asyncio.create_task(ask(str(number))) for number in range(6)]
        await asyncio.sleep(0)
        for task in tasks[:-1]:
            task.cancel()
        assert await tasks[-1] == [full(Done)]
        asked = [asked.document for asked in served.echo.asked]
        assert asked[-1] == "5"
        assert len(asked) <= 3


async def test_what_a_leaving_host_did_not_begin_is_asked_again_and_once_alone(tmp_path: Path, runtime: Path) -> None:
    async with Served(tmp_path, runtime) as served:
        served.echo.events = [full(Done)]
        request = full(CompletionRequest)
        assert [event async for event in served.client.complete(request)] == [full(Done)]
        for call in served._host._calls:
            call._hanging_up = True
        assert [event async for event in served.client.complete(request)] == [full(Done)]
        assert len(served.echo.asked) == 2
        served.echo.failure = stopping()
        with pytest.raises(BackendError) as caught:
            [event async for event in served.client.complete(request)]
        assert caught.value.code == "backend.stopping"
        assert len(served.echo.asked) == 4


async def test_what_runs_when_the_host_leaves_is_told_so(tmp_path: Path, runtime: Path) -> None:
    async with Served(tmp_path, runtime) as served:

        async def generate(_request: CompletionRequest) -> AsyncIterator[list[Event]]:
            yield [full(Started)]
            await asyncio.Event().wait()

        served.echo.generate = generate  # type: ignore[method-assign, assignment]
        stream = served.client.complete(full(CompletionRequest))
        assert await anext(stream) == full(Started)
        served._host.stop()
        with pytest.raises(BackendError) as caught:
            await anext(stream)
        assert caught.value.code == "backend.stopping"


async def test_a_watcher_outlives_hosts_and_starts_none(tmp_path: Path, runtime: Path) -> None:
    client = RemoteEngine(tmp_path)
    seen: list[State] = []

    async def follow() -> None:
        async for status in client.watch("c"):
            seen.append(status.state)

    following: asyncio.Task[None] | None = None
    for _ in range(2):
        async with Served(tmp_path, runtime) as served:
            served.echo.events = [full(Done)]
            following = following or asyncio.create_task(follow())
            await anext(client.complete(full(CompletionRequest)))  # the shared call is open when the host leaves
            async with asyncio.timeout(10):
                while seen[-1:] != [served.echo.engine_status.state]:  # noqa: ASYNC110
                    await asyncio.sleep(0.02)
        # What a host leaves that is killed.
        HostPaths(runtime, tmp_path).socket.touch()
        async with asyncio.timeout(10):
            while seen[-1:] != [State.EMPTY]:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        await asyncio.sleep(0.3)
        assert following is not None
        assert not following.done()
        assert not HostPaths(runtime, tmp_path).pid.exists()  # it waits
    assert following is not None
    following.cancel()
    await client.close()


async def test_a_host_that_was_started_here_is_taken_also_when_what_is_installed_has_changed(
    tmp_path: Path, runtime: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "protocol", lambda: "as this program was when it was started")
    paths = HostPaths(runtime, tmp_path)
    try:
        found = await ensure_running(paths, 20)
        assert found.protocol == protocol()
    finally:
        await asyncio.to_thread(stop, paths)
