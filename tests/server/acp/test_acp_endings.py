"""How turns and sessions end: cancelled twice or in between, refused, closed, and used by two agents at once."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from acp.schema import CreateTerminalResponse
from planned_engine import PlannedEngine, answer, call
from scripted import Room
from wire_client import ALL, Person, Refusal, Wire, prompt_of, wired

SERVER = str(Path(__file__).parent / "tool_server.py")


def ran(answered: dict[str, Any]) -> str | None:
    """Name the variant of an answer's record."""
    name: str | None = answered.get("_meta", {}).get("warmline", {}).get("variant")
    return name


def said(engine: PlannedEngine) -> list[tuple[str, str]]:
    return [(turn.role, turn.content) for turn in engine.chats[-1].messages[1:]]


async def settled(person: Person, *wanted: str) -> None:
    async with asyncio.timeout(10):
        while not set(wanted) <= set(person.terminals):  # noqa: ASYNC110  # a scripted client tells nobody of its list
            await asyncio.sleep(0.01)


async def test_a_cancelled_turn_names_what_ran_not_what_was_chosen_meanwhile(start: Any, room: Room) -> None:
    wire, engine = await start(answer("A long answer that goes on until somebody stops it."))
    session = await wire.new(room.root)
    engine.gate = asyncio.Event()
    first, queued = (wire.start("session/prompt", prompt_of(session, text)) for text in ("one", "two"))
    await engine.asked.wait()
    choice = {"sessionId": session, "configId": "variant", "value": "llama/plain"}
    await wire.ask("session/set_config_option", choice)
    wire.notify("session/cancel", {"sessionId": session})
    stopped = await wire.answer(first)
    assert (stopped["stopReason"], ran(stopped), engine.chats[-1].variant.name) == ("cancelled", "acme", "acme")
    never = await wire.answer(queued)
    assert (never["stopReason"], ran(never)) == ("cancelled", None)
    engine.gate.set()
    assert ran(await wire.prompt(session, "three")) == "plain"


@pytest.mark.parametrize("how", ["cc", "rr", "cr"])
async def test_cancelling_twice_does_not_interrupt_the_cleaning_up(start: Any, room: Room, how: str) -> None:
    wire, _ = await start(call("run_command", command="sleep 100"), answer("x"), capabilities=ALL)
    person = wire.person
    person.hold_terminal = asyncio.Event()
    person.hold_kill = asyncio.Event()
    session = await wire.new(room.root)
    turn = wire.start("session/prompt", prompt_of(session, "Hi"))
    await settled(person, "wait")
    for each in how:
        if each == "c":
            wire.notify("session/cancel", {"sessionId": session})
        else:
            wire.notify("$/cancel_request", {"requestId": turn})
        await settled(person, "kill")
    await wire.ask("session/list", {})  # so both were heard
    person.hold_kill.set()
    assert (await wire.answer(turn))["stopReason"] == "cancelled"
    count = len(wire.frames)
    assert person.terminals[-2:] == ["kill", "release"]
    await wire.ask("session/list", {})
    assert len(wire.frames) == count + 1  # nothing but the answer


async def test_a_terminal_that_is_opened_after_the_cancel_is_ended(
    start: Any, room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    opening = asyncio.Event()

    async def create(self: Person, session_id: str, command: str, args: Any = None, **_: Any) -> Any:
        self.terminals.append("asked")
        await opening.wait()
        return CreateTerminalResponse(terminal_id="late")

    monkeypatch.setattr(Person, "create_terminal", create)
    wire, _ = await start(call("run_command", command="sleep 100"), answer("x"), capabilities=ALL)
    session = await wire.new(room.root)
    turn = wire.start("session/prompt", prompt_of(session, "Hi"))
    await settled(wire.person, "asked")
    wire.notify("session/cancel", {"sessionId": session})
    assert (await wire.answer(turn))["stopReason"] == "cancelled"
    opening.set()
    await settled(wire.person, "release")
    assert wire.person.terminals == ["asked", "kill", "release"]


async def test_a_prompt_that_does_not_fit_costs_nothing_of_what_was_said(start: Any, room: Room) -> None:
    wire, engine = await start(answer("Yes."))
    session = await wire.new(room.root)
    await wire.prompt(session, "My name is Ada.")
    await wire.prompt(session, "I like tea.")
    engine.room = 1
    with pytest.raises(Refusal):
        await wire.prompt(session, "z" * 7000)
    engine.room = None
    await wire.prompt(session, "Who am I?")
    assert [text for role, text in said(engine) if role == "user"] == ["My name is Ada.", "I like tea.", "Who am I?"]


async def test_a_cancelled_prompt_is_not_asked_again_with_the_next_one(start: Any, room: Room) -> None:
    wire, engine = await start(answer("Hello."))
    session = await wire.new(room.root)
    engine.gate = asyncio.Event()
    turn = wire.start("session/prompt", prompt_of(session, "Delete all my files"))
    await engine.asked.wait()
    wire.notify("session/cancel", {"sessionId": session})
    await wire.answer(turn)
    engine.gate.set()
    await wire.prompt(session, "Say hello")
    assert said(engine) == [
        ("user", "Delete all my files"),
        ("assistant", answer("[no answer was given]")),
        ("user", "Say hello"),
    ]


async def test_always_is_for_the_folder_that_it_was_said_of(start: Any, room: Room) -> None:
    other = room.root.parent / "other"
    (other / ".warmline").mkdir(parents=True)
    (other / ".warmline/config.json").write_text((room.root / ".warmline/config.json").read_text())
    (other / "a.txt").write_text("precious")
    write = call("write_file", path="a.txt", content="new")
    wire, _ = await start(write, answer("x"), write, answer("x"))
    session = await wire.new(room.root)
    wire.person.answers = ["allow_always", "reject_once"]
    await wire.prompt(session, "Hi")
    await wire.ask("session/load", {"sessionId": session, "cwd": str(other), "mcpServers": []})
    await wire.prompt(session, "Hi")
    assert len(wire.person.asked) == 2
    assert (other / "a.txt").read_text() == "precious"


async def test_no_prompt_gets_into_a_session_that_is_being_closed(start: Any, room: Room) -> None:
    wire, engine = await start(answer("Hello."))
    session = await wire.new(room.root)
    engine.gate = asyncio.Event()
    turn = wire.start("session/prompt", prompt_of(session, "one"))
    await engine.asked.wait()
    closing = wire.start("session/close", {"sessionId": session})
    behind = wire.start("session/prompt", prompt_of(session, "two"))
    assert (await wire.answer(turn))["stopReason"] == "cancelled"
    await wire.answer(closing)
    with pytest.raises(Refusal, match="is open"):
        await wire.answer(behind)


async def test_what_was_chosen_in_the_session_is_not_blamed_on_the_workspaces_file(start: Any, room: Room) -> None:
    wire, _ = await start(answer("x"))
    session = await wire.new(room.root)
    chosen = {"sessionId": session, "configId": "scale.style", "value": "0.5"}
    await wire.ask("session/set_config_option", chosen)
    room.select("plain")
    with pytest.raises(Refusal, match="no adapter called `style`; its scale was chosen in this session") as refused:
        await wire.prompt(session, "Hi")
    assert "file" not in refused.value.data or refused.value.data["file"] is None
    await wire.ask("session/set_config_option", {**chosen, "configId": "variant", "value": "llama/acme"})
    room.variant_path("acme").unlink()
    with pytest.raises(Refusal, match="chosen in this session"):
        await wire.prompt(session, "Hi")


async def test_another_context_is_told_with_its_size(start: Any, room: Room) -> None:
    wire, _ = await start(answer("x"))
    session = await wire.new(room.root)
    await wire.prompt(session, "Hi")
    await wire.ask("session/set_config_option", {"sessionId": session, "configId": "context", "value": "2048"})
    assert wire.updates("usage_update")[-1]["size"] == 2048


async def asked(wire: Wire, session: str, room: Room) -> list[str]:
    """Load a session and give what was asked in it."""
    before = len(wire.updates("user_message_chunk"))
    await wire.ask("session/load", {"sessionId": session, "cwd": str(room.root), "mcpServers": []})
    return [each["content"]["text"] for each in wire.updates("user_message_chunk")[before:]]


async def test_two_agents_that_go_on_with_one_session_keep_both(start: Any, room: Room, schema: Any) -> None:
    first, _ = await start(answer("one"))
    session = await first.new(room.root)
    await first.prompt(session, "Begin.")
    async with wired(PlannedEngine(answer("two")), room.home, schema) as second:
        await second.hello()
        assert await asked(second, session, room) == ["Begin."]
        await first.prompt(session, "In window A.")
        await second.prompt(session, "In window B.")
        assert "is kept as a session of its own" in second.text()
        await second.prompt(session, "More in B.")
        assert second.text().count("is kept as a session of its own") == 1
    found = {each["sessionId"] for each in (await first.ask("session/list", {}))["sessions"]}
    (apart,) = found - {session}
    async with wired(PlannedEngine(answer("x")), room.home, schema) as third:
        await third.hello()
        assert await asked(third, session, room) == ["Begin.", "In window A."]
        assert await asked(third, apart, room) == ["Begin.", "In window B.", "More in B."]


async def test_what_was_deleted_elsewhere_does_not_come_back(start: Any, room: Room, schema: Any) -> None:
    wire, _ = await start(answer("one"))
    session = await wire.new(room.root)
    await wire.prompt(session, "private")
    async with wired(PlannedEngine(answer("two")), room.home, schema) as second:
        await second.hello()
        await second.ask("session/delete", {"sessionId": session})
    await wire.prompt(session, "more")
    assert "cannot be kept: it was deleted meanwhile" in wire.text()
    assert not list((room.home / "acp/sessions").glob("*.jsonl"))
    await wire.prompt(session, "/clear")
    await wire.prompt(session, "afresh")
    (kept,) = (room.home / "acp/sessions").glob("*.jsonl")
    assert "private" not in kept.read_text()
    assert "afresh" in kept.read_text()


async def test_a_session_that_had_to_make_room_is_kept_again_when_it_goes_on(
    start: Any, room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("warmline_server.acp.sessions.MAX_SESSIONS", 2)
    wire, _ = await start(answer("one"))
    first = await wire.new(room.root)
    await wire.prompt(first, "first")
    for _ in range(2):
        await wire.prompt(await wire.new(room.root), "another")
    assert first not in {each["sessionId"] for each in (await wire.ask("session/list", {}))["sessions"]}
    await wire.prompt(first, "again")
    assert "cannot be kept" not in wire.text()
    await wire.ask("session/close", {"sessionId": first})
    assert await asked(wire, first, room) == ["first", "again"]


@asynccontextmanager
async def two_windows(start: Any, room: Room, schema: Any) -> AsyncIterator[tuple[Wire, Wire, str]]:
    """Give two agents and their session, in which one thing was said, and which both have loaded."""
    first, _ = await start(answer("one"))
    session = await first.new(room.root)
    await first.prompt(session, "Begin.")
    async with wired(PlannedEngine(answer("two")), room.home, schema) as second:
        await second.hello()
        await asked(second, session, room)
        yield first, second, session


async def test_what_another_window_said_is_there_when_the_session_is_loaded_again(
    start: Any, room: Room, schema: Any
) -> None:
    async with two_windows(start, room, schema) as (first, second, session):
        await second.ask("session/set_mode", {"sessionId": session, "modeId": "edit"})  # which says nothing
        await first.prompt(session, "In window A.")
        assert await asked(second, session, room) == ["Begin.", "In window A."]
        await second.prompt(session, "In window B.")
    assert await asked(first, session, room) == ["Begin.", "In window A.", "In window B."]
    await first.prompt(session, "And in A.")
    assert "session of its own" not in first.text()


async def test_a_session_that_is_kept_apart_is_loaded_again_as_it_is(start: Any, room: Room, schema: Any) -> None:
    async with two_windows(start, room, schema) as (first, second, session):
        await first.prompt(session, "In window A.")
        await second.prompt(session, "In window B.")
        found = {each["sessionId"] for each in (await second.ask("session/list", {}))["sessions"]}
        (apart,) = found - {session}
        await asked(first, apart, room)
        await first.prompt(apart, "In A, of B.")
        await first.ask("session/delete", {"sessionId": session})
        assert await asked(second, session, room) == ["Begin.", "In window B."]


async def test_a_session_that_is_kept_apart_is_deleted_and_the_others_is_not(
    start: Any, room: Room, schema: Any
) -> None:
    async with two_windows(start, room, schema) as (first, second, session):
        await first.prompt(session, "In window A.")
        await second.prompt(session, "Private, in window B.")
        await second.ask("session/delete", {"sessionId": session})
    (kept,) = (room.home / "acp/sessions").glob("*.jsonl")
    assert "In window A." in kept.read_text()
    assert "Private" not in kept.read_text()


async def test_a_cut_transcript_is_read_and_one_of_another_version_is_told(start: Any, room: Room) -> None:
    wire, _ = await start(answer("one"))
    session = await wire.new(room.root)
    await wire.prompt(session, "first")
    await wire.ask("session/close", {"sessionId": session})
    file = room.home / "acp/sessions" / f"{session}.jsonl"
    whole = file.read_text()
    file.write_text(whole + '{"kind": "ans')
    assert await asked(wire, session, room) == ["first"]
    await wire.ask("session/close", {"sessionId": session})
    head, *rest = whole.splitlines(keepends=True)
    file.write_text("".join([json.dumps({**json.loads(head), "newer": 1}) + "\n", *rest]))
    with pytest.raises(Refusal, match="of another version"):
        await asked(wire, session, room)


async def test_a_store_that_cannot_be_accessed_is_told_as_such(start: Any, room: Room) -> None:
    wire, _ = await start(answer("one"))
    session = await wire.new(room.root)
    await wire.prompt(session, "first")
    file = room.home / "acp/sessions" / f"{session}.jsonl"
    file.unlink()
    file.mkdir()
    await wire.prompt(session, "/clear")
    assert "Nothing is forgotten, since what was kept cannot be deleted" in wire.text()
    await wire.ask("session/close", {"sessionId": session})
    with pytest.raises(Refusal, match="cannot be accessed"):
        await wire.ask("session/delete", {"sessionId": session})


async def test_halves_of_characters_and_numbers_without_end_break_nothing(start: Any, room: Room) -> None:
    endless = '{"tool": "read_file", "arguments": {"path": "a.txt", "line": 1e999}}'
    wire, engine = await start(endless, answer("x"))
    session = await wire.new(room.root)
    body = json.dumps({"jsonrpc": "2.0", "id": 77, "method": "session/prompt", "params": prompt_of(session, "HERE")})
    wire.send(body.encode().replace(b"HERE", b"a \xed\xa0\x80 b") + b"\n")
    refused = await wire.until(lambda frame: frame.get("error", {}).get("code") == -32700)
    assert refused["id"] is None
    await wire.prompt(session, "Hi")
    assert "a number that is too large" in engine.chats[1].messages[-1].content
    (kept,) = (room.home / "acp/sessions").iterdir()
    assert "Infinity" not in kept.read_text()


async def test_a_store_that_cannot_be_listed_is_told_as_such(
    start: Any, room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> Any:
        raise PermissionError(13, "Permission denied", str(room.home / "certificates"))

    monkeypatch.setattr("warmline_server.acp.options.list_rows", refuse)
    wire, _ = await start(answer("one"))
    with pytest.raises(Refusal, match="cannot be accessed: Permission denied"):
        await wire.ask("session/new", {"cwd": str(room.root), "mcpServers": []})


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGTERM there")
def test_sigterm_ends_what_the_end_of_input_ends(room: Room, tmp_path: Path) -> None:
    """A tool server that does not leave by itself goes too."""
    stubborn = tmp_path / "stubborn.py"
    stubborn.write_text(
        "import os, signal, sys\nopen(sys.argv[2], 'w').write(str(os.getpid()))\n"
        f"sys.argv[1:] = []\nexec(open({SERVER!r}).read())\nsignal.pause()\n"
    )
    pid_file = tmp_path / "pid"
    server = {"name": "s", "command": sys.executable, "args": [str(stubborn), "x", str(pid_file)], "env": []}
    command = [sys.executable, "-m", "warmline_server", "acp"]
    environment = {**os.environ, "WARMLINE_HOME": str(room.home)}
    with (
        tempfile.TemporaryDirectory(prefix="wl-") as runtime,  # its path fits into a socket's address
        subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**environment, "WARMLINE_RUNTIME_DIR": runtime},
        ) as agent,
    ):
        assert agent.stdin is not None
        assert agent.stdout is not None
        hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}}
        new = {"jsonrpc": "2.0", "id": 2, "method": "session/new"}
        new["params"] = {"cwd": str(room.root), "mcpServers": [server]}
        agent.stdin.write("".join(json.dumps(each) + "\n" for each in (hello, new)).encode())
        agent.stdin.flush()
        limit = time.monotonic() + 60
        while not pid_file.exists() or not pid_file.read_text():
            assert agent.poll() is None
            assert time.monotonic() < limit, "no tool server was started"
        agent.send_signal(signal.SIGTERM)
        assert agent.wait(30) == 0
        with pytest.raises(ProcessLookupError):
            os.kill(int(pid_file.read_text()), 0)
