"""Unlucky clients and files: answers that are too long, none or no answer at all, stores that cannot be written."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from planned_engine import PlannedEngine, answer, call
from scripted import Room
from wire_client import ALL, Refusal, Wire, wired


def results(engine: PlannedEngine) -> list[str]:
    return [turn.content for turn in engine.chats[-1].messages if turn.content.startswith("Result of")]


def overrule(wire: Wire, **answers: Any) -> None:
    """Let the client answer a method so, to the letter, by the method's last part; None: not at all."""
    sdk, handle = wire.sdk, wire.sdk._conn._process_message

    def process(message: dict[str, Any]) -> None:
        last = str(message.get("method")).rpartition("/")[2]
        if "id" not in message or last not in answers:
            handle(message)
        elif answers[last] is not None:
            wire.send(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answers[last]}).encode() + b"\n")

    sdk._conn._process_message = process


@pytest.mark.parametrize(
    ("given", "why"),
    [({"result": {"content": "y" * (2 << 16)}}, "longer than 65536 bytes"), ({"error": "no"}, "cannot read")],
    ids=["too long", "no error as it should be"],
)
async def test_a_turn_does_not_wait_for_an_answer_that_came(
    start: Any, room: Room, monkeypatch: Any, given: Any, why: str
) -> None:
    monkeypatch.setattr("warmline_server.acp.edge.MAX_LINE", 1 << 16)
    wire, engine = await start(call("read_file", path="a.txt"), answer("x"), capabilities=ALL)
    wire.schema = None
    overrule(wire, read_text_file=given)
    session = await wire.new(room.root)
    assert (await wire.prompt(session, "Hi"))["stopReason"] == "end_turn"
    assert why in results(engine)[0]


async def test_a_client_that_never_answers_costs_a_time_limit(start: Any, room: Room, monkeypatch: Any) -> None:
    for module in ("client", "tools.run_command"):
        monkeypatch.setattr(f"warmline_server.acp.{module}.ANSWER_SECONDS", 0.2)
    plans = (call("write_file", path="a.txt", content="x"), call("run_command", command="true"), answer("x"))
    wire, engine = await start(*plans, capabilities=ALL)
    overrule(wire, write_text_file=None, create=None)
    session = await wire.new(room.root)
    assert (await wire.prompt(session, "Hi"))["stopReason"] == "end_turn"
    assert [text.partition("did not answer")[2] for text in results(engine)] == [
        " fs/write_text_file in 0.2 s",
        " terminal/create in 0.2 s",
    ]


async def test_cancel_ends_a_turn_whose_terminal_is_not_ended(start: Any, room: Room, monkeypatch: Any) -> None:
    monkeypatch.setattr("warmline_server.acp.client.ENDING_SECONDS", 0.1)
    wire, _ = await start(call("run_command", command="sleep 9"), answer("x"), capabilities=ALL)
    overrule(wire, wait_for_exit=None, kill=None, release=None)
    session = await wire.new(room.root)
    turn = wire.start("session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": "Hi"}]})
    await wire.until(lambda frame: frame.get("method") == "terminal/wait_for_exit")
    wire.notify("session/cancel", {"sessionId": session})
    async with asyncio.timeout(5):
        assert (await wire.answer(turn))["stopReason"] == "cancelled"


async def test_a_request_that_is_too_long_is_answered_by_its_id(start: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr("warmline_server.acp.edge.MAX_LINE", 1 << 16)
    wire, _ = await start()
    wire.schema = None
    padding = "y" * (1 << 17)
    wire.send(b'{"jsonrpc":"2.0","id":"mine","method":"session/list","params":{"x":"%s"}}\n' % padding.encode())
    wire.send(b'{"jsonrpc":"2.0","method":"session/list","params":{"x":"%s"},"id":77}\n' % padding.encode())
    for number in ("mine", 77):
        with pytest.raises(Refusal, match="longer than 65536 bytes"):
            await wire.answer(number)


async def test_a_file_that_is_not_utf8_is_not_damaged(start: Any, room: Room) -> None:
    """What cannot be read to the letter cannot be written back as it was."""
    (room.root / "a.txt").write_bytes(b"caf\xe9 one\n")
    wire, engine = await start(
        call("read_file", path="a.txt"), call("edit_file", path="a.txt", search="one", replace="two"), answer("x")
    )
    session = await wire.new(room.root)
    await wire.prompt(session, "Hi")
    assert "one" in results(engine)[0]
    assert "not UTF-8" in results(engine)[1]
    assert wire.person.asked == []
    assert (room.root / "a.txt").read_bytes() == b"caf\xe9 one\n"


async def test_a_client_that_reads_and_does_not_write_is_not_asked_for_what_is_written_back(
    start: Any, room: Room
) -> None:
    reads = {"fs": {"readTextFile": True, "writeTextFile": False}}
    wire, _ = await start(call("edit_file", path="a.txt", search="two", replace="2"), answer("x"), capabilities=reads)
    file = room.root / "a.txt"
    file.write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\n")
    wire.person.buffers[str(file)] = "one\ntwo\n"  # as an editor shows it
    await wire.prompt(await wire.new(room.root), "Edit it")
    assert file.read_bytes() == b"\xef\xbb\xbfone\r\n2\r\n"


async def test_what_a_client_could_not_read_is_not_written_back(start: Any, room: Room) -> None:
    edit = call("edit_file", path="a.txt", search="two", replace="2")
    wire, engine = await start(edit, answer("x"), capabilities=ALL)
    file = room.root / "a.txt"
    file.write_bytes(b"caf\xe9 two\n")
    wire.person.buffers[str(file)] = "caf\ufffd two\n"
    await wire.prompt(await wire.new(room.root), "Edit it")
    assert "is not UTF-8" in results(engine)[0]
    assert wire.person.buffers[str(file)] == "caf\ufffd two\n"
    assert not wire.person.asked


async def test_a_change_of_a_large_file_costs_nothing_of_what_was_said(start: Any, room: Room) -> None:
    (room.root / "a.txt").write_text("start\n" + "line of text\n" * 100_000)
    wire, engine = await start(answer("I will."))
    session = await wire.new(room.root)
    await wire.prompt(session, "My number is 42.")
    engine.plans = [call("edit_file", path="a.txt", search="start", replace="begin"), answer("Done.")]
    await wire.prompt(session, "Change it.")
    large = {"type": "resource", "resource": {"uri": "file:///x/b.txt", "text": "q" * (3 << 20)}}
    await wire.ask("session/prompt", {"sessionId": session, "prompt": [large]})
    await wire.prompt(session, "Which number?")
    assert "My number is 42." in [turn.content for turn in engine.chats[-1].messages]
    assert results(engine) == ["Result of edit_file:\na.txt is changed."]
    file = room.home / "acp" / "sessions" / f"{session}.jsonl"
    assert file.stat().st_size < 2 << 20
    await wire.ask("session/close", {"sessionId": session})
    await wire.ask("session/load", {"sessionId": session, "cwd": str(room.root), "mcpServers": []})
    assert "too large to be kept" in json.dumps(wire.frames)


async def test_a_session_that_cannot_be_kept_goes_on(start: Any, room: Room) -> None:
    (room.home / "acp").write_text("no folder")
    wire, _ = await start(answer("Hello."))
    session = await wire.new(room.root)
    for _ in range(2):
        assert (await wire.prompt(session, "Hi"))["stopReason"] == "end_turn"
    assert wire.text().count("cannot be kept") == 1
    assert (await wire.ask("session/list", {})) == {"sessions": []}


@pytest.mark.parametrize(
    "server",
    [
        {"name": "x", "command": "/bin/x", "args": [], "env": {"A": "b"}},
        {"name": "x", "command": "/bin/x"},
        {"type": "http", "name": "x"},
    ],
    ids=["env as an object", "no arguments", "no address"],
)
async def test_a_tool_server_that_is_none_is_refused_not_passed_over(start: Any, room: Room, server: Any) -> None:
    wire, _ = await start()
    with pytest.raises(Refusal, match="mcpServers") as refusal:
        await wire.ask("session/new", {"cwd": str(room.root), "mcpServers": [server]}, wrong=True)
    assert refusal.value.code == -32602


@pytest.mark.parametrize("cwd", ["/tmp/" + "a" * 300, "/" + "b/" * 3000], ids=["name", "path"])
async def test_a_folder_whose_name_is_too_long_is_none(start: Any, cwd: str) -> None:
    wire, _ = await start()
    with pytest.raises(Refusal, match="is no folder") as refusal:
        await wire.ask("session/new", {"cwd": cwd, "mcpServers": []})
    assert refusal.value.code == -32602


@pytest.mark.parametrize("method", ["session/list", "session/delete", "authenticate"])
async def test_nothing_else_before_initialize(room: Room, schema: Any, method: str) -> None:
    params = {"session/delete": {"sessionId": "x"}, "authenticate": {"methodId": "x"}}.get(method, {})
    async with wired(PlannedEngine(answer("x")), room.home, schema) as wire:
        with pytest.raises(Refusal, match="initialize comes first"):
            await wire.ask(method, params)


async def test_a_transcript_of_another_session_is_none_and_a_damaged_call_costs_no_turn(start: Any, room: Room) -> None:
    wire, engine = await start(call("list_dir", path="."), answer("x"))
    session = await wire.new(room.root)
    await wire.prompt(session, "Hi")
    await wire.prompt(session, "And?")
    await wire.ask("session/close", {"sessionId": session})
    file = room.home / "acp" / "sessions" / f"{session}.jsonl"
    head, *entries = map(json.loads, file.read_text().splitlines())
    load = {"sessionId": session, "cwd": str(room.root), "mcpServers": []}
    file.write_text("\n".join(map(json.dumps, [{**head, "id": "../../../other"}, *entries])))
    with pytest.raises(Refusal) as refusal:
        await wire.ask("session/load", load)
    assert refusal.value.code == -32002
    used = next(entry for entry in entries if entry["kind"] == "used")
    del used["call"]["status"]
    file.write_text("\n".join(map(json.dumps, [head, *entries])))
    await wire.ask("session/resume", {"sessionId": session, "cwd": str(room.root)})
    await wire.prompt(session, "/compact")
    assert (await wire.prompt(session, "Well?"))["stopReason"] == "end_turn"
    assert "Earlier in this conversation" in engine.chats[-1].messages[0].content


async def test_what_warmline_says_is_a_paragraph_of_its_own(start: Any, room: Room) -> None:
    wire, _ = await start(answer("again and again " * 200))
    session = await wire.new(room.root)
    await wire.prompt(session, "Hi")
    assert wire.text().count("\n\n") == 1
    await wire.prompt(session, "/help")
    assert "\n\nThe answer only repeated itself and was stopped./variant" in wire.text()
    again = len(wire.frames)
    await wire.ask("session/load", {"sessionId": session, "cwd": str(room.root), "mcpServers": []})
    assert "\\n\\nThe answer only repeated itself" in json.dumps(wire.frames[again:])


async def test_a_mode_that_is_chosen_while_the_person_is_asked_counts(start: Any, room: Room) -> None:
    wire, engine = await start(call("write_file", path="a.txt", content="x"), answer("x"))
    wire.person.hold = asyncio.Event()
    session = await wire.new(room.root)
    turn = wire.start("session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": "Hi"}]})
    await wire.person.holding.wait()
    await wire.ask("session/set_mode", {"sessionId": session, "modeId": "read-only"})
    wire.person.hold.set()
    assert (await wire.answer(turn))["stopReason"] == "end_turn"
    assert "read-only" in results(engine)[0]
    assert not (room.root / "a.txt").exists()
