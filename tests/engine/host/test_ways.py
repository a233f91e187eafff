"""Hosts on ports of the loopback: strangers are told nothing, whether they ask a host or stand in its place."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest
from filelock import FileLock
from served_host import ON_PORTS, Raw, Served, answered, completion, endless, full, nothing_left
from warmline.errors import BackendError
from warmline.host import remote, ways
from warmline.host.frames import framed
from warmline.host.paths import HostPaths, host_paths
from warmline.host.process import ensure_running, info, stop
from warmline.host.remote import RemoteEngine
from warmline.host.rpc import SERVICE, encode
from warmline.host.ways import LOOPBACK, Ports, Way, way_to
from warmline.host.wire import Ask, Done, HostInfo, Started

pytestmark = ON_PORTS


def ports_of(paths: HostPaths) -> Ports:
    return Ports.model_validate_json(paths.socket.read_bytes())


def proving(ports: Ports) -> grpc.ChannelCredentials:
    shown = ports.certificate.encode()
    return grpc.ssl_channel_credentials(shown, ports.key.encode(), shown)


def another(ports: Ports) -> Ports:
    """Give what the host of another store would have written for the same ports."""
    certificate, key = ways._new_certificate()
    return ports.model_copy(update={"secret": "ab" * 32, "certificate": certificate, "key": key})


async def test_what_nobody_else_may_read_is_new_at_each_start(tmp_path: Path, runtime: Path) -> None:
    secrets = set()
    for _ in range(2):
        async with Served(tmp_path, runtime) as served:
            assert served.paths.socket.stat().st_mode & 0o777 == 0o600
            assert not served.paths.stream.exists()
            ports = ports_of(served.paths)
            secrets |= {ports.secret, ports.key, ports.certificate}
            served.echo.events = [full(Done)]
            assert await answered(served, completion()) == [full(Done)]
    assert len(secrets) == 6
    assert await info(host_paths(tmp_path)) is None


@pytest.mark.parametrize("shown", ["nothing", "no certificate", "another host's"])
async def test_calls_of_who_has_not_read_the_file_are_not_answered(tmp_path: Path, runtime: Path, shown: str) -> None:
    async with Served(tmp_path, runtime) as served:
        ports = ports_of(served.paths)
        target, named = f"{LOOPBACK}:{ports.grpc}", [("grpc.ssl_target_name_override", "warmline")]
        other = another(ports)
        root = ports.certificate.encode()
        channel = {
            "nothing": lambda: grpc.aio.insecure_channel(target),
            "no certificate": lambda: grpc.aio.secure_channel(target, grpc.ssl_channel_credentials(root), named),
            "another host's": lambda: grpc.aio.secure_channel(
                target, grpc.ssl_channel_credentials(root, other.key.encode(), other.certificate.encode()), named
            ),
        }[shown]()
        async with Way(channel) as way:
            for method in ("Info", "Status", "Prewarm", "Stop", "NoSuchMethod"):
                with pytest.raises(grpc.aio.AioRpcError) as caught:
                    await way.one_answer(method, encode(completion()), 5.0)
                assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await way.many_answers("Watch", b"{}").read()
            assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        assert served.echo.asked == []
        assert await served.client.status() == served.echo.engine_status


NOISE = """
import asyncio, sys
from pathlib import Path
from served_host import Served
from warmline.host.ways import LOOPBACK, Ports

async def main(home, runtime):
    async with Served(home, runtime) as served:
        ports = Ports.model_validate_json(served.paths.socket.read_bytes())
        for _ in range(3):
            reader, writer = await asyncio.open_connection(LOOPBACK, ports.grpc)
            writer.write(b"GET / HTTP/1.1" * 9)
            while await reader.read(100):
                pass
            writer.close()

asyncio.run(main(*map(Path, sys.argv[1:])))
"""


def test_strangers_do_not_fill_the_log(tmp_path: Path, runtime: Path, repo: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(repo / "tests" / "support")}
    command = [sys.executable, "-c", NOISE, str(tmp_path), str(runtime)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("said", ["nothing", "another's proof", "garbage", "half of it"])
async def test_streams_of_who_has_not_read_the_file_are_hung_up_on(
    tmp_path: Path, runtime: Path, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ways, "_PROOF_SECONDS", 0.3)
    async with Served(tmp_path, runtime) as served:
        ports = ports_of(served.paths)
        raw = Raw(*await asyncio.open_connection(LOOPBACK, ports.stream))
        if said == "garbage":
            raw.writer.write(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 3)
            await raw.reader.readexactly(64)
        elif said != "nothing":
            proof = await raw.proof(another(ports) if said == "another's proof" else ports)
            raw.writer.write(proof[:-1] if said == "half of it" else proof)
        if said not in ("nothing", "half of it"):
            raw.say(encode(Ask(number=1, complete=completion())))
        assert await raw.ended()
        raw.writer.close()
        await nothing_left(served)
        assert served.echo.asked == []


async def test_a_proof_may_come_byte_by_byte_and_with_what_follows(tmp_path: Path, runtime: Path) -> None:
    async with Served(tmp_path, runtime) as served:
        served.echo.events = [full(Done)]
        ports = ports_of(served.paths)
        ask = framed(encode(Ask(number=1, complete=completion())))
        raw = Raw(*await asyncio.open_connection(LOOPBACK, ports.stream))
        proof = await raw.proof(ports)
        for byte in proof[:-1]:
            raw.writer.write(bytes([byte]))
            await raw.writer.drain()
        raw.writer.write(proof[-1:] + ask)
        assert await raw.reader.readexactly(1) == ways.ADMITTED
        assert (await raw.hear()).events == (full(Done),)
        raw.writer.close()


async def test_who_proves_it_to_a_host_that_leaves_is_told_so(tmp_path: Path, runtime: Path) -> None:
    async with Served(tmp_path, runtime) as served:
        served.echo.generate = endless  # type: ignore[method-assign, assignment]
        running = served.client.complete(completion())
        assert await anext(running) == full(Started)  # the host waits for that a moment
        ports = ports_of(served.paths)
        raw = Raw(*await asyncio.open_connection(LOOPBACK, ports.stream))
        served.host.stop()
        while not served.host._leaving:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        await raw.prove(ports)
        error = (await raw.hear()).error
        assert error is not None
        assert error.code == "backend.stopping"
        assert await raw.ended()
        raw.writer.close()
        await running.aclose()


class Stranger:
    """A program on a port that a host has left, which is a host to whom does not look closely."""

    def __init__(self, port: int, shown: Ports | None) -> None:
        self.heard: list[bytes] = []
        self._server = grpc.aio.server()
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, self._methods()),))
        target = f"{LOOPBACK}:{port}"
        if shown is None:
            self._server.add_insecure_port(target)
        else:
            pair = (shown.key.encode(), shown.certificate.encode())
            self._server.add_secure_port(target, grpc.ssl_server_credentials([pair]))

    def _methods(self) -> dict[str, grpc.RpcMethodHandler]:
        async def answer(data: bytes, context: grpc.aio.ServicerContext) -> bytes:
            self.heard.append(data + repr(context.invocation_metadata()).encode())
            return encode(full(HostInfo))

        return dict.fromkeys(("Info", "Status", "Prewarm"), grpc.unary_unary_rpc_method_handler(answer))

    async def __aenter__(self) -> Stranger:
        await self._server.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._server.stop(0)


@pytest.mark.parametrize("disguised", [False, True], ids=["bare", "disguised"])
async def test_a_client_that_knew_the_host_tells_its_followers_on_the_port_nothing(
    tmp_path: Path, runtime: Path, disguised: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "_AGAIN_AFTER_SECONDS", (None,))
    served = Served(tmp_path, runtime)
    client = RemoteEngine(tmp_path)
    async with served:
        ports = ports_of(served.paths)
        await client.prewarm(completion())
        file = served.paths.socket.read_bytes()
    try:
        # As after a kill: what the host was found by is still there, and somebody else holds the lease by now.
        served.paths.socket.write_bytes(file)
        served.paths.socket.chmod(0o600)
        with FileLock(served.paths.lease):
            async with Stranger(ports.grpc, another(ports) if disguised else None) as stranger:
                with pytest.raises(BackendError) as caught:
                    await client.prewarm(completion())
                assert caught.value.code == "backend.stopping"
                assert await info(served.paths, 1.0) is None
                assert stranger.heard == []
    finally:
        await client.close()


async def test_nobody_can_pass_the_challenge_on_to_the_host(tmp_path: Path, runtime: Path) -> None:
    async with Served(tmp_path, runtime) as served:
        ports = ports_of(served.paths)
        admitted = bytearray()

        async def passed_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, kept: bytearray) -> None:
            with contextlib.suppress(ConnectionError):
                while data := await reader.read(1000):
                    kept.extend(data)
                    writer.write(data)
            writer.close()

        async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            theirs, ours = await asyncio.open_connection(LOOPBACK, ports.stream)
            await asyncio.gather(passed_on(reader, ours, bytearray()), passed_on(theirs, writer, admitted))

        async with await asyncio.start_server(relay, LOOPBACK, 0) as stranger:
            changed = ports.model_copy(update={"stream": stranger.sockets[0].getsockname()[1]})
            served.paths.socket.write_text(changed.model_dump_json())
            with pytest.raises(OSError):  # noqa: PT011 as below
                await ways.connected(served.paths, asyncio.Protocol)
            assert len(admitted) == 64  # it came as far as the host's proof, which is for another connection
        served.paths.socket.write_text(ports.model_dump_json())


@pytest.mark.parametrize("answer", [b"", b"\0" * 64, b"x" * 1000])
async def test_who_took_over_the_streams_port_is_told_nothing(
    tmp_path: Path, runtime: Path, answer: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ways, "_PROOF_SECONDS", 0.3)
    paths = host_paths(tmp_path)
    heard = bytearray()

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(1000):
                heard.extend(data)

    async with await asyncio.start_server(listen, LOOPBACK, 0) as stranger:
        port = stranger.sockets[0].getsockname()[1]
        certificate, key = ways._new_certificate()
        left = Ports(grpc=port, stream=port, secret="ab" * 32, certificate=certificate, key=key)
        paths.socket.write_text(left.model_dump_json())
        paths.socket.chmod(0o600)
        assert way_to(paths) is None  # while nobody holds the lease
        with FileLock(paths.lease):
            with pytest.raises(OSError):  # noqa: PT011 it is one of several, and none is shown
                await ways.connected(paths, asyncio.Protocol)
            await asyncio.sleep(0.05)
        assert len(heard) == 32  # the client's nonce


PEM = "-----BEGIN %s-----\n"


def written(**changes: object) -> bytes:
    certificate, key = ways._new_certificate()
    content = {"grpc": 1, "stream": 1, "secret": "ab" * 32, "certificate": certificate, "key": key}
    return json.dumps(content | changes).encode()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff",
        b"[]",
        b'{"grpc": 1, "stream": 1}',
        written(grpc=0),
        written(grpc=70000),
        written(secret="ab\r\n" * 16),
        written(certificate="none"),
        written(certificate=f"{PEM % 'CERTIFICATE'}none"),
        written(key=f"{PEM % 'PRIVATE KEY'}none"),
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


async def test_what_is_no_file_is_no_host(tmp_path: Path, runtime: Path) -> None:
    os.mkfifo(host_paths(tmp_path).socket, 0o600)
    async with asyncio.timeout(5):
        assert await info(host_paths(tmp_path)) is None


def test_who_asks_for_a_host_is_taken_for_none(tmp_path: Path, runtime: Path) -> None:
    paths = host_paths(tmp_path)
    assert not ways.is_running(paths)
    with FileLock(paths.lease):
        assert ways.is_running(paths)
    with ThreadPoolExecutor(4) as threads:
        assert not any(threads.map(lambda _: ways.is_running(paths), range(400)))


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


@pytest.mark.parametrize("stale", [False, True])
async def test_an_engine_of_the_other_transport_is_named_at_once(
    tmp_path: Path, runtime: Path, monkeypatch: pytest.MonkeyPatch, stale: bool
) -> None:
    async with Served(tmp_path, runtime):
        monkeypatch.setenv("WARMLINE_TRANSPORT", "unix")
        if stale:
            host_paths(tmp_path).socket.touch()  # as a killed host leaves it
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
