"""Messages: every field survives the real channel, zero and default included; what is malformed gets an error."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from contextlib import suppress
from pathlib import Path

import grpc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from served_host import Served, full
from warmline.errors import BackendError
from warmline.host import process, server, wire
from warmline.host.paths import HostPaths, host_paths
from warmline.host.process import ensure_running, info, stop
from warmline.host.remote import RemoteEngine
from warmline.host.rpc import decoder, encode
from warmline.host.server import EngineHost
from warmline.host.ways import way_to
from warmline.host.wire import (
    ChatRequest,
    ChatTurn,
    CompletionRequest,
    Delta,
    Done,
    EngineStatus,
    Message,
    Started,
    State,
    protocol,
)
from warmline.variant import ResolvedVariant

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
        way = way_to(served.paths)
        assert way is not None
        async with way:
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await way.one_answer("Describe", data)
            assert "backend.message" in (caught.value.details() or "")
            with pytest.raises(grpc.aio.AioRpcError):
                await way.one_answer("NoSuchMethod", data)
        assert await served.client.status() == served.echo.engine_status


async def test_socket_and_folder_are_private_and_a_second_host_is_refused(tmp_path: Path, runtime: Path) -> None:
    async with Served(tmp_path, runtime) as served:
        for socket in served.host_files:
            assert socket.stat().st_mode & 0o777 == 0o600
        with pytest.raises(BackendError) as caught:
            await EngineHost(served.paths, served.echo, idle_seconds=None).run()  # type: ignore[arg-type]
        assert caught.value.code == "backend.host_running"
        assert await served.client.status() == served.echo.engine_status
    assert not any(path.exists() for path in served.host_files)


async def test_an_idle_host_that_speaks_otherwise_makes_way_and_a_busy_one_is_left_alone(
    tmp_path: Path, runtime: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "protocol", lambda: "of other source")
    end = os.kill

    def spare_the_tests(pid: int, number: int) -> None:  # that host runs in this very process
        assert (pid, number) != (os.getpid(), signal.SIGKILL), "the host was to be killed: it did not leave in time"
        end(pid, number)

    monkeypatch.setattr(os, "kill", spare_the_tests)
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
        host_paths(tmp_path).socket.touch()
        async with asyncio.timeout(10):
            while seen[-1:] != [State.EMPTY]:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        await asyncio.sleep(0.3)
        assert following is not None
        assert not following.done()
        assert not host_paths(tmp_path).pid.exists()  # it waits
    assert following is not None
    following.cancel()
    await client.close()


async def test_a_host_that_was_started_here_is_taken_also_when_what_is_installed_has_changed(
    tmp_path: Path, runtime: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "protocol", lambda: "as this program was when it was started")
    paths = host_paths(tmp_path)
    try:
        found = await ensure_running(paths, 20)
        assert found.protocol == protocol()
    finally:
        await asyncio.to_thread(stop, paths)


async def test_a_host_whose_folder_was_emptied_leaves_and_spares_its_successor(tmp_path: Path, runtime: Path) -> None:
    paths = host_paths(tmp_path)
    first = await ensure_running(paths, 20)
    shutil.rmtree(runtime)
    paths = host_paths(tmp_path)
    second = await ensure_running(paths, 20)
    try:
        assert second.pid != first.pid
        await ended(first.pid)
        found = await info(paths)
        assert found is not None
        assert found.pid == second.pid
        assert int(paths.pid.read_text()) == second.pid
        paths.pid.unlink()  # nor is a host out of reach whose pid somebody took away
    finally:
        assert await asyncio.to_thread(stop, paths)
    assert await info(paths) is None
    await ended(second.pid)


async def ended(pid: int) -> None:
    """Wait until a process has ended."""
    async with asyncio.timeout(20):
        with suppress(FileNotFoundError, ProcessLookupError):
            while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":  # noqa: ASYNC110, ASYNC240
                await asyncio.sleep(0.05)


def test_another_transport_is_another_protocol(monkeypatch: pytest.MonkeyPatch) -> None:
    now = protocol()
    monkeypatch.setattr(wire, "_TRANSPORT", "pigeons")
    assert protocol.__wrapped__() != now


def test_a_runtime_folder_is_too_long_if_it_is_so_for_either_socket(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path_factory.mktemp("r")
    spare = 100 - len(str(HostPaths(folder, tmp_path).socket)) - 1
    for name, fits in (("x" * (spare - 2), True), ("x" * spare, False)):
        monkeypatch.setenv("WARMLINE_RUNTIME_DIR", str(folder / name))
        assert len(str(HostPaths(folder / name, tmp_path).socket)) <= 100
        if fits:
            assert host_paths(tmp_path).folder == folder / name
        else:
            with pytest.raises(BackendError) as caught:
                host_paths(tmp_path)
            assert caught.value.code == "backend.runtime_folder"
