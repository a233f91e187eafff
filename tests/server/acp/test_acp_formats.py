"""Formats of tool calls and of thoughts: what the profile declares is spoken, and neither ever shows as an answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planned_engine import answer, call
from scripted import Room
from warmline.backends.reply_grammar import reply_grammar
from warmline.variant import Profile
from warmline_server.acp.formats import FORMATS, format_of
from warmline_server.acp.plans import Answer, BadPlan, ToolCall
from warmline_server.acp.tools import BUILT_IN
from wire_client import Wire

NATIVE = ("hermes", "llama3")


def native(name: str, tool: str, **arguments: Any) -> str:
    if name == "hermes":
        return f"<tool_call>\n{json.dumps({'name': tool, 'arguments': arguments})}\n</tool_call>"
    return json.dumps({"name": tool, "parameters": arguments})


def declare(room: Room, **profile: Any) -> None:
    room.variant("acme", {"base": {"path": str(room.base)}, "profile": profile})


def thoughts(wire: Wire) -> str:
    return "".join(each["content"]["text"] for each in wire.updates("agent_thought_chunk"))


@pytest.mark.parametrize("name", FORMATS)
def test_what_a_tool_costs_is_what_the_model_is_told_of_it(name: str) -> None:
    """But for the separator that stands between two tools."""
    format_ = FORMATS[name]

    def length(count: int) -> int:
        tools = BUILT_IN[:count]
        told = format_.held(tools, "ask", only_answer=False).tools or ""
        return len(format_.system_prompt(Path("/w"), tools)) + len(told)

    for count, tool in enumerate(BUILT_IN, start=1):
        assert 0 <= length(count) - length(count - 1) - format_.characters(tool) <= 2


@pytest.mark.parametrize("name", NATIVE)
async def test_a_native_format_is_spoken_where_the_profile_declares_it(start: Any, room: Room, name: str) -> None:
    declare(room, tools=name)
    wire, engine = await start(native(name, "list_dir", path="."), "There is src.")
    session = await wire.new(room.root)
    assert (await wire.prompt(session, "What is here?"))["stopReason"] == "end_turn"
    assert wire.text() == "There is src."
    assert [each["status"] for each in wire.updates("tool_call_update")][-1] == "completed"
    first, second = engine.chats
    assert [each["function"]["name"] for each in json.loads(first.tools)][:2] == ["read_file", "list_dir"]
    assert "read_file" not in first.messages[0].content  # the template tells of tools
    called, result = second.messages[-2:]
    assert (called.role, called.call.name, json.loads(called.call.arguments)) == (
        "assistant",
        "list_dir",
        {"path": "."},
    )
    assert (result.role, result.content) == ("tool", "Result of list_dir:\n.warmline/\nsrc/")
    assert first.form.or_text_without
    assert reply_grammar(
        first.json_schema,
        before=first.form.before,
        after=first.form.after,
        or_text_without=first.form.or_text_without,
    )


@pytest.mark.parametrize("name", NATIVE)
async def test_a_native_call_never_reaches_the_person(start: Any, room: Room, name: str) -> None:
    declare(room, tools=name)
    good = native(name, "list_dir", path=".")
    bad = native(name, "launch")
    wire, engine = await start(bad, good, f"Let me see. {good}")
    session = await wire.new(room.root)
    assert (await wire.prompt(session, "Hi"))["stopReason"] == "end_turn"
    assert "there is no tool called launch; there are read_file, list_dir" in engine.chats[1].messages[-1].content
    assert wire.text().strip() == "Let me see."


async def test_what_was_said_in_one_format_is_told_in_another(start: Any, room: Room) -> None:
    declare(room, tools="hermes")
    room.variant("plain", {"base": {"path": str(room.base)}})
    wire, engine = await start(native("hermes", "list_dir", path="."), "Done.", answer("Neutral."), "Native.")
    session = await wire.new(room.root)
    await wire.prompt(session, "One")
    option = {"sessionId": session, "configId": "variant", "value": "llama/plain"}
    await wire.ask("session/set_config_option", option)
    await wire.prompt(session, "Two")
    told = engine.chats[-1]
    assert (told.tools, told.form.before) == (None, "")
    assert told.messages[2].content == call("list_dir", path=".")
    assert [turn.role for turn in told.messages] == ["system", "user", "assistant", "user", "assistant", "user"]
    assert told.messages[4].content == answer("Done.")
    await wire.ask("session/set_config_option", option | {"value": "llama/acme"})
    await wire.prompt(session, "Three")
    told = engine.chats[-1]
    assert told.messages[2].call.name == "list_dir"
    assert told.messages[-2].content == "Neutral."


async def test_thoughts_are_apart_kept_and_not_sent_back(start: Any, room: Room) -> None:
    declare(room, reasoning={})
    plans = (f"<think>\nI look.\n</think>\n\n{call('list_dir', path='.')}", f"<think>Now.</think>{answer('Yes.')}")
    wire, engine = await start(*plans)
    session = await wire.new(room.root)
    await wire.prompt(session, "Hi")
    assert wire.text() == "Yes."
    assert thoughts(wire) == "I look.\nNow."
    for each in wire.updates("agent_thought_chunk"):
        assert each["_meta"]["warmline"]["variant"] == "acme"
    await wire.prompt(session, "Again")
    assert "think" not in json.dumps([turn.content for turn in engine.chats[-1].messages[1:]])
    again, _ = await start(answer("x"))
    await again.ask("session/load", {"sessionId": session, "cwd": str(room.root), "mcpServers": []})
    assert thoughts(again) == thoughts(wire)
    assert again.text() == wire.text()


async def test_thoughts_are_sent_back_where_the_format_wants_them(start: Any, room: Room) -> None:
    declare(room, reasoning={"open": "<t>", "close": "</t>", "prompted": True, "keep": True})
    wire, engine = await start(f"Hm.</t>{answer('Yes.')}", answer("x"))
    session = await wire.new(room.root)
    await wire.prompt(session, "Hi")
    assert (wire.text(), thoughts(wire)) == ("Yes.", "Hm.")
    await wire.prompt(session, "Again")
    assert engine.chats[-1].messages[2].content == f"<t>Hm.</t>{answer('Yes.')}"


async def test_a_thought_without_end_is_no_answer(start: Any, room: Room) -> None:
    declare(room, reasoning={})
    wire, engine = await start("<think>on and on and on", "<think>on again", f"<think>x</think>{answer('Yes.')}")
    engine.cut = None
    session = await wire.new(room.root)
    assert (await wire.prompt(session, "Hi"))["stopReason"] == "end_turn"
    assert wire.text() == "Yes."


async def test_without_a_declaration_nothing_is_taken_for_a_thought(start: Any, room: Room) -> None:
    wire, _ = await start(answer("<think>as it is</think>"))
    session = await wire.new(room.root)
    await wire.prompt(session, "Hi")
    assert (wire.text(), thoughts(wire)) == ("<think>as it is</think>", "")


TEXTS = st.lists(st.sampled_from(["<tool_call>", "<tool", "_call>", "{", '"name"', '{"na', " ", "\n", "a", "é"])).map(
    "".join
)


@settings(deadline=None)  # the machine may be busy
@given(TEXTS, st.integers(1, 5), st.sampled_from(NATIVE))
def test_an_answer_is_read_alike_however_it_is_cut_and_never_a_call(text: str, step: int, name: str) -> None:
    format_ = FORMATS[name]
    whole, pieces = format_.reader(), format_.reader()
    at_once = whole.feed(text)
    assert "".join(pieces.feed(text[at : at + step]) for at in range(0, len(text), step)) == at_once
    sign = {"hermes": "<tool_call>", "llama3": '{"name"'}[name]
    assert sign not in at_once
    try:
        plan = format_.parse(text)
    except BadPlan:
        return
    if isinstance(plan, Answer):
        assert plan.text.startswith(at_once.rstrip())
    else:
        assert at_once == ""


@pytest.mark.parametrize("name", NATIVE)
def test_native_calls_parse(name: str) -> None:
    format_ = FORMATS[name]
    assert format_.parse(f"\n{native(name, 'a', n=1)} ") == ToolCall("a", {"n": 1})
    assert format_.parse(" Hello. ") == Answer("Hello.")
    own = ("<tool_call>{}", "<tool_call>x", "<tool_call>{}</tool_call>") if name == "hermes" else ("{", '{"name": 1}')
    for bad in ("", *own, native(name, "a")[:-3], f"x {native(name, 'a')}"):
        with pytest.raises(BadPlan):
            format_.parse(bad)


def test_the_profile_picks_the_format() -> None:
    assert [format_of(Profile(tools=tools)).name for tools in (None, "hermes", "llama3")] == ["neutral", *NATIVE]
    for format_ in FORMATS.values():
        held = format_.held(BUILT_IN, "read-only", only_answer=False)
        assert "run_command" not in (held.json_schema or "")
        only = format_.held(BUILT_IN, "ask", only_answer=True)
        assert "read_file" not in (only.json_schema or "")
        assert only.tools == format_.held(BUILT_IN, "read-only", only_answer=False).tools  # the prompt stays the same
