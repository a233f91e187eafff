"""Turns: tools, permission, repair, limits, and what the person sees of all that."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from planned_engine import answer, call
from scripted import Room
from warmline_server.acp.sessions import SessionStore
from warmline_server.acp.shortening import outline
from warmline_server.acp.transcript import Answered, Asked
from warmline_server.acp.turns import Limits
from wire_client import ALL, Refusal, Wire, alive, prompt_of


def calls(wire: Wire) -> list[dict[str, Any]]:
    """Each tool call as a client has it in the end."""
    known: dict[str, dict[str, Any]] = {}
    for update in wire.updates():
        if update["sessionUpdate"] in ("tool_call", "tool_call_update"):
            known.setdefault(update["toolCallId"], {}).update(update)
    return list(known.values())


FIVE = (
    call("search", pattern="greeting", path="."),
    call("read_file", path="src/a.py"),
    call("edit_file", path="src/a.py", search="hello", replace="goodbye"),
    call("write_file", path="src/b.py", content="import a\n"),
    call("run_command", command="cat src/a.py src/b.py"),
    answer("Done."),
)


@pytest.mark.parametrize("capable", [False, True], ids=["by itself", "through the client"])
async def test_a_task_of_five_calls(start: Any, room: Room, capable: bool) -> None:
    file = room.root / "src" / "a.py"
    file.write_text('greeting = "hello"\n')
    wire, engine = await start(*FIVE, capabilities=ALL if capable else None)
    session = await wire.new(room.root)
    told = await wire.prompt(session, "Say goodbye instead.")
    assert told["stopReason"] == "end_turn"
    assert wire.text() == "Done."
    assert [(each["kind"], each["status"]) for each in calls(wire)] == [
        *(("search", "completed"), ("read", "completed"), ("edit", "completed"), ("edit", "completed")),
        ("execute", "completed"),
    ]
    assert len(wire.person.asked) == 3
    diff = calls(wire)[2]["content"][0]
    assert (diff["type"], diff["oldText"], diff["newText"]) == (
        *("diff", 'greeting = "hello"\n'),
        'greeting = "goodbye"\n',
    )
    results = [turn.content for turn in engine.chats[-1].messages if turn.content.startswith("Result of")]
    assert 'src/a.py:1: greeting = "hello"' in results[0]
    if capable:
        assert wire.person.buffers[str(file)] == 'greeting = "goodbye"\n'
        assert file.read_text() == 'greeting = "hello"\n'  # the client writes, not the agent
        assert [each.split()[0] for each in wire.person.terminals] == ["create", "wait", "output", "release"]
        assert "ran" in results[4]
        assert calls(wire)[4]["content"] == [{"type": "terminal", "terminalId": "term-1"}]
    else:
        assert file.read_text() == 'greeting = "goodbye"\n'
        assert (room.root / "src" / "b.py").read_text() == "import a\n"
        assert 'greeting = "goodbye"\nimport a\n[exit code 0]' in results[4]


async def test_what_the_model_is_told_only_grows(start: Any, room: Room) -> None:
    """Otherwise its KV could not stay warm."""
    wire, engine = await start(call("list_dir", path="."), answer("One."), answer("Two."))
    session = await wire.new(room.root)
    await wire.prompt(session, "First")
    await wire.prompt(session, "Second")
    before: tuple[Any, ...] = ()
    for chat in engine.chats:
        assert chat.messages[: len(before)] == before
        assert chat.conversation == session
        before = chat.messages
    assert before[2].content == call("list_dir", path=".")  # what was decoded, to the letter


async def test_reused_tokens_are_told(start: Any, room: Room) -> None:
    wire, _ = await start(answer("One."), answer("Two."))
    session = await wire.new(room.root)
    await wire.prompt(session, "First")
    record = (await wire.prompt(session, "Second"))["_meta"]["warmline"]
    assert (record["reused_tokens"], record["prompt_tokens"]) == (60, 80)


@pytest.mark.parametrize(
    "raw",
    [
        '<tool_call>{"name": "read_file"}</tool_call>',
        '{"tool": "read_file"}',
        '{"tool": "launch", "arguments": {}}',
        "I will now call read_file(path).",
        '{"answer": 5}',
        "",
    ],
)
async def test_call_text_never_reaches_the_person_and_gets_one_repair(start: Any, room: Room, raw: str) -> None:
    wire, engine = await start(raw, answer("Mended."))
    session = await wire.new(room.root)
    assert (await wire.prompt(session, "Hi"))["stopReason"] == "end_turn"
    assert wire.text() == "Mended."
    assert "no valid reply" in engine.chats[1].messages[-1].content
    engine.plans = [raw]
    wire.frames.clear()
    assert (await wire.prompt(session, "Hi"))["stopReason"] == "end_turn"
    assert len(engine.chats) == 5  # one repair, not more; then just an answer is asked for
    assert "tool" not in (engine.chats[-1].json_schema or "")
    assert "could not be understood" in wire.text()
    assert not raw or raw not in json.dumps(wire.frames)
    engine.plans = [answer("Fine.")]
    await wire.prompt(session, "Hi")
    assert "no valid reply" not in engine.chats[-1].messages[-1].content


async def test_calls_are_decoded_under_a_schema_of_the_tools(start: Any, room: Room) -> None:
    from warmline.backends.json_schema import check_schema

    wire, engine = await start(answer("x"))
    session = await wire.new(room.root)
    await wire.prompt(session, "Hi")
    await wire.ask("session/set_mode", {"sessionId": session, "modeId": "read-only"})
    await wire.prompt(session, "Hi")
    schemas = [check_schema(chat.json_schema or "") for chat in engine.chats]
    names = [
        [each["properties"]["tool"]["const"] for each in schema["anyOf"] if "tool" in each["properties"]]
        for schema in schemas
    ]
    assert names[0] == [
        *("update_plan", "read_file", "list_dir", "search", "edit_file", "write_file"),
        "run_command",
    ]
    assert names[1] == ["update_plan", "read_file", "list_dir", "search"]


async def test_an_answer_that_is_cut_off(start: Any, room: Room) -> None:
    wire, engine = await start(answer("A long answer."))
    engine.cut = 20
    session = await wire.new(room.root)
    assert (await wire.prompt(session, "Hi"))["stopReason"] == "max_tokens"
    assert wire.text() == "A long an"[: len(wire.text())]
    engine.cut, engine.plans = None, [answer("Go on.")]
    await wire.prompt(session, "Hi")
    assert engine.chats[-1].messages[2].content == answer(wire.text().removesuffix("Go on."))


async def test_a_call_that_is_cut_off(start: Any, room: Room) -> None:
    wire, engine = await start(call("write_file", path="a", content="long"))
    engine.cut = 30
    session = await wire.new(room.root)
    assert (await wire.prompt(session, "Hi"))["stopReason"] == "max_tokens"
    assert len(engine.chats) == 3
    assert not (room.root / "a").exists()


async def test_turns_have_limits(start: Any, room: Room) -> None:
    wire, engine = await start(call("list_dir", path="."), limits=Limits(steps=4))
    session = await wire.new(room.root)
    assert (await wire.prompt(session, "Hi"))["stopReason"] == "max_turn_requests"
    assert len(engine.chats) == 4
    wire, engine = await start(call("list_dir", path="."), limits=Limits(tokens=7))
    session = await wire.new(room.root)
    assert (await wire.prompt(session, "Hi"))["stopReason"] == "max_tokens"
    assert len(engine.chats) == 3


async def test_the_last_step_is_an_answer(start: Any, room: Room) -> None:
    wire, engine = await start(limits=Limits(steps=3))
    engine.reply = lambda request: (
        call("read_file", path=f"{len(engine.chats)}") if '"read_file"' in request.json_schema else answer("I saw.")
    )
    session = await wire.new(room.root)
    assert (await wire.prompt(session, "Hi"))["stopReason"] == "max_turn_requests"
    assert len(engine.chats) == 3
    assert wire.text().startswith("I saw.")
    assert "it took its 3 steps" in wire.text()


async def test_a_call_that_is_made_again_and_again_ends_in_an_answer(start: Any, room: Room) -> None:
    wire, engine = await start()
    engine.reply = lambda request: (
        call("list_dir", path=".") if '"list_dir"' in request.json_schema else answer("There is src.")
    )
    session = await wire.new(room.root)
    assert (await wire.prompt(session, "Hi"))["stopReason"] == "end_turn"
    assert [each["status"] for each in calls(wire)] == ["completed", "failed", "failed"]
    assert wire.text() == "There is src."
    assert engine.chats[2].messages[-1] == engine.chats[1].messages[-1]  # what it gave, once more
    assert "nothing has changed since" in str(calls(wire)[1]["content"])


async def test_after_a_change_the_same_may_be_asked_again(start: Any, room: Room) -> None:
    (room.root / "a").write_text("one")
    read, test = call("read_file", path="a"), call("run_command", command="cat a")
    plans = (read, call("write_file", path="a", content="two"), read, test, call("list_dir", path="."), test, test)
    wire, _ = await start(*plans, answer("x"))
    session = await wire.new(room.root)
    await wire.prompt(session, "Hi")
    assert [each["status"] for each in calls(wire)] == ["completed"] * 7


async def test_calls_that_all_fail_end_in_an_answer(start: Any, room: Room) -> None:
    wire, engine = await start()
    engine.reply = lambda request: (
        call("read_file", path=f"no{len(engine.chats)}") if '"read_file"' in request.json_schema else answer("No.")
    )
    session = await wire.new(room.root)
    assert (await wire.prompt(session, "Hi"))["stopReason"] == "end_turn"
    assert len(engine.chats) == 5
    assert wire.text() == "No."


async def test_calls_that_tell_nothing_new_end_in_an_answer(start: Any, room: Room) -> None:
    wire, engine = await start()
    engine.reply = lambda request: (
        call("search", pattern=f"nowhere{len(engine.chats)}", path=".")
        if '"search"' in request.json_schema
        else answer("Nowhere.")
    )
    session = await wire.new(room.root)
    assert (await wire.prompt(session, "Hi"))["stopReason"] == "end_turn"
    assert len(engine.chats) == 6  # the first `no matches` is news
    assert wire.text() == "Nowhere."


async def test_an_answer_that_goes_round_in_circles_is_stopped(start: Any, room: Room) -> None:
    wire, engine = await start(answer("and on it goes, " * 200), answer("Fine."))
    session = await wire.new(room.root)
    assert (await wire.prompt(session, "Hi"))["stopReason"] == "end_turn"
    assert "only repeated itself" in wire.text()
    assert engine.pieces_sent < 60
    assert engine.running == 0
    await wire.prompt(session, "Hi")
    assert engine.chats[-1].messages[2].content.startswith('{"answer": "and on it goes')


async def test_what_a_call_writes_may_repeat_itself(start: Any, room: Room) -> None:
    wire, _ = await start(call("write_file", path="a", content="the very same line\n" * 40), answer("x"))
    session = await wire.new(room.root)
    await wire.prompt(session, "Hi")
    assert (room.root / "a").read_text() == "the very same line\n" * 40


async def test_permission_always_is_scoped_and_shown(start: Any, room: Room) -> None:
    run = call("run_command", command="true")
    wire, engine = await start(run, run, call("run_command", command="false"), answer("x"))
    session = await wire.new(room.root)
    wire.person.answers = ["allow_always", "reject_once"]
    await wire.prompt(session, "Hi")
    asked = wire.person.asked
    assert len(asked) == 2  # the second `true` is not asked for, `false` is
    assert asked[0]["options"]["allow_always"] == "Always allow the command true, in this session"
    assert set(asked[0]["options"]) == {"allow_once", "allow_always", "reject_once", "reject_always"}
    assert [each["status"] for each in calls(wire)] == ["completed", "completed", "failed"]
    assert "Error: the user refuses it" in engine.chats[-1].messages[-1].content
    await wire.prompt(session, "/status")
    assert "| Always allowed | the command true |" in wire.text()
    other = await wire.new(room.root)
    engine.plans = [run, answer("x")]
    await wire.prompt(other, "Hi")
    assert len(wire.person.asked) == 3


async def test_rejected_always_is_not_asked_again(start: Any, room: Room) -> None:
    write = call("write_file", path="a", content="x")
    wire, _ = await start(write, write, answer("x"))
    session = await wire.new(room.root)
    wire.person.answers = ["reject_always"]
    await wire.prompt(session, "Hi")
    assert len(wire.person.asked) == 1
    assert not (room.root / "a").exists()


@pytest.mark.parametrize("chosen", ["nonsense", "cancelled"])
async def test_whatever_is_no_permission_is_none(start: Any, room: Room, chosen: str) -> None:
    wire, _ = await start(call("write_file", path="a", content="x"), answer("x"))
    session = await wire.new(room.root)
    wire.person.answers = [chosen]
    stop = (await wire.prompt(session, "Hi"))["stopReason"]
    assert stop == ("cancelled" if chosen == "cancelled" else "end_turn")
    assert not (room.root / "a").exists()


async def test_modes(start: Any, room: Room) -> None:
    plans = (call("write_file", path="a", content="x"), call("run_command", command="true"), answer("x"))
    wire, engine = await start(*plans)
    session = await wire.new(room.root)
    await wire.ask("session/set_mode", {"sessionId": session, "modeId": "edit"})
    await wire.prompt(session, "Hi")
    assert [each["call"].title for each in wire.person.asked] == ["Run true"]
    (room.root / "a").unlink()
    await wire.ask("session/set_mode", {"sessionId": session, "modeId": "read-only"})
    engine.plans = list(plans)
    await wire.prompt(session, "Hi")
    assert len(wire.person.asked) == 1
    assert not (room.root / "a").exists()
    assert [each["status"] for each in calls(wire)] == ["completed", "completed", "failed", "failed"]


async def test_cancel_while_permission_is_asked_for(start: Any, room: Room) -> None:
    wire, engine = await start(call("write_file", path="a", content="x"), answer("x"))
    session = await wire.new(room.root)
    wire.person.hold = asyncio.Event()
    number = wire.start("session/prompt", prompt_of(session, "Hi"))
    await wire.person.holding.wait()
    wire.notify("session/cancel", {"sessionId": session})
    assert (await wire.answer(number))["stopReason"] == "cancelled"
    assert calls(wire)[0]["status"] == "failed"
    wire.person.hold.set()
    engine.plans = [answer("Fine.")]
    assert (await wire.prompt(session, "Hi"))["stopReason"] == "end_turn"
    assert not (room.root / "a").exists()


@pytest.mark.parametrize("capable", [False, True], ids=["by itself", "in a terminal"])
async def test_cancel_while_a_command_runs_ends_it(start: Any, room: Room, capable: bool) -> None:
    pid = room.root / "pid"
    command = f"echo $$ > {pid}; sleep 60 & sleep 60"
    wire, _ = await start(call("run_command", command=command), answer("x"), capabilities=ALL if capable else None)
    session = await wire.new(room.root)
    number = wire.start("session/prompt", prompt_of(session, "Hi"))
    if capable:
        wire.person.hold_terminal = asyncio.Event()
        await wire.until(lambda f: f.get("method") == "terminal/wait_for_exit")
    else:
        async with asyncio.timeout(10):
            while not pid.exists() or not pid.read_text().strip():  # noqa: ASYNC110  # another process writes it
                await asyncio.sleep(0.01)
    wire.notify("session/cancel", {"sessionId": session})
    assert (await wire.answer(number))["stopReason"] == "cancelled"
    if capable:
        assert [each.split()[0] for each in wire.person.terminals][-2:] == ["kill", "release"]
    else:
        assert not alive(pid.read_text())


async def test_a_plan_is_shown(start: Any, room: Room) -> None:
    steps = [{"content": "Look", "status": "completed"}, {"content": "Write", "status": "pending"}]
    wire, _ = await start(call("update_plan", entries=steps), answer("x"))
    session = await wire.new(room.root)
    await wire.prompt(session, "Hi")
    assert [each["entries"] for each in wire.updates("plan")] == [[{**step, "priority": "medium"} for step in steps]]


async def test_the_oldest_turns_go_first_and_the_person_is_told(start: Any, room: Room) -> None:
    wire, engine = await start(answer("x"))
    session = await wire.new(room.root)
    for number in range(4):
        await wire.prompt(session, f"Question {number}")
    engine.room = 6
    wire.frames.clear()
    assert (await wire.prompt(session, "Question 4"))["stopReason"] == "end_turn"
    assert "no longer sees the oldest 2 turns: the context of 4096 tokens is full" in wire.text()
    assert [turn.content for turn in engine.chats[-1].messages if turn.role == "user"] == [
        *("Question 2", "Question 3", "Question 4")
    ]


async def test_an_outline_stands_for_what_the_model_no_longer_sees(start: Any, room: Room) -> None:
    wire, engine = await start(answer("It is a tree."), call("write_file", path="b", content="x"), answer("Written."))
    session = await wire.new(room.root)
    await wire.prompt(session, "What is an oak? " + "Tell me all. " * 20)
    await wire.prompt(session, "Write b.")
    await wire.prompt(session, "/compact")
    assert "In their place it has an outline" in wire.text()
    before = live_used(wire)
    assert f"Of the context's {before} used tokens about" in wire.text()
    engine.plans = [answer("x")]
    await wire.prompt(session, "Third")
    told = engine.chats[-1].messages
    assert next(turn.content for turn in told if turn.role == "user") == "Write b."
    line = told[0].content.splitlines()[-1]
    assert line.startswith("- the user said: What is an oak? Tell me all.")
    assert line.endswith("…; you answered: It is a tree.")
    await wire.prompt(session, "/compact")
    await wire.prompt(session, "Fourth")
    assert "- the user said: Write b.; done: Create b; you answered: Written." in engine.chats[-1].messages[0].content
    wire.frames.clear()
    await wire.prompt(session, "/compact")
    await wire.prompt(session, "/compact")
    assert "There is nothing to take away." in wire.text()


def live_used(wire: Wire) -> int:
    used: int = wire.updates("usage_update")[-1]["used"]
    return used


def test_an_outline_is_bounded_by_the_context(room: Room) -> None:
    record = SessionStore(room.home).begin(room.root)
    for number in range(100):
        record.add(Asked(blocks=[], text=f"question {number} " * 50))
        record.add(Answered(text="a" * 5000, decoded="{}", meta={}, message_id="m"))
    record.hide(198)
    for n_ctx in (128, 512, 4096, 1 << 20):
        text = outline(record, n_ctx)
        assert len(text) <= min(1200, n_ctx // 5) + 40
        assert not text or "question 98" in text
    assert "question 97" in outline(record, 4096)


async def test_results_of_tools_go_when_one_turn_fills_the_context(start: Any, room: Room) -> None:
    wire, engine = await start()
    (room.root / "big").write_text("filler " * 100)
    (room.root / "big2").write_text("filler " * 100)
    reads = {2: "big", 4: "big2"}
    engine.reply = lambda request: (
        call("read_file", path=reads[size]) if (size := len(request.messages)) in reads else answer("Done.")
    )
    fits = engine.chat

    def chat(request: Any) -> Any:
        engine.room = None if sum(len(turn.content) for turn in request.messages[1:]) < 1200 else 0
        return fits(request)

    engine.chat = chat
    session = await wire.new(room.root)
    assert (await wire.prompt(session, "Read it twice."))["stopReason"] == "end_turn"
    assert "no longer sees the oldest result of a tool" in wire.text()
    assert "[left out: the context was full]" in engine.chats[-1].messages[3].content


async def test_a_prompt_that_does_not_fit_is_an_error_and_not_in_the_way_afterwards(start: Any, room: Room) -> None:
    wire, engine = await start(answer("x"))
    session = await wire.new(room.root)
    engine.room = 1
    with pytest.raises(Refusal) as refusal:
        await wire.prompt(session, "Too long")
    assert refusal.value.data["code"] == "prompt.room"
    engine.room = 2
    assert (await wire.prompt(session, "Short"))["stopReason"] == "end_turn"


async def test_links_and_resources_are_read_within_limits(start: Any, room: Room, tmp_path: Path) -> None:
    wire, engine = await start(answer("x"))
    session = await wire.new(room.root)
    (room.root / "notes.txt").write_text("the notes")
    (room.root / ".env").write_text("KEY=hidden-value")
    (tmp_path / "outside.txt").write_text("outer text")

    def link(path: Path | str) -> dict[str, Any]:
        uri = path.as_uri() if isinstance(path, Path) else path
        return {"type": "resource_link", "uri": uri, "name": "n"}

    blocks = [
        {"type": "text", "text": "Look:"},
        link(room.root / "notes.txt"),
        link(room.root / ".env"),
        link(tmp_path / "outside.txt"),
        link("https://example.org/x"),
        {"type": "resource", "resource": {"uri": "file:///x/big.txt", "text": "y" * 100_000}},
        {"type": "resource", "resource": {"uri": "file:///x/id_rsa", "text": "private-key"}},
        {"type": "resource", "resource": {"uri": "file:///x/pic", "blob": "AAAA"}},
    ]
    await wire.ask("session/prompt", {"sessionId": session, "prompt": blocks})
    said = engine.chats[0].messages[-1].content
    assert "the notes" in said
    assert said.count("y") < 33_000
    for hidden in ("hidden-value", "outer text", "private-key"):
        assert hidden not in said
    text = wire.text()
    for told in (
        "may hold secrets",
        "lies outside",
        "is no file and was not read",
        "its first 32000 of 100000",
        "no text",
    ):
        assert told in text


async def test_unsaved_buffers_are_what_is_read_and_edited(start: Any, room: Room) -> None:
    file = room.root / "src" / "a.py"
    file.write_text("on disk\n")
    edit = call("edit_file", path="src/a.py", search="in the buffer", replace="edited")
    wire, engine = await start(call("read_file", path="src/a.py"), edit, answer("x"), capabilities=ALL)
    wire.person.buffers[str(file)] = "in the buffer\n"
    session = await wire.new(room.root)
    await wire.prompt(session, "Hi")
    assert "in the buffer" in engine.chats[1].messages[-1].content
    assert wire.person.buffers[str(file)] == "edited\n"
