"""MCP servers of a session: their tools work under their names, and what goes wrong with one costs nothing else."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
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


async def test_a_tool_that_was_left_out_cannot_be_called(start: Any, room: Room) -> None:
    wire, engine = await start(call("many.more-26", a=1, b=2), answer("x"))
    session = await wire.new(room.root, mcpServers=[server("many", sys.executable, SERVER, "60")])
    await wire.prompt(session, "Hi")
    assert "there is no tool called many.more-26" in engine.chats[1].messages[-1].content
    assert not wire.person.asked
