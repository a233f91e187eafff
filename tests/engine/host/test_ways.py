"""Hosts on ports of the loopback: nobody is answered who does not show the token, nothing is sent to a stranger."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import grpc
import pytest
from filelock import FileLock
from served_host import ON_PORTS, Raw, Served, answered, completion, full, nothing_left
from warmline.errors import BackendError
from warmline.host import ways
from warmline.host.frames import framed
from warmline.host.paths import HostPaths, host_paths
from warmline.host.process import ensure_running, info, stop
from warmline.host.rpc import encode
from warmline.host.ways import LOOPBACK, Ports, Way, way_to
from warmline.host.wire import Ask, Done, Empty, HostInfo

pytestmark = ON_PORTS


def ports_of(paths: HostPaths) -> Ports:
    return Ports.model_validate_json(paths.socket.read_bytes())


def another(token: str) -> str:
    return f"{int(token[0], 16) ^ 1:x}{token[1:]}"


async def test_what_nobody_else_may_read_is_new_at_each_start(tmp_path: Path, runtime: Path) -> None:
    tokens = set()
    for _ in range(2):
        async with Served(tmp_path, runtime) as served:
            assert served.paths.socket.stat().st_mode & 0o777 == 0o600
            assert not served.paths.stream.exists()
            tokens.add(ports_of(served.paths).token)
            served.echo.events = [full(Done)]
            assert await answered(served, completion()) == [full(Done)]
    assert len(tokens) == 2
    assert await info(host_paths(tmp_path)) is None


@pytest.mark.parametrize("shown", ["none", "wrong", "twice", "in part"])
async def test_calls_without_the_token_are_not_answered(tmp_path: Path, runtime: Path, shown: str) -> None:
    async with Served(tmp_path, runtime) as served:
        ports = ports_of(served.paths)
        right = ("warmline-token", ports.token)
        metadata = {
            "none": (),
            "wrong": (("warmline-token", another(ports.token)),),
            "twice": (right, right),
            "in part": (("warmline-token", ports.token[:-1]),),
        }[shown]
        async with Way(grpc.aio.insecure_channel(f"{LOOPBACK}:{ports.grpc}"), metadata) as way:
            for method in ("Info", "Status", "Stop", "NoSuchMethod"):
                with pytest.raises(grpc.aio.AioRpcError) as caught:
                    await way.one_answer(method, encode(Empty()), 5.0)
                assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await way.many_answers("Watch", b"{}").read()
            assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
        assert await served.client.status() == served.echo.engine_status


@pytest.mark.parametrize("greeting", ["none", "wrong", "garbage", "half"])
async def test_streams_without_the_token_are_hung_up_on(
    tmp_path: Path, runtime: Path, greeting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ways, "_SHOW_SECONDS", 0.3)
    async with Served(tmp_path, runtime) as served:
        ports = ports_of(served.paths)
        first = {
            "none": b"",
            "wrong": framed(another(ports.token).encode()),
            "garbage": b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 3,
            "half": ports.greeting[:-1],
        }[greeting]
        raw = Raw(*await asyncio.open_connection(LOOPBACK, ports.stream))
        raw.writer.write(first)
        if greeting != "half":
            raw.say(encode(Ask(number=1, complete=completion())))
        assert await raw.ended()
        raw.writer.close()
        await nothing_left(served)
        assert served.echo.asked == []


async def test_a_greeting_may_come_byte_by_byte_and_with_what_follows(tmp_path: Path, runtime: Path) -> None:
    async with Served(tmp_path, runtime) as served:
        served.echo.events = [full(Done)]
        ports = ports_of(served.paths)
        ask = framed(encode(Ask(number=1, complete=completion())))
        raw = Raw(*await asyncio.open_connection(LOOPBACK, ports.stream))
        for byte in ports.greeting[:-1]:
            raw.writer.write(bytes([byte]))
            await raw.writer.drain()
        raw.writer.write(ports.greeting[-1:] + ask)
        assert (await raw.hear()).events == (full(Done),)
        raw.writer.close()


async def test_nothing_is_sent_to_who_took_over_a_dead_hosts_port(tmp_path: Path, runtime: Path) -> None:
    paths = host_paths(tmp_path)
    heard = bytearray()

    async def listen(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        heard.extend(await reader.read(100))

    async with await asyncio.start_server(listen, LOOPBACK, 0) as stranger:
        port = stranger.sockets[0].getsockname()[1]
        left = Ports(grpc=port, stream=port, token="ab" * 32).model_dump_json()
        paths.socket.write_text(left)
        paths.socket.chmod(0o600)
        assert way_to(paths) is None
        assert await info(paths) is None
        with pytest.raises(ConnectionRefusedError):
            await ways.connected(paths, asyncio.Protocol)
        await asyncio.sleep(0.05)
        assert not heard
        with FileLock(paths.lease):  # and it is asked as soon as it holds the lease
            assert await info(paths, 0.5) is None
        assert heard


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff",
        b"[]",
        b'{"grpc": 1, "stream": 1}',
        json.dumps({"grpc": 0, "stream": 1, "token": "ab" * 32}).encode(),
        json.dumps({"grpc": 70000, "stream": 1, "token": "ab" * 32}).encode(),
        json.dumps({"grpc": 1, "stream": 1, "token": "ab\r\n" * 16}).encode(),
        b" " * (1 << 20),
        b"[" * 4000,
    ],
)
async def test_a_file_that_no_host_wrote_is_no_host(tmp_path: Path, runtime: Path, content: bytes) -> None:
    paths = host_paths(tmp_path)
    paths.socket.write_bytes(content)
    paths.socket.chmod(0o600)
    with FileLock(paths.lease):
        assert await info(paths) is None
    async with Served(tmp_path, runtime) as served:  # nor is it in the way of one
        assert await served.client.status() == served.echo.engine_status


async def test_a_file_that_others_may_read_is_not_believed(tmp_path: Path, runtime: Path) -> None:
    async with Served(tmp_path, runtime) as served:
        served.paths.socket.chmod(0o644)
        assert way_to(served.paths) is None
        served.paths.socket.chmod(0o600)
        assert await info(served.paths) is not None


async def test_a_real_host_starts_once_is_found_by_all_and_leaves_when_asked(tmp_path: Path, runtime: Path) -> None:
    script = (
        "import asyncio, sys; from pathlib import Path; from warmline.host.paths import host_paths;"
        "from warmline.host.process import ensure_running;"
        "print(asyncio.run(ensure_running(host_paths(Path(sys.argv[1])))).pid)"
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    pipe = asyncio.subprocess.PIPE
    racers = [await asyncio.create_subprocess_exec(*command, stdout=pipe) for _ in range(3)]
    pids = {(await racer.communicate())[0] for racer in racers}
    paths = host_paths(tmp_path)
    try:
        assert len(pids) == 1
        found = await info(paths)
        assert isinstance(found, HostInfo)
        assert found.pid == int(pids.pop())
    finally:
        assert await asyncio.to_thread(stop, paths)
    # Asked to leave, not ended: it has taken away what it is found by.
    assert not paths.socket.exists()
    assert not paths.pid.exists()


async def test_a_killed_host_is_followed_by_another(tmp_path: Path, runtime: Path) -> None:
    paths = host_paths(tmp_path)
    try:
        first = await ensure_running(paths)
        os.kill(first.pid, signal.SIGKILL)
        while ways.is_running(paths):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        assert paths.socket.exists()
        second = await ensure_running(paths)
        assert second.pid != first.pid
    finally:
        await asyncio.to_thread(stop, paths)


async def test_an_engine_of_the_other_transport_is_named_at_once(
    tmp_path: Path, runtime: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Served(tmp_path, runtime):
        monkeypatch.setenv("WARMLINE_TRANSPORT", "unix")
        with pytest.raises(BackendError, match="reached by tcp, not by unix") as caught:
            async with asyncio.timeout(2):
                await ensure_running(host_paths(tmp_path))
        assert caught.value.code == "backend.transport"


@pytest.mark.parametrize("named", ["TCP", "pipes", "tcp "])
def test_a_transport_that_there_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runtime: Path, named: str
) -> None:
    monkeypatch.setenv("WARMLINE_TRANSPORT", named)
    with pytest.raises(BackendError) as caught:
        host_paths(tmp_path)
    assert caught.value.code == "backend.transport"
    assert "unix or tcp" in caught.value.remedy
