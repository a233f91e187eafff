"""The variant as an option: what is offered, what runs, and that each place that names it says the same."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from planned_engine import answer
from scripted import Room, identity
from wire_client import Refusal, Wire, prompt_of


def by_id(options: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {each["id"]: each for each in options}


async def choose(wire: Wire, session: str, key: str, value: Any) -> dict[str, dict[str, Any]]:
    params = {"sessionId": session, "configId": key, "value": value}
    return by_id(
        (await wire.ask("session/set_config_option", params, wrong=not isinstance(value, str)))["configOptions"]
    )


async def begin(wire: Wire, room: Room) -> tuple[str, dict[str, dict[str, Any]]]:
    begun = await wire.ask("session/new", {"cwd": str(room.root), "mcpServers": []})
    await wire.until(lambda f: f.get("params", {}).get("update", {}).get("sessionUpdate") == "usage_update")
    return begun["sessionId"], by_id(begun["configOptions"])


async def test_what_a_session_offers(start: Any, room: Room) -> None:
    wire, _ = await start()
    _, options = await begin(wire, room)
    variant = options["variant"]
    assert (variant["category"], variant["type"], variant["currentValue"]) == ("model", "select", "llama/acme")
    entries = {each["value"]: each for group in variant["options"] for each in group["options"]}
    assert set(entries) == {"llama/acme", "llama/plain"}
    assert {group["name"] for group in variant["options"]} == {"base"}
    assert "style@1" in entries["llama/acme"]["description"]
    assert "unverified" in entries["llama/acme"]["description"]
    assert (options["scale.style"]["category"], options["scale.style"]["currentValue"]) == ("model_config", "1")
    assert (options["mode"]["category"], options["mode"]["currentValue"]) == ("mode", "ask")
    told = by_id(wire.updates("config_option_update")[-1]["configOptions"])
    assert "4096" in [each["value"] for each in told["context"]["options"]]
    assert identity_of("acme") in told["variant"]["description"]


def identity_of(name: str) -> str:
    return ("1" if name == "acme" else "2") * 12


async def test_a_variant_switched_in_mid_session(start: Any, room: Room) -> None:
    wire, engine = await start(answer("Hello."))
    session, _ = await begin(wire, room)
    first = await wire.prompt(session, "Hi")
    options = await choose(wire, session, "variant", "llama/plain")
    assert options["variant"]["currentValue"] == "llama/plain"
    assert "scale.style" not in options
    assert by_id(wire.updates("config_option_update")[-1]["configOptions"]) == options
    wire.frames.clear()
    second = await wire.prompt(session, "Hi again")
    assert [chat.variant.name for chat in engine.chats] == ["acme", "plain"]
    names = [each["_meta"]["warmline"]["variant"] for each in wire.updates("agent_message_chunk")]
    assert set(names) == {"plain"}
    for told, name in ((first, "acme"), (second, "plain")):
        record = told["_meta"]["warmline"]
        assert (record["variant"], record["identity"][:19]) == (name, "sha256:" + identity_of(name))
        assert [adapter["name"] for adapter in record["adapters"]] == (["style"] if name == "acme" else [])
    await wire.prompt(session, "/status")
    assert "| Variant | plain |" in wire.text()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("variant", "llama/none"), ("variant", "acme"), ("variant", "none"), ("variant", "../x"), ("context", "5")),
        *(("context", "999999999"), ("scale.style", "9"), ("scale.other", "1"), ("mode", "yolo"), ("none", "1")),
        *(("variant", True), ("context", 4096)),
    ],
)
async def test_what_is_not_offered_is_refused_and_changes_nothing(start: Any, room: Room, key: str, value: Any) -> None:
    wire, engine = await start(answer("Hello."))
    session, _ = await begin(wire, room)
    told = len(wire.updates("config_option_update"))
    with pytest.raises(Refusal) as refusal:
        await choose(wire, session, key, value)
    assert refusal.value.code == -32602
    assert len(wire.updates("config_option_update")) == told
    await wire.prompt(session, "Hi")
    assert engine.chats[0].variant.name == "acme"


async def test_a_variant_whose_files_are_gone_is_an_error_never_another(start: Any, room: Room) -> None:
    wire, engine = await start(answer("Hello."))
    session, _ = await begin(wire, room)
    room.variant_path("acme").unlink()
    with pytest.raises(Refusal) as refusal:
        await wire.prompt(session, "Hi")
    assert refusal.value.data["code"] == "variant.unknown"
    assert engine.chats == []


async def test_without_a_selection_the_person_chooses(start: Any, room: Room) -> None:
    room.config.unlink()
    wire, engine = await start(answer("Hello."))
    begun = await wire.ask("session/new", {"cwd": str(room.root), "mcpServers": []})
    session = begun["sessionId"]
    assert by_id(begun["configOptions"])["variant"]["currentValue"] == "none"
    with pytest.raises(Refusal) as refusal:
        await wire.prompt(session, "Hi")
    assert refusal.value.data["code"] == "config.no_workspace"
    await choose(wire, session, "variant", "llama/plain")
    await wire.prompt(session, "Hi")
    assert engine.chats[0].variant.name == "plain"


async def test_the_workspace_file_is_followed_and_the_client_told(start: Any, room: Room) -> None:
    wire, engine = await start(answer("Hello."))
    session, _ = await begin(wire, room)
    room.select("plain")
    await wire.prompt(session, "Hi")
    assert engine.chats[0].variant.name == "plain"
    assert by_id(wire.updates("config_option_update")[-1]["configOptions"])["variant"]["currentValue"] == "llama/plain"


async def test_scale_and_context_really_run(start: Any, room: Room) -> None:
    wire, engine = await start(answer("Hello."))
    session, _ = await begin(wire, room)
    assert (await choose(wire, session, "scale.style", "0.5"))["scale.style"]["currentValue"] == "0.5"
    options = await choose(wire, session, "context", "8192")
    assert options["context"]["currentValue"] == "8192"
    assert options["scale.style"]["currentValue"] == "0.5"
    await wire.prompt(session, "Hi")
    variant = engine.chats[0].variant
    assert (str(variant.adapters[0].scale), variant.profile.n_ctx) == ("0.5", 8192)
    assert wire.updates("usage_update")[-1] == {"sessionUpdate": "usage_update", "used": 43, "size": 8192}


async def test_the_context_told_is_what_runs_not_what_was_asked_for(start: Any, room: Room) -> None:
    room.variant("acme", {"base": {"path": str(room.base)}, "profile": {"n_ctx": 100_000}})
    wire, _ = await start(answer("Hello."))
    await begin(wire, room)
    assert wire.updates("usage_update")[-1]["size"] == 8192
    told = by_id(wire.updates("config_option_update")[-1]["configOptions"])["context"]
    assert told["currentValue"] == "8192"
    assert max(int(each["value"]) for each in told["options"]) == 8192


async def test_the_choice_is_kept_with_the_session(start: Any, room: Room) -> None:
    wire, _ = await start(answer("Hello."))
    session, _ = await begin(wire, room)
    await choose(wire, session, "variant", "llama/plain")
    await wire.ask("session/set_mode", {"sessionId": session, "modeId": "read-only"})
    await wire.prompt(session, "Hi")
    again, engine = await start(answer("Hello."))
    loaded = await again.ask("session/load", {"sessionId": session, "cwd": str(room.root), "mcpServers": []})
    assert loaded["modes"]["currentModeId"] == "read-only"
    assert by_id(loaded["configOptions"])["variant"]["currentValue"] == "llama/plain"
    await again.prompt(session, "Hi")
    assert engine.chats[0].variant.name == "plain"


async def test_the_mode_is_an_option_and_a_mode(start: Any, room: Room) -> None:
    wire, _ = await start()
    session, _ = await begin(wire, room)
    await wire.ask("session/set_mode", {"sessionId": session, "modeId": "edit"})
    assert by_id(wire.updates("config_option_update")[-1]["configOptions"])["mode"]["currentValue"] == "edit"
    await choose(wire, session, "mode", "read-only")
    assert [each["currentModeId"] for each in wire.updates("current_mode_update")] == ["edit", "read-only"]
    with pytest.raises(Refusal) as refusal:
        await wire.ask("session/set_mode", {"sessionId": session, "modeId": "yolo"})
    assert refusal.value.code == -32602


async def test_eight_sessions_on_two_variants_each_name_their_own(start: Any, room: Room) -> None:
    wire, engine = await start()
    engine.reply = lambda request: answer(f"{request.messages[-1].content} by {request.variant.name} " * 5)
    sessions = [await wire.new(room.root) for _ in range(8)]
    for session in sessions[::2]:
        await choose(wire, session, "variant", "llama/plain")
    wire.frames.clear()
    numbers = [wire.start("session/prompt", prompt_of(each, f"s{i}")) for i, each in enumerate(sessions)]
    await asyncio.gather(*(wire.answer(number) for number in numbers))
    for index, session in enumerate(sessions):
        name = "acme" if index % 2 else "plain"
        assert wire.text(session) == f"s{index} by {name} " * 5
        for update in wire.updates("agent_message_chunk", session):
            record = update["_meta"]["warmline"]
            assert record["variant"] == name
            assert record["identity"][:19] == "sha256:" + identity_of(name)
    assert len({chat.conversation for chat in engine.chats}) == 8


async def test_commands_read_the_engine_and_never_the_model(start: Any, room: Room) -> None:
    wire, engine = await start(answer("Hello."))
    session, _ = await begin(wire, room)
    for command in ("/help", "/status", "/adapters", "/variant", "/compact", "/variant none", "/variant plain"):
        assert (await wire.prompt(session, command))["stopReason"] == "end_turn"
    assert engine.chats == []
    text = wire.text()
    assert "style@1 (effective 2), user, unverified, aaaaaaaaaaaa" in text
    assert "Nothing changed: `none` is none" in text
    assert "| Used | 0 of 4096 tokens |" in text
    await wire.prompt(session, "Hi")
    assert engine.chats[0].variant.name == "plain"
    assert [turn.content for turn in engine.chats[0].messages[1:]] == ["Hi"]  # the model is told of no command
    await wire.prompt(session, "/clear")
    kept = (room.home / "acp" / "sessions" / f"{session}.jsonl").read_text()
    assert "Hello" not in kept
    assert "forgotten" in kept
    await wire.prompt(session, "/unknown command")
    assert [turn.content for turn in engine.chats[1].messages[1:]] == ["/unknown command"]


async def test_a_file_that_changed_in_between_is_named_as_what_ran(start: Any, room: Room) -> None:
    wire, engine = await start(answer("Hello."))
    session, _ = await begin(wire, room)
    stale = await engine.describe(engine_variant(room))

    async def load(variant: Any, client: str = "") -> Any:
        return stale.model_copy(update={"identity": "sha256:" + "9" * 64})

    engine.load = load
    told = await wire.prompt(session, "Hi")
    assert told["_meta"]["warmline"]["identity"] == identity(engine.chats[0].variant)


def engine_variant(room: Room) -> Any:
    from warmline.registry import Store

    return Store(room.home).resolve("acme")


async def test_a_session_begins_with_the_variant_that_the_workspace_chats_with(start: Any, room: Room) -> None:
    room.write(room.config, {"variant": "acme", "chat": "plain"})
    wire, engine = await start(answer("Hello."))
    session, options = await begin(wire, room)
    assert options["variant"]["currentValue"] == "llama/plain"
    await wire.prompt(session, "Hi")
    assert [chat.variant.name for chat in engine.chats] == ["plain"]
