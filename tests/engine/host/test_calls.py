"""The stream of generations: each its number, its end and its variant, whatever the other side does."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
import pytest
from served_host import ON_SOCKETS, Served, answered, completion, full
from warmline.errors import BackendError
from warmline.host import calls, hostcalls, process, remote
from warmline.host.paths import host_paths
from warmline.host.process import check_answers, info
from warmline.host.receiving import Receiver
from warmline.host.remote import RemoteEngine
from warmline.host.rpc import MAX_MESSAGE, decoder, encode, stopping
from warmline.host.wire import CompletionRequest, Delta, Done, Event, Message, Started, Tell


async def test_oversized_messages_get_a_typed_error_and_the_host_lives_on(tmp_path: Path, runtime: Path) -> None:
    async with Served(tmp_path, runtime) as served:
        request = full(CompletionRequest).model_copy(update={"prefix": "x" * (MAX_MESSAGE + 1)})
        with pytest.raises(BackendError) as caught:
            [event async for event in served.client.complete(request)]
        assert caught.value.code == "backend.message_size"
        assert await served.client.status() == served.echo.engine_status


def test_an_event_of_another_kind_is_malformed() -> None:
    with pytest.raises(BackendError) as caught:
        decoder(Tell)(b'{"number": 1, "events": [{"kind": "surprise"}]}')
    assert caught.value.code == "backend.message"


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
        await streams["one"].aclose()
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
        big = full(CompletionRequest).model_copy(
            update={"prefix": "x" * 300_000}
        )  # does not fit into the socket's buffer

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


def of_other_source(message: Message, variant: int | None = None) -> bytes:
    """Write a message as a client would whose requests have a field more."""
    data = json.loads(encode(message, variant))
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
            monkeypatch.setattr(hostcalls, "number_of", lambda _data: 0)
        with pytest.raises(BackendError) as caught:
            await asyncio.wait_for(anext(served.client.complete(full(CompletionRequest))), 5)
        assert (caught.value.code, "warmline engine stop" in caught.value.remedy) == ("backend.message", True)
        if reads_numbers:
            assert not ended.is_set()  # the error is one request's alone
            await other.aclose()
        else:
            with pytest.raises(BackendError):
                await asyncio.wait_for(anext(other), 5)
        await asyncio.wait_for(ended.wait(), 5)


async def test_an_answer_that_cannot_be_read_ends_its_request(
    tmp_path: Path, runtime: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Served(tmp_path, runtime) as served:
        served.echo.events = [full(Started), full(Done)]
        monkeypatch.setattr(hostcalls, "encode", lambda m: encode(m).replace(b'"kind":"started"', b'"kind":"begun"'))
        with pytest.raises(BackendError) as caught:
            await asyncio.wait_for(anext(served.client.complete(full(CompletionRequest))), 5)
        assert caught.value.code == "backend.message"


async def test_an_engine_that_fails_unexpectedly_ends_the_request(tmp_path: Path, runtime: Path) -> None:
    async with Served(tmp_path, runtime) as served:
        served.echo.failure = ValueError("some text of a document")
        with pytest.raises(BackendError) as caught:
            await asyncio.wait_for(anext(served.client.complete(full(CompletionRequest))), 5)
        assert (caught.value.code, "document" in str(caught.value)) == ("backend.internal", False)


@pytest.mark.parametrize("first_arrives", [False, True])
async def test_a_request_that_is_given_up_before_it_was_sent_is_not_sent(
    tmp_path: Path, runtime: Path, first_arrives: bool
) -> None:
    async with Served(tmp_path, runtime) as served:
        served.echo.events = [full(Done)]
        await answered(served, completion(document="first"))  # the stream is there
        request = completion(prefix="x" * 4_000_000)  # while one is written, the others wait
        tasks = [
            asyncio.create_task(answered(served, request.model_copy(update={"document": str(number)})))
            for number in range(9)
        ]
        await asyncio.sleep(0)
        while first_arrives and len(served.echo.asked) < 2:  # noqa: ASYNC110
            await asyncio.sleep(0)
        for task in tasks[:-1]:
            task.cancel()
        assert await tasks[-1] == [full(Done)]
        asked = [asked.document for asked in served.echo.asked]
        assert asked[-1] == "8"
        assert len(asked) <= 4


async def test_what_a_leaving_host_did_not_begin_is_asked_again_and_not_for_ever(
    tmp_path: Path, runtime: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "_AGAIN_AFTER_SECONDS", (0.0, 0.01, 0.01, None))
    async with Served(tmp_path, runtime) as served:
        served.echo.events = [full(Done)]
        request = full(CompletionRequest)
        assert [event async for event in served.client.complete(request)] == [full(Done)]
        for call in served.host._calls:
            call._hanging_up = True
        assert [event async for event in served.client.complete(request)] == [full(Done)]
        assert len(served.echo.asked) == 2
        served.echo.failure = stopping()
        with pytest.raises(BackendError) as caught:
            [event async for event in served.client.complete(request)]
        assert caught.value.code == "backend.stopping"
        assert len(served.echo.asked) == 2 + 4


async def test_what_a_host_that_left_did_not_read_is_asked_of_the_next(tmp_path: Path, runtime: Path) -> None:
    async with Served(tmp_path, runtime) as served:
        served.echo.events = [full(Done)]
        assert await answered(served, completion()) == [full(Done)]
        (call,) = served.host._calls
        call._transport.pause_reading()
        asking = asyncio.create_task(answered(served, completion()))
        await asyncio.sleep(0)
        call.hang_up()  # its farewell finds the request on the way
        assert await asking == [full(Done)]
        assert len(served.echo.asked) == 2


@ON_SOCKETS  # a port takes what nobody reads any more
async def test_what_could_not_be_written_is_asked_of_the_next(tmp_path: Path, runtime: Path) -> None:
    async with Served(tmp_path, runtime) as served:
        served.echo.events = [full(Done)]
        assert await answered(served, completion()) == [full(Done)]
        (call,) = served.host._calls
        call._transport.get_extra_info("socket")._sock.shutdown(socket.SHUT_RDWR)
        assert await answered(served, completion()) == [full(Done)]  # written before the client hears of the end
        assert len(served.echo.asked) == 2


async def test_what_runs_when_the_host_leaves_is_told_so(tmp_path: Path, runtime: Path) -> None:
    async with Served(tmp_path, runtime) as served:

        async def generate(_request: CompletionRequest) -> AsyncIterator[list[Event]]:
            yield [full(Started)]
            await asyncio.Event().wait()

        served.echo.generate = generate  # type: ignore[method-assign, assignment]
        stream = served.client.complete(full(CompletionRequest))
        assert await anext(stream) == full(Started)
        served.host.stop()
        with pytest.raises(BackendError) as caught:
            await anext(stream)
        assert caught.value.code == "backend.stopping"


async def test_what_is_told_by_a_thread_arrives_whole_and_in_order(tmp_path: Path, runtime: Path) -> None:
    async with Served(tmp_path, runtime) as served:
        events = [full(Started), *(Delta(text=f"{number} " * 40) for number in range(400)), full(Done)]
        threads: list[threading.Thread] = []

        def begin(_request: CompletionRequest, receiver: Receiver) -> Callable[[], None]:
            def tell() -> None:
                for event in events:
                    receiver.receive([event])

            threads.append(threading.Thread(target=tell))
            threads[-1].start()
            return lambda: None

        served.echo.begin = begin  # type: ignore[method-assign, assignment]
        found = await asyncio.gather(*(answered(served, completion(document=str(one))) for one in range(4)))
        assert found == [events] * 4
        for thread in threads:
            thread.join()
        await asyncio.sleep(0.01)
        assert served.host._open == 0


@ON_SOCKETS
async def test_the_stream_is_there_before_the_host_is_found(
    tmp_path: Path, runtime: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[str] = []
    make = grpc.aio.server

    def watched(*arguments: Any, **named: Any) -> grpc.aio.Server:
        made = make(*arguments, **named)
        add = made.add_insecure_port

        def listen(address: str) -> int:
            with socket.socket(socket.AF_UNIX) as first:
                first.connect(str(served.paths.stream))
            found.append(address)
            return add(address)

        made.add_insecure_port = listen  # type: ignore[method-assign]
        return made

    served = Served(tmp_path, runtime)
    monkeypatch.setattr(grpc.aio, "server", watched)
    async with served:
        assert len(found) == 1


@ON_SOCKETS
async def test_a_host_that_left_after_it_was_found_is_looked_for_once_more(
    tmp_path: Path, runtime: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "_AGAIN_AFTER_SECONDS", (0.0, None))
    async with Served(tmp_path, runtime) as served:
        served.echo.events = [full(Done)]
        assert (await served.client.info()).requests
        aside = served.paths.stream.with_suffix(".aside")
        served.paths.stream.rename(aside)
        with pytest.raises(BackendError) as caught:
            await answered(served, completion())
        assert caught.value.code == "backend.stopping"
        aside.rename(served.paths.stream)
        assert await answered(served, completion()) == [full(Done)]


async def test_a_question_to_a_host_that_has_left_goes_to_the_next(tmp_path: Path, runtime: Path) -> None:
    client = RemoteEngine(tmp_path)
    try:
        async with Served(tmp_path, runtime) as served:
            assert await client.status() == served.echo.engine_status
        async with Served(tmp_path, runtime) as served:
            assert await client.status() == served.echo.engine_status
            await client.prewarm(completion())
            assert len(served.echo.asked) == 1
    finally:
        await client.close()


async def test_finding_the_same_host_again_makes_nobody_wait(tmp_path: Path, runtime: Path) -> None:
    async with Served(tmp_path, runtime) as served, asyncio.timeout(5):
        for _ in range(10):
            await served.client.status()
            assert served.client._host is not None
            served.client._let_go(served.client._host)


async def test_a_host_that_saves_before_it_leaves_is_not_silent(
    tmp_path: Path, runtime: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Served(tmp_path, runtime) as served:
        close, saved = served.echo.close, asyncio.Event()

        async def slow_close() -> None:
            await saved.wait()
            await close()

        served.echo.close = slow_close  # type: ignore[method-assign]
        served.host.stop()
        while await info(served.paths, 0.2) is not None:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        with monkeypatch.context() as impatient:
            impatient.setattr(process, "_SAVING_SECONDS", 0.0)
            with pytest.raises(BackendError) as caught:
                await check_answers(served.paths, 0.1)
        assert caught.value.code == "backend.silent"
        asking = asyncio.create_task(check_answers(served.paths, 0.0))
        await asyncio.sleep(0.2)
        assert not asking.done()
        saved.set()
        await asking


SAVES = """
import fcntl, os, signal, sys, time
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
lease = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
fcntl.flock(lease, fcntl.LOCK_EX)
print(flush=True)
signal.sigwait({signal.SIGTERM})
time.sleep(0.5)
"""


@pytest.mark.parametrize("saves", [True, False])
def test_a_host_is_killed_unless_it_saves(tmp_path: Path, runtime: Path, saves: bool) -> None:
    paths = host_paths(tmp_path)
    with subprocess.Popen([sys.executable, "-c", SAVES, str(paths.lease)], stdout=subprocess.PIPE) as host:
        assert host.stdout is not None
        assert host.stdout.readline()
        paths.pid.write_text(f"{host.pid} leaving\n" if saves else f"{host.pid}\n")
        assert process.stop(paths, 0.1)
        assert host.wait(10) == (0 if saves else -signal.SIGKILL)


@ON_SOCKETS
async def test_a_host_that_takes_its_time_to_leave_is_waited_for(tmp_path: Path, runtime: Path) -> None:
    async with Served(tmp_path, runtime) as served:
        served.echo.events = [full(Done)]
        assert (await served.client.info()).requests
        aside = served.paths.stream.with_suffix(".aside")
        served.paths.stream.rename(aside)
        asking = asyncio.create_task(answered(served, completion()))
        await asyncio.sleep(0.1)  # more than once, it found none that takes it
        aside.rename(served.paths.stream)
        assert await asking == [full(Done)]
        assert len(served.echo.asked) == 1
