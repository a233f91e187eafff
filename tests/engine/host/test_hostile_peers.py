"""The stream of generations at the hands of peers that are broken, greedy or somebody else's."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from served_host import NONCE, ON_SOCKETS, Raw, Served, answered, completion, endless, full, nothing_left
from warmline.errors import BackendError
from warmline.host import hostcalls, outlet
from warmline.host.frames import framed
from warmline.host.hostcalls import peer_user
from warmline.host.rpc import MAX_MESSAGE, encode
from warmline.host.ways import ADMITTED, LOOPBACK, Ports
from warmline.host.wire import Ask, CompletionRequest, Delta, Done, Event, Started


async def test_what_is_no_ask_gets_an_error_and_the_stream_goes_on(tmp_path: Path, runtime: Path) -> None:
    async with Served(tmp_path, runtime) as served:
        served.echo.events = [full(Done)]
        raw = await Raw.of(served)
        raw.say(b"", b"[]", b'{"number": 0}', b'{"number": 1, "more": 2}', b'{"number": 9}')
        raw.say(encode(Ask(number=3, complete=completion())))
        tells = [await raw.hear() for _ in range(5)]
        assert [tell.number for tell in tells] == [0, 0, 0, 1, 3]
        assert {tell.error.code for tell in tells if tell.error} == {"backend.message"}
        assert tells[-1].events == (full(Done),)
        raw.writer.close()


async def test_more_than_a_message_may_hold_is_answered_and_never_read(tmp_path: Path, runtime: Path) -> None:
    async with Served(tmp_path, runtime) as served:
        served.echo.generate = endless  # type: ignore[method-assign, assignment]
        raw = await Raw.of(served)
        raw.say(encode(Ask(number=1, complete=completion())))
        assert (await raw.hear()).number == 1
        raw.writer.write(struct.pack(">I", MAX_MESSAGE + 1) + b"x" * 1000)
        tell = await raw.hear()
        assert (tell.number, tell.error and tell.error.code) == (0, "backend.message_size")
        assert await raw.ended()
        raw.writer.close()
        await nothing_left(served)
        assert await served.client.status() == served.echo.engine_status


@given(st.binary(max_size=200), st.booleans())
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_garbage_and_half_frames_leave_nothing_running(
    tmp_path: Path, runtime: Path, garbage: bytes, half: bool
) -> None:
    async def run() -> None:
        async with Served(tmp_path, runtime) as served:
            served.echo.generate = endless  # type: ignore[method-assign, assignment]
            raw = await Raw.of(served)
            raw.say(encode(Ask(number=1, complete=completion())))
            assert (await raw.hear()).events == (full(Started),)
            raw.writer.write(framed(encode(Ask(number=2, complete=completion())))[:-3] if half else garbage)
            await raw.writer.drain()
            raw.writer.close()
            await nothing_left(served)
            assert await served.client.status() == served.echo.engine_status

    asyncio.run(run())


async def test_thousands_of_requests_at_once_are_each_answered_once(tmp_path: Path, runtime: Path) -> None:
    async with Served(tmp_path, runtime) as served:
        served.echo.events = [full(Done)]
        raw = await Raw.of(served)
        raw.say(encode(Ask(number=1, variant=1, complete=completion())))
        raw.say(*(encode(Ask(number=number, complete=completion()), 1) for number in range(2, 1001)))
        raw.say(*(b'{"number": %d}' % number for number in range(4000, 6000)))
        async with asyncio.timeout(20):
            tells = [await raw.hear() for _ in range(1000)]
        assert sorted(tell.number for tell in tells) == list(range(1, 1001))
        assert {tell.events for tell in tells} == {(full(Done),)}
        raw.writer.close()
        await nothing_left(served)


async def deaf_peer(served: Served) -> socket.socket:
    if not served.paths.tcp:
        deaf = socket.socket(socket.AF_UNIX)
        deaf.connect(str(served.paths.stream))
        return deaf
    ports = Ports.model_validate_json(served.paths.socket.read_bytes())
    deaf = socket.socket(socket.AF_INET)
    deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)  # loopback holds megabytes else
    deaf.connect((LOOPBACK, ports.stream))
    deaf.sendall(NONCE)
    nonces = NONCE + (await asyncio.to_thread(deaf.recv, 64, socket.MSG_WAITALL))[:32]
    deaf.sendall(ports.proof(b"client", nonces, deaf.getsockname(), deaf.getpeername()))
    assert await asyncio.to_thread(deaf.recv, 1) == ADMITTED
    return deaf


async def test_a_client_that_reads_nothing_is_hung_up_on(
    tmp_path: Path, runtime: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outlet, "MAX_UNREAD", 1 << 20)
    told = 0

    async def chatter(_request: CompletionRequest) -> AsyncIterator[list[Event]]:
        nonlocal told
        while True:
            yield [Delta(text="x" * 10_000)]
            told += 10_000
            await asyncio.sleep(0.001)  # no faster than another thread sends it, on a busy machine too

    async with Served(tmp_path, runtime) as served:
        served.echo.generate = chatter  # type: ignore[method-assign, assignment]
        with await deaf_peer(served) as deaf:
            deaf.sendall(framed(encode(Ask(number=1, complete=completion()))))
            async with asyncio.timeout(5):
                while not told:  # noqa: ASYNC110
                    await asyncio.sleep(0.005)
            await nothing_left(served)
            assert (1 << 20) < told < (16 << 20)
        assert await served.client.status() == served.echo.engine_status


@ON_SOCKETS
async def test_another_user_is_refused(tmp_path: Path, runtime: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with Served(tmp_path, runtime) as served:
        served.echo.events = [full(Done)]
        monkeypatch.setattr(hostcalls, "peer_user", lambda _connection: os.getuid() + 1)
        raw = await Raw.of(served)
        raw.say(encode(Ask(number=1, complete=completion())))
        assert await raw.ended()
        raw.writer.close()
        await nothing_left(served)
        assert served.echo.asked == []
        monkeypatch.setattr(hostcalls, "peer_user", lambda _connection: None)  # where the system does not tell
        assert await answered(served, completion()) == [full(Done)]


@pytest.mark.skipif(not hasattr(socket, "SO_PEERCRED"), reason="the system does not tell")
def test_the_system_says_who_is_at_the_other_end() -> None:
    one, other = socket.socketpair(socket.AF_UNIX)
    with one, other:
        assert peer_user(one) == os.getuid()


async def test_a_host_that_breaks_off_is_told_as_a_crash_and_nothing_hangs(tmp_path: Path, runtime: Path) -> None:
    async with Served(tmp_path, runtime) as served:
        served.echo.generate = endless  # type: ignore[method-assign, assignment]
        streams = [served.client.complete(completion(document=str(one))) for one in range(3)]
        for stream in streams:
            assert await anext(stream) == full(Started)
        for call in list(served.host._calls):
            call._outlet.send(b"\0\0\1")  # half a frame
            call._transport.abort()
        for stream in streams:
            with pytest.raises(BackendError) as caught:
                await asyncio.wait_for(anext(stream), 5)
            assert caught.value.code == "backend.crashed"
        await nothing_left(served)


async def test_a_client_that_is_told_too_much_hangs_up(tmp_path: Path, runtime: Path) -> None:
    async with Served(tmp_path, runtime) as served:
        served.echo.generate = endless  # type: ignore[method-assign, assignment]
        stream = served.client.complete(completion())
        assert await anext(stream) == full(Started)
        for call in served.host._calls:
            call._outlet.send(struct.pack(">I", MAX_MESSAGE + 1))
        with pytest.raises(BackendError) as caught:
            await asyncio.wait_for(anext(stream), 5)
        assert caught.value.code == "backend.crashed"
        await nothing_left(served)
