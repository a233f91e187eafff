"""The server as a process: its streams, its end, and what it answers to nonsense."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from typing import Any, BinaryIO, cast

import pytest
from warmline_server.lsp.framing import Frames, frame
from warmline_server.lsp.parent import wait_for_exit

COMMAND = [sys.executable, "-c", "import sys; from warmline_server.lsp.server import run_stdio; sys.exit(run_stdio())"]


class Peer:
    """A client by hand, over real pipes."""

    def __init__(self, command: list[str] = COMMAND, **environment: str) -> None:
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            env={**os.environ, **environment},
        )
        assert self.process.stdin
        assert self.process.stdout
        self._in, self._frames = self.process.stdin, Frames(cast(BinaryIO, self.process.stdout))

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert stream
            stream.close()

    def send(self, method: str, **more: Any) -> None:
        self.raw(json.dumps({"jsonrpc": "2.0", "method": method, **more}).encode())

    def raw(self, body: bytes) -> None:
        self._in.write(frame(body))

    def bytes(self, data: bytes) -> None:
        self._in.write(data)

    def answer(self, request: Any) -> Any:
        while True:
            body = self._frames.next()
            assert body is not None, "the server has left"
            message = json.loads(body)
            if message.get("id") == request and "method" not in message:
                return message

    def begin(self, **params: Any) -> Any:
        self.send("initialize", id=1, params={"processId": None, "capabilities": {}, "rootUri": None, **params})
        result = self.answer(1)
        self.send("initialized", params={})
        return result

    def close_input(self) -> None:
        self._in.close()


def test_shutdown_and_exit_leave_with_0_and_exit_alone_with_1() -> None:
    with Peer() as peer:
        peer.begin()
        peer.send("shutdown", id=2)
        assert peer.answer(2)["result"] is None
        peer.send("textDocument/hover", id=3, params={})
        assert peer.answer(3)["error"]["code"] == -32600
        peer.send("exit")
        assert peer.process.wait(60) == 0
    with Peer() as peer:
        peer.begin()
        peer.send("exit")
        assert peer.process.wait(60) == 1


def test_the_end_of_stdin_ends_the_server() -> None:
    with Peer() as peer:
        peer.begin()
        peer.close_input()
        assert peer.process.wait(60) == 1
    with Peer() as peer:  # also before initialize
        peer.close_input()
        assert peer.process.wait(60) == 1


def test_the_editors_death_ends_the_server_though_stdin_stays_open() -> None:
    editor = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    with Peer() as peer:
        peer.begin(processId=editor.pid)
        peer.send("warmline/status", id=2)
        peer.answer(2)
        assert peer.process.poll() is None
        editor.kill()
        editor.communicate()
        assert peer.process.wait(60) == 1


async def test_a_process_that_cannot_be_seen_is_not_taken_for_dead() -> None:
    gone = await asyncio.create_subprocess_exec(sys.executable, "-c", "")
    await gone.wait()
    task = asyncio.ensure_future(wait_for_exit(gone.pid))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not task.done()
    task.cancel()


def test_prints_of_python_and_of_native_code_never_reach_the_protocol() -> None:
    program = (
        "import ctypes, os, sys\n"
        "from warmline_server.stdio import protect\n"
        "streams = protect()\n"
        "print('from python', flush=True)\n"
        "os.write(1, b'from a descriptor\\n')\n"
        "libc = ctypes.CDLL(None); libc.puts(b'from c'); libc.fflush(None)\n"
        "os.system('echo from a child; cat')\n"
        "streams.writer.write(b'protocol:' + streams.reader.read(10)); streams.writer.flush()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], input=b"message", capture_output=True, check=True)
    assert done.stdout == b"protocol:message"
    for source in (b"from python", b"from a descriptor", b"from c", b"from a child"):
        assert source in done.stderr


def test_without_stderr_prints_go_nowhere() -> None:
    program = (
        "import os; os.close(2)\n"
        "from warmline_server.stdio import protect\n"
        "streams = protect(); print('stray', flush=True)\n"
        "streams.writer.write(b'protocol'); streams.writer.flush()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], stdin=subprocess.DEVNULL, capture_output=True, check=True)
    assert done.stdout == b"protocol"


def test_every_malformed_message_is_answered_and_the_server_lives_on() -> None:
    with Peer() as peer:
        peer.begin()
        peer.raw(b"{nonsense")
        assert peer.answer(None)["error"]["code"] == -32700
        peer.raw(b"[]")
        assert peer.answer(None)["error"]["code"] == -32600
        peer.raw(b"[" * 100_000)
        assert peer.answer(None)["error"]["code"] == -32700
        peer.send("textDocument/inlineCompletion", id=2, params={"textDocument": 5})
        assert peer.answer(2)["error"]["code"] == -32602
        peer.send("no/such/method", id=3)
        assert peer.answer(3)["error"]["code"] == -32601
        peer.send("initialize", id=4, params={"processId": None, "capabilities": {}, "rootUri": None})
        assert peer.answer(4)["error"]["code"] == -32600
        peer.send("textDocument/didChange", params={"textDocument": {"uri": "file:///x", "version": 1}})
        peer.send("$/cancelRequest", params={"id": 77})
        peer.send("no/such/notification")
        # One way to ask with parameters, one without, one by command.
        peer.send("warmline/status", id=5)
        peer.send("warmline/status", id=6, params={})
        peer.send("workspace/executeCommand", id=7, params={"command": "warmline.status"})
        for request in (5, 6, 7):
            assert peer.answer(request)["result"]["state"] == "empty"
        peer.send("workspace/executeCommand", id=8, params={"command": "no.such"})
        assert "error" in peer.answer(8)


def test_what_has_no_usable_id_ends_nothing() -> None:
    with Peer() as peer:
        peer.begin()
        for odd in ({}, [], None, True, 1.5):
            peer.send("$/cancelRequest", params={"id": odd})
            peer.raw(json.dumps({"jsonrpc": "2.0", "id": odd, "error": {"code": 1, "message": "no"}}).encode())
            peer.raw(json.dumps({"jsonrpc": "2.0", "id": odd, "result": None}).encode())
            peer.send("warmline/status", id=odd)
            assert peer.answer(None)["error"]["code"] == -32600
        # An answer to a request that is our own to answer.
        peer.send("textDocument/hover", id=2, params={})
        peer.raw(b'{"jsonrpc": "2.0", "id": 2, "result": 1}')
        peer.send("no/such", id="a", params=[1])
        peer.raw(b'{"jsonrpc": "2.0", "id": 9, "method": []}')
        peer.raw(b'{"jsonrpc": "2.0", "method": [], "params": {}}')
        for request in (2, "a", 9):
            assert "error" in peer.answer(request)
        assert peer.answer(None)["error"]["code"] == -32600  # the method of the last one is no string either
        peer.send("warmline/status", id=3)
        assert peer.answer(3)["result"]["state"] == "empty"


def test_commands_take_an_empty_list_of_arguments_as_none() -> None:
    with Peer() as peer:
        peer.begin()
        for request, arguments in enumerate(([], [1], None), start=2):
            peer.send(
                "workspace/executeCommand",
                id=request,
                params={"command": "warmline.status", "arguments": arguments},
            )
            assert peer.answer(request)["result"]["state"] == "empty"
        for request, arguments in enumerate(([], [1, 2, 3], ["file:///x", {"line": 0, "character": 0}]), start=5):
            peer.send(
                "workspace/executeCommand",
                id=request,
                params={"command": "warmline.accepted", "arguments": arguments},
            )
            assert peer.answer(request)["result"] is None


@pytest.mark.parametrize("process", [2**31, 2**40, 2**70])
def test_a_number_that_no_process_has_is_no_editor(process: int) -> None:
    with Peer() as peer:
        peer.begin(processId=process)
        peer.send("warmline/status", id=2)
        assert peer.answer(2)["result"]["state"] == "empty"
        peer.send("shutdown", id=3)
        peer.answer(3)
        peer.send("exit")
        assert peer.process.wait(60) == 0


def test_a_length_that_is_no_number_ends_the_server() -> None:
    with Peer() as peer:
        peer.begin()
        peer.bytes(b"Content-Length: " + b"1" * 5000 + b"\r\n\r\n")
        assert peer.process.wait(60) == 1


@pytest.mark.parametrize(("shut_down", "code"), [(True, 0), (False, 1)])
def test_the_command_leaves_with_the_servers_exit_code(shut_down: bool, code: int) -> None:
    with Peer([sys.executable, "-m", "warmline_server", "lsp"]) as peer:
        peer.begin()
        if shut_down:
            peer.send("shutdown", id=2)
            peer.answer(2)
        peer.send("exit")
        assert peer.process.wait(60) == code


def test_a_stream_that_is_no_lsp_ends_with_a_word_on_stderr() -> None:
    done = subprocess.run(COMMAND, input=b"GET / HTTP/1.1\r\n\r\n", capture_output=True, check=False)
    assert done.returncode == 1
    assert b"Content-Length" in done.stderr
    assert done.stdout == b""


def test_the_document_is_not_kept_twice() -> None:
    """pygls' own store is not fed: its handlers for documents are gone, ours are in place."""
    program = (
        "from types import SimpleNamespace\n"
        "from warmline_server.lsp.protocol import WarmlineServer\n"
        "server = WarmlineServer(lambda s: SimpleNamespace(), lambda: None)\n"
        "manager = server.protocol.fm\n"
        "kept = [m for m in manager.builtin_features if 'ocument' in m]\n"
        "print(kept, 'textDocument/didChange' in manager.features)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[] True"
