"""MCP servers of a session: their tools work under their names, and what goes wrong with one costs nothing else."""

from __future__ import annotations

import sys
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
    remote = {"type": "http", "name": "x", "url": "http://localhost:1", "headers": []}
    with pytest.raises(Refusal) as refusal:
        await wire.ask("session/new", {"cwd": str(room.root), "mcpServers": [remote]})
    assert refusal.value.code == -32602
