"""MCP servers of a session: their tools work under their names, and what goes wrong with one costs nothing else."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from planned_engine import answer, call
from scripted import Room
from wire_client import Refusal

SERVER = str(Path(__file__).parent / "tool_server.py")


def server(name: str, command: str = sys.executable, *arguments: str) -> dict[str, Any]:
    return {"name": name, "command": command, "args": list(arguments or (SERVER,)), "env": []}


def results(engine: Any) -> list[str]:
    return [turn.content for turn in engine.chats[-1].messages if turn.content.startswith("Result of")]


async def test_tools_of_two_servers_are_kept_apart(start: Any, room: Room) -> None:
    plans = (call("one.add", a=1, b=2), call("two.add", a=3, b=4), answer("x"))
    wire, engine = await start(*plans)
    session = await wire.new(room.root, mcpServers=[server("one"), server("two")])
    await wire.prompt(session, "Hi")
    assert results(engine) == ["Result of one.add:\nsum 3", "Result of two.add:\nsum 7"]
    assert [each["call"].title for each in wire.person.asked] == ["Use one.add", "Use two.add"]
    assert '"one.add"' in engine.chats[0].json_schema
    assert "- one.add(a, b): adds" in engine.chats[0].messages[0].content


async def test_a_server_that_dies_or_never_was_is_reported_and_the_session_goes_on(
    start: Any, room: Room, monkeypatch: Any
) -> None:
    monkeypatch.setattr("warmline_server.acp.mcp_servers.CALL_SECONDS", 0.3)
    plans = (call("good.wait"), call("good.die"), call("good.add", a=1, b=2), answer("Still here."))
    wire, engine = await start(*plans)
    session = await wire.new(room.root, mcpServers=[server("good"), server("gone", "/no/such/program")])
    await wire.until(lambda frame: "The tool server gone failed" in str(frame))
    assert (await wire.prompt(session, "Hi"))["stopReason"] == "end_turn"
    assert "Still here." in wire.text()
    told = results(engine)
    assert "gave no answer" in told[0]
    assert "Error: good" in told[1]
    assert "Error: good" in told[2]
    await wire.prompt(session, "/status")
    assert "| Tool server good | failed" in wire.text()


async def test_other_transports_are_refused_as_none_is_advertised(start: Any, room: Room) -> None:
    wire, _ = await start()
    assert (await wire.hello())["agentCapabilities"]["mcpCapabilities"] == {"http": True, "sse": False}
    for kind, url in (("sse", "http://127.0.0.1:1"), ("http", "file:///etc/passwd")):
        remote = {"type": kind, "name": "x", "url": url, "headers": []}
        with pytest.raises(Refusal) as refusal:
            await wire.ask("session/new", {"cwd": str(room.root), "mcpServers": [remote]})
        assert refusal.value.code == -32602


@pytest.fixture
def remote() -> Iterator[dict[str, Any]]:
    """A server on loopback, as a client names it; `process` is its own."""
    command = [sys.executable, str(Path(__file__).parent / "http_tool_server.py"), "open sesame"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = f"http://127.0.0.1:{int(process.stdout.readline())}/mcp"
        headers = [{"name": "x-key", "value": "open sesame"}]
        yield {"type": "http", "name": "far", "url": url, "headers": headers, "process": process}
        process.kill()


async def test_tools_over_http_work_and_a_server_that_goes_costs_nothing_else(
    start: Any, room: Room, monkeypatch: Any, remote: dict[str, Any]
) -> None:
    monkeypatch.setattr("warmline_server.acp.mcp_servers.CALL_SECONDS", 1.0)
    process = remote.pop("process")
    wire, engine = await start(call("far.add", a=1, b=2), call("far.wait"), answer("x"))
    locked = remote | {"name": "locked", "headers": []}
    nobody = remote | {"name": "nobody", "url": "http://127.0.0.1:9/mcp"}
    session = await wire.new(room.root, mcpServers=[remote, locked, nobody, server("near")])
    for name in ("locked", "nobody"):
        await wire.until(lambda frame, name=name: f"The tool server {name} failed" in str(frame))
    await wire.prompt(session, "Hi")
    assert results(engine)[0] == "Result of far.add:\nsum 3"
    assert "gave no answer" in results(engine)[1]
    process.kill()
    process.wait()
    engine.plans = [call("far.add", a=3, b=4), call("near.add", a=5, b=6), answer("Still here.")]
    assert (await wire.prompt(session, "And now?"))["stopReason"] == "end_turn"
    assert "Error: far" in results(engine)[2]
    assert results(engine)[3] == "Result of near.add:\nsum 11"
    await wire.prompt(session, "/status")
    assert "| Tool server far | failed" in wire.text()


async def test_servers_and_tools_of_one_name_are_kept_apart(start: Any, room: Room) -> None:
    plans = [call("t-2.add", a=1, b=1), call("t.who-am"), call("t.who-am-1"), answer("x")]
    wire, engine = await start(*plans)
    session = await wire.new(room.root, mcpServers=[server("t-2"), server("t"), server("t")])
    await wire.prompt(session, "Hi")
    assert [text.partition("\n")[2] for text in results(engine)] == ["sum 2", "who am", "who-am"]
    usages = [line for line in engine.chats[0].messages[0].content.splitlines() if ".add(" in line]
    assert sorted(line.partition("(")[0] for line in usages) == ["- t-1.add", "- t-2.add", "- t.add"]


async def test_a_server_that_ends_at_once_is_reported_in_words(start: Any, room: Room) -> None:
    wire, _ = await start()
    await wire.new(room.root, mcpServers=[server("gone", sys.executable, "-c", "")])
    await wire.until(lambda frame: "The tool server gone failed: Connection closed" in str(frame))


async def test_a_session_does_not_wait_for_a_server_that_does_not_start(start: Any, room: Room) -> None:
    wire, _ = await start()
    mute = server("mute", sys.executable, "-c", "import sys; sys.stdin.read()")
    session = await wire.new(room.root, mcpServers=[mute])
    begun = time.monotonic()
    await wire.ask("session/close", {"sessionId": session})
    assert time.monotonic() - begun < 8


async def test_tools_that_the_context_has_no_room_for_are_left_out_and_named(start: Any, room: Room) -> None:
    wire, engine = await start(call("small.add", a=1, b=2), answer("x"), answer("y"))
    session = await wire.new(room.root, mcpServers=[server("many", sys.executable, SERVER, "60"), server("small")])
    await wire.prompt(session, "Hi")
    n_ctx = 4096
    system = engine.chats[0].messages[0].content
    offered = [line.partition("(")[0] for line in system.splitlines() if line.startswith(("- many.", "- small."))]
    assert {"- many.add", "- many.more-0", "- small.add", "- small.who-am-1"} <= set(offered)
    assert "- many.more-26" not in offered
    assert '"many.more-26"' not in engine.chats[0].json_schema
    assert sum(len(line) + 1 for line in system.splitlines() if line.startswith(("- many.", "- small."))) <= n_ctx
    notes = wire.text()
    assert notes.count(f"The context of {n_ctx} tokens has no room for all tools of servers") == 1
    assert "many.more-26). A larger context" in notes
    await wire.prompt(session, "/status")
    assert "| Tool server many | runs, 32 of 65; no more of one server are used" in wire.text()
    assert "| Tools left out | many.more-" in wire.text()
    await wire.prompt(session, "Again")
    assert wire.text().count("has no room for all tools of servers") == 1
    assert engine.chats[2].messages[0].content == system


async def test_one_tool_that_does_not_fit_leaves_room_for_others_and_servers_stay_in_order(
    start: Any, room: Room
) -> None:
    wire, engine = await start(answer("x"))
    room.variant("acme", {"base": {"path": str(room.base)}, "profile": {"n_ctx": 256}})
    slow = server("slow", sys.executable, SERVER, "60")
    session = await wire.new(room.root, mcpServers=[slow, server("quick")])
    await wire.prompt(session, "Hi")
    lines = [
        line for line in engine.chats[0].messages[0].content.splitlines() if line.startswith(("- slow", "- quick"))
    ]
    told = [line.partition("(")[0] for line in lines]
    assert told == sorted(told, key=lambda name: name.startswith("- quick"))
    assert "- quick.die" in told
    assert "- slow.more-0" not in told


async def test_a_server_keeps_its_name_whatever_others_are_called(start: Any, room: Room) -> None:
    wire, _ = await start(answer("x"))
    session = await wire.new(room.root, mcpServers=[server("a"), server("a"), server("a-1")])
    await wire.prompt(session, "Hi")
    await wire.prompt(session, "/status")
    found = [line for line in wire.text().splitlines() if line.startswith("| Tool server")]
    assert found == [f"| Tool server {name} | runs, 5 tools |" for name in ("a", "a-2", "a-1")]


class Serving(ThreadingHTTPServer):
    """Its threads may wait for `ended`."""

    daemon_threads = True

    def __init__(self, handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        self.ended = threading.Event()


class Flood(BaseHTTPRequestHandler):
    """Answers with more than anybody wants, or packed; never answers DELETE."""

    packed = False
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        method = asked.get("method")
        results: dict[str, Any] = {
            "initialize": {
                "protocolVersion": asked.get("params", {}).get("protocolVersion"),
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "flood", "version": "1"},
            },
            "tools/list": {"tools": [{"name": "big", "inputSchema": {"type": "object"}}]},
            "tools/call": {"content": [{"type": "text", "text": "x" * (9 << 20)}]},
        }
        answer = {"jsonrpc": "2.0", "id": asked.get("id"), "result": results.get(method)}
        body = json.dumps(answer).encode() if "id" in asked else b""
        pack = self.packed and method == "tools/call"
        body = gzip.compress(body) if pack else body
        self.send_response(200 if body else 202)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.send_header("mcp-session-id", "one")
        if pack:
            self.send_header("content-encoding", "gzip")
        self.end_headers()
        with contextlib.suppress(OSError):  # it is hung up on
            self.wfile.write(body)

    def do_GET(self) -> None:
        self.send_error(405)

    def do_DELETE(self) -> None:
        assert isinstance(self.server, Serving)
        self.server.ended.wait(60)
        self.send_error(405)

    def log_message(self, *_: Any) -> None: ...


@pytest.fixture(params=["plain", "packed"])
def flood(request: pytest.FixtureRequest) -> Iterator[dict[str, Any]]:
    handler = type("Handler", (Flood,), {"packed": request.param == "packed"})
    with Serving(handler) as serving:
        threading.Thread(target=serving.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{serving.server_address[1]}/mcp"
        yield {"type": "http", "name": "flood", "url": url, "headers": []}
        serving.ended.set()
        serving.shutdown()


async def test_an_http_server_can_neither_fill_the_memory_nor_hold_up_the_end(
    start: Any, room: Room, monkeypatch: Any, flood: dict[str, Any]
) -> None:
    monkeypatch.setattr("warmline_server.acp.mcp_servers.CALL_SECONDS", 5.0)
    monkeypatch.setattr("warmline_server.acp.mcp_servers.CLOSE_SECONDS", 0.5)
    wire, engine = await start(call("flood.big"), answer("x"))
    session = await wire.new(room.root, mcpServers=[flood])
    assert (await wire.prompt(session, "Hi"))["stopReason"] == "end_turn"
    assert "Error: flood" in results(engine)[0]
    assert "xxxx" not in results(engine)[0]
    async with asyncio.timeout(10):
        await wire.ask("session/close", {"sessionId": session})


async def test_a_tool_that_was_left_out_cannot_be_called(start: Any, room: Room) -> None:
    wire, engine = await start(call("many.more-26", a=1, b=2), answer("x"))
    session = await wire.new(room.root, mcpServers=[server("many", sys.executable, SERVER, "60")])
    await wire.prompt(session, "Hi")
    assert "there is no tool called many.more-26" in engine.chats[1].messages[-1].content
    assert not wire.person.asked
