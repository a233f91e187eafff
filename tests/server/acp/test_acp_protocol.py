"""Every method through the wire, and each gap of the SDK that the edge closes."""

from __future__ import annotations

import asyncio
import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from acp.schema import TextContentBlock
from planned_engine import answer, call
from scripted import Room
from warmline.errors import BackendError
from wire_client import Refusal, prompt_of


async def test_initialize_says_what_is_there(start: Any) -> None:
    wire, _ = await start()
    said = await wire.hello()
    assert said["protocolVersion"] == 1
    assert said["agentInfo"]["name"] == "warmline"
    assert said["authMethods"] == []
    assert said["agentCapabilities"]["promptCapabilities"] == {"image": False, "audio": False, "embeddedContext": True}
    assert set(said["agentCapabilities"]["sessionCapabilities"]) == {
        *("list", "resume", "close", "delete", "additionalDirectories")
    }


@pytest.mark.parametrize("version", [0, 2, 65535])
async def test_another_version_is_answered_with_ours(start: Any, version: int) -> None:
    wire, _ = await start()
    assert (await wire.ask("initialize", {"protocolVersion": version}))["protocolVersion"] == 1


async def test_nothing_before_initialize(room: Room, schema: Any) -> None:
    from planned_engine import PlannedEngine
    from wire_client import wired

    async with wired(PlannedEngine(answer("x")), room.home, schema) as wire:
        with pytest.raises(Refusal, match="initialize comes first") as refusal:
            await wire.ask("session/new", {"cwd": str(room.root), "mcpServers": []})
        assert refusal.value.code == -32600


@pytest.mark.parametrize(
    "method",
    ["session/fork", "session/set_model", "logout", "providers/list", "nes/start", "_own/method", "nonsense"],
)
async def test_what_has_no_route_is_not_found(start: Any, method: str) -> None:
    wire, _ = await start()
    with pytest.raises(Refusal) as refusal:
        await wire.ask(method, {"sessionId": "x", "cwd": "/"}, wrong=method != "logout")
    assert refusal.value.code == -32601


async def test_no_authentication_is_offered_or_taken(start: Any) -> None:
    wire, _ = await start()
    with pytest.raises(Refusal) as refusal:
        await wire.ask("authenticate", {"methodId": "magic"})
    assert refusal.value.code == -32602


async def test_the_sdks_client_holds_a_conversation(start: Any, room: Room) -> None:
    wire, engine = await start(answer("Hello, world."))
    begun = await wire.sdk.new_session(cwd=str(room.root), mcp_servers=[])
    told = await wire.sdk.prompt(session_id=begun.session_id, prompt=[TextContentBlock(type="text", text="Hi")])
    assert told.stop_reason == "end_turn"
    assert wire.text() == "Hello, world."
    assert len(wire.updates("agent_message_chunk")) > 2  # it streams
    assert engine.chats[0].messages[-1].content == "Hi"


async def test_meta_replaces_no_argument(start: Any, room: Room, tmp_path: Path) -> None:
    wire, engine = await start()
    evil = tmp_path / "evil"
    evil.mkdir()
    begun = await wire.ask("session/new", {"cwd": str(room.root), "mcpServers": [], "_meta": {"cwd": str(evil)}})
    session = begun["sessionId"]
    params = prompt_of(session, "Hi") | {"_meta": {"session_id": "other", "prompt": [], "sessionId": "x"}}
    assert (await wire.ask("session/prompt", params))["stopReason"] == "end_turn"
    assert (await wire.ask("session/list", {}))["sessions"][0]["cwd"] == str(room.root)
    assert str(room.root) in engine.chats[0].messages[0].content


async def test_nothing_of_a_session_comes_before_its_result(start: Any, room: Room) -> None:
    wire, _ = await start()
    session = await wire.new(room.root)
    result = next(i for i, frame in enumerate(wire.frames) if frame.get("result", {}).get("sessionId") == session)
    updates = [i for i, frame in enumerate(wire.frames) if frame.get("method") == "session/update"]
    assert updates
    assert min(updates) > result
    names = [each["name"] for each in wire.updates("available_commands_update")[0]["availableCommands"]]
    assert names == ["variant", "status", "adapters", "compact", "clear", "help"]


async def test_updates_come_before_the_response_and_none_after(start: Any, room: Room) -> None:
    wire, _ = await start()
    session = await wire.new(room.root)
    await wire.prompt(session, "Hi")
    last = wire.frames[-1]
    assert last["result"]["stopReason"] == "end_turn"
    await asyncio.sleep(0.05)
    assert wire.frames[-1] is last


async def test_cancel_stops_the_decode_and_answers_cancelled(start: Any, room: Room) -> None:
    wire, engine = await start(answer("word " * 20_000))
    session = await wire.new(room.root)
    engine.gate = asyncio.Event()
    number = wire.start("session/prompt", prompt_of(session, "Hi"))
    await engine.asked.wait()
    engine.gate.set()
    await wire.until(lambda f: f.get("params", {}).get("update", {}).get("sessionUpdate") == "agent_message_chunk")
    wire.notify("session/cancel", {"sessionId": session})
    assert (await wire.answer(number))["stopReason"] == "cancelled"
    assert engine.running == 0
    sent, frames = engine.pieces_sent, len(wire.frames)
    await asyncio.sleep(0.05)
    assert (engine.pieces_sent, len(wire.frames)) == (sent, frames)
    engine.plans = [answer("again")]
    assert (await wire.prompt(session, "And now?"))["stopReason"] == "end_turn"  # the session is not wedged
    told = engine.chats[-1].messages
    assert [turn.role for turn in told] == ["system", "user", "assistant", "user"]
    assert told[2].content.startswith('{"answer": "word')


async def test_cancel_at_once_without_a_turn_and_twice(start: Any, room: Room) -> None:
    wire, engine = await start(answer("x"))
    session = await wire.new(room.root)
    wire.notify("session/cancel", {"sessionId": session})
    wire.notify("session/cancel", {"sessionId": "none"})
    engine.gate = asyncio.Event()
    number = wire.start("session/prompt", prompt_of(session, "Hi"))
    wire.notify("session/cancel", {"sessionId": session})
    wire.notify("session/cancel", {"sessionId": session})
    assert (await wire.answer(number))["stopReason"] == "cancelled"


async def test_a_prompt_that_is_taken_back_is_answered_cancelled(start: Any, room: Room) -> None:
    wire, engine = await start(answer("x"))
    session = await wire.new(room.root)
    engine.gate = asyncio.Event()
    number = wire.start("session/prompt", prompt_of(session, "Hi"))
    await engine.asked.wait()
    wire.notify("$/cancel_request", {"requestId": number})
    wire.notify("$/cancel_request", {"requestId": "none"})
    wire.notify("$/cancel_request", None, wrong=True)
    assert (await wire.answer(number))["stopReason"] == "cancelled"
    assert engine.running == 0


async def test_another_request_that_is_taken_back_is_an_error(start: Any, room: Room) -> None:
    wire, engine = await start()
    session = await wire.new(room.root)
    waiting = asyncio.Event()

    async def never(_variant: Any) -> Any:
        waiting.set()
        await asyncio.Event().wait()

    engine.describe = never
    number = wire.start("session/set_config_option", option(session, "variant", "llama/plain"))
    await waiting.wait()
    wire.notify("$/cancel_request", {"requestId": number})
    with pytest.raises(Refusal) as refusal:
        await wire.answer(number)
    assert refusal.value.code == -32800


async def test_one_turn_at_a_time_in_a_session(start: Any, room: Room) -> None:
    wire, engine = await start(answer("one"), answer("two"))
    session = await wire.new(room.root)
    engine.gate = asyncio.Event()
    first = wire.start("session/prompt", prompt_of(session, "first"))
    second = wire.start("session/prompt", prompt_of(session, "second"))
    await engine.asked.wait()
    await asyncio.sleep(0.05)
    assert len(engine.chats) == 1
    engine.gate.set()
    assert (await wire.answer(first))["stopReason"] == "end_turn"
    assert (await wire.answer(second))["stopReason"] == "end_turn"
    assert wire.text() == "onetwo"


async def test_sessions_are_kept_listed_loaded_and_deleted(start: Any, room: Room, tmp_path: Path) -> None:
    wire, _ = await start(call("list_dir", path="."), answer("There is src."))
    other = tmp_path / "other"
    other.mkdir()
    session = await wire.new(room.root)
    await wire.prompt(session, "What is here?")
    elsewhere = await wire.new(other, usable=False)
    await wire.prompt(elsewhere, "/help")
    listed = (await wire.ask("session/list", {"cwd": str(room.root)}))["sessions"]
    assert [(each["sessionId"], each["title"]) for each in listed] == [(session, "What is here?")]
    assert len((await wire.ask("session/list", {}))["sessions"]) == 2
    files = list((room.home / "acp" / "sessions").iterdir())
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    assert stat.S_IMODE((room.home / "acp" / "sessions").stat().st_mode) == 0o700

    again, engine = await start(answer("Still src."))
    number = again.start("session/load", {"sessionId": session, "cwd": str(room.root), "mcpServers": []})
    await again.answer(number)
    kinds = [each["sessionUpdate"] for each in again.updates()]
    assert kinds[:3] == ["user_message_chunk", "tool_call", "agent_message_chunk"]
    assert again.text() == "There is src."
    loaded = next(i for i, frame in enumerate(again.frames) if frame.get("id") == number)
    assert all("method" in frame for frame in again.frames[1:loaded])  # all of it came before the answer
    await again.prompt(session, "Sure?")
    assert [turn.role for turn in engine.chats[0].messages] == [
        *("system", "user", "assistant", "user", "assistant", "user")
    ]
    await again.ask("session/delete", {"sessionId": session})
    with pytest.raises(Refusal) as refusal:
        await again.ask("session/load", {"sessionId": session, "cwd": str(room.root), "mcpServers": []})
    assert refusal.value.code == -32002
    assert [each["sessionId"] for each in (await again.ask("session/list", {}))["sessions"]] == [elsewhere]


async def test_resume_tells_no_history(start: Any, room: Room) -> None:
    wire, _ = await start(answer("Hello."))
    session = await wire.new(room.root)
    await wire.prompt(session, "Hi")
    await wire.ask("session/close", {"sessionId": session})
    with pytest.raises(Refusal) as refusal:
        await wire.prompt(session, "Hi")
    assert refusal.value.code == -32002
    before = wire.text()
    resumed = await wire.ask("session/resume", {"sessionId": session, "cwd": str(room.root), "mcpServers": []})
    assert {each["id"] for each in resumed["configOptions"]} == {"variant", "context", "scale.style", "mode"}
    assert wire.text() == before
    assert wire.updates("user_message_chunk") == []
    assert (await wire.prompt(session, "Hi"))["stopReason"] == "end_turn"


async def test_closing_a_session_ends_its_turn(start: Any, room: Room) -> None:
    wire, engine = await start(answer("x"))
    session = await wire.new(room.root)
    engine.gate = asyncio.Event()
    number = wire.start("session/prompt", prompt_of(session, "Hi"))
    await engine.asked.wait()
    await wire.ask("session/close", {"sessionId": session})
    assert (await wire.answer(number))["stopReason"] == "cancelled"


@pytest.mark.parametrize("cwd", ["relative", "/no/such/folder", "", "/\x00"])
async def test_a_session_has_a_folder(start: Any, cwd: str) -> None:
    wire, _ = await start()
    with pytest.raises(Refusal) as refusal:
        await wire.ask("session/new", {"cwd": cwd, "mcpServers": []})
    assert refusal.value.code == -32602


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"{nonsense\n", -32700),
        (b"[" * 100_000 + b"\n", -32700),
        (b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":NaN}}\n', -32700),
        (b"[1, 2]\n", -32600),
        (b'{"jsonrpc":"2.0","id":{"a":1},"method":"initialize"}\n', -32600),
        (b'{"jsonrpc":"2.0","id":[],"result":{}}\n', -32600),
        (b'{"jsonrpc":"2.0","id":7,"method":5}\n', -32600),
        (b'{"jsonrpc":"2.0","id":7,"method":"initialize","params":[1]}\n', -32602),
        (b'{"jsonrpc":"2.0","id":7,"method":"session/prompt","params":{"sessionId":1}}\n', -32602),
    ],
)
async def test_what_is_no_message_is_answered_and_the_agent_lives(start: Any, line: bytes, code: int) -> None:
    wire, _ = await start()
    wire.send(line)
    frame = await wire.until(lambda each: "error" in each)
    assert frame["error"]["code"] == code
    assert (await wire.hello())["protocolVersion"] == 1


async def test_answers_that_nobody_waits_for_are_passed_over(start: Any) -> None:
    wire, _ = await start()
    for line in (b'{"jsonrpc":"2.0","id":99,"result":1}\n', b'{"jsonrpc":"2.0","id":0,"error":"text"}\n', b"\n"):
        wire.send(line)
    wire.notify("session/unheard_of", {}, wrong=True)
    assert (await wire.hello())["protocolVersion"] == 1


async def test_no_text_of_an_unforeseen_exception_leaves(start: Any, room: Room) -> None:
    wire, engine = await start()
    session = await wire.new(room.root)
    engine.error = RuntimeError("/secret/path token=123")
    with pytest.raises(Refusal) as refusal:
        await wire.prompt(session, "Hi")
    assert refusal.value.code == -32603
    assert "secret" not in json.dumps(wire.frames)


async def test_an_engine_error_is_told_in_full_and_nothing_is_kept(start: Any, room: Room) -> None:
    wire, engine = await start(answer("fine"))
    session = await wire.new(room.root)
    engine.error = BackendError("the base is gone", code="backend.crashed", remedy="Ask again")
    with pytest.raises(Refusal, match="the base is gone") as refusal:
        await wire.prompt(session, "Hi")
    assert refusal.value.data["code"] == "backend.crashed"
    engine.error = None
    await wire.prompt(session, "Again")
    assert [turn.content for turn in engine.chats[-1].messages[1:]] == ["Again"]


async def test_a_client_that_leaves_ends_the_turn(room: Room, schema: Any) -> None:
    from planned_engine import PlannedEngine
    from wire_client import wired

    engine = PlannedEngine(answer("x"))
    async with wired(engine, room.home, schema) as wire:
        await wire.hello()
        session = await wire.new(room.root)
        engine.gate = asyncio.Event()
        wire.start("session/prompt", prompt_of(session, "Hi"))
        await engine.asked.wait()
    assert engine.running == 0
    assert engine.closed


async def test_pictures_are_refused_as_advertised(start: Any, room: Room) -> None:
    wire, engine = await start()
    session = await wire.new(room.root)
    for block in (
        {"type": "image", "data": "AAAA", "mimeType": "image/png"},
        {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"},
        {"type": "text", "text": "  "},
    ):
        with pytest.raises(Refusal) as refusal:
            await wire.ask("session/prompt", {"sessionId": session, "prompt": [block]})
        assert refusal.value.code == -32602
    assert engine.chats == []


async def test_the_list_has_pages(start: Any, room: Room) -> None:
    from warmline_server.acp.sessions import SessionStore
    from warmline_server.acp.transcript import Noted

    store = SessionStore(room.home)
    for number in range(60):
        record = store.begin(room.root)
        record.add(Noted(text=str(number)))
        store.save(record)
    wire, _ = await start()
    first = await wire.ask("session/list", {})
    second = await wire.ask("session/list", {"cursor": first["nextCursor"]})
    ids = [each["sessionId"] for each in (*first["sessions"], *second["sessions"])]
    assert (len(first["sessions"]), len(set(ids))) == (50, 60)
    assert "nextCursor" not in second
    with pytest.raises(Refusal):
        await wire.ask("session/list", {"cursor": "-1"})


def option(session: str, key: str, value: Any) -> dict[str, Any]:
    return {"sessionId": session, "configId": key, "value": value}


def test_the_store_of_the_tests_is_not_the_users() -> None:
    assert "home" in os.environ["WARMLINE_HOME"]
