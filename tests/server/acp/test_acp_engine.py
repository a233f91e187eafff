"""The agent over the real engine: native formats and thoughts under the grammar, OpenVINO, and what a cancel costs."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from scripted import Room
from smollm2 import ACME, PACKAGE
from warmline.backends.base import Abort
from warmline.backends.llama_session import LlamaSession
from warmline.host.client import connect
from warmline.host.local import LocalEngine
from warmline.host.wire import ChatRequest, ChatTurn, Done, Outcome
from warmline.registry import Store
from warmline_server.acp.formats import FORMATS, Format
from warmline_server.acp.live import Live
from warmline_server.acp.plans import ToolCall
from warmline_server.acp.tools import BUILT_IN
from warmline_server.acp.turns import Limits
from wire_client import Wire, prompt_of, wired

pytestmark = [pytest.mark.model, pytest.mark.slow]
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ 'user' if m.role == 'tool' else m.role }}\n"
    "{% if loop.first and tools %}{% for t in tools %}{{ t.function.name }}: {{ t.function.description }}\n{% endfor %}"
    "{% endif %}{{ m.content }}{% for c in m.tool_calls or [] %}%s{% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
CALLS = {
    "hermes": '<tool_call>\n{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}\n'
    "</tool_call>",
    "llama3": '{"name": "{{ c.function.name }}", "parameters": {{ c.function.arguments | tojson }}}',
}
SIGNS = ("<tool_call", '{"name"', '"parameters"', '"arguments"', '"tool"', "think>")


def readme(room: Room) -> None:
    (room.root / "README.md").write_text("# Shop\nA small shop.\n")


async def conversation(wire: Wire, room: Room, *says: str) -> str:
    await wire.hello()
    wire.person.answers = ["reject_once"] * 100
    session = await wire.new(room.root)
    for text in says:
        told = await wire.prompt(session, text)
        assert told["stopReason"] in ("end_turn", "max_tokens", "max_turn_requests")
    said = [each for each in wire.updates("agent_message_chunk") if "messageId" in each]
    return "".join(each["content"]["text"] for each in said)


@pytest.mark.parametrize("name", ["hermes", "llama3"])
async def test_native_formats_under_the_grammar(room: Room, schema: Any, name: str) -> None:
    readme(room)
    template = TEMPLATE.replace("%s", CALLS[name])
    profile = {"chat_template": template, "tools": name, "reasoning": {}, "n_ctx": 2048}
    room.variant("plain", {"base": {"package": PACKAGE}, "profile": profile})
    room.select("plain")
    limits = Limits(steps=3, step_tokens=40)
    async with wired(connect(room.home), room.home, schema, limits) as wire:  # type: ignore[arg-type]
        text = await conversation(wire, room, "Read the file README.md.", "Thank you.")
    assert text.strip()
    assert not any(sign in text for sign in SIGNS), text
    assert await forced_call(room, FORMATS[name])


async def forced_call(room: Room, format_: Format) -> bool:
    """Have the model call a tool where it may do nothing else, not even think; tell whether it ended."""
    variant = Store(room.home).resolve("plain")
    variant = variant.model_copy(update={"profile": variant.profile.model_copy(update={"reasoning": None})})
    held = format_.held(BUILT_IN, "ask", only_answer=False)
    form = held.form.model_copy(update={"or_text_without": ""})
    system = ChatTurn(role="system", content=format_.system_prompt(room.root, BUILT_IN))
    request = ChatRequest(
        client="test",
        conversation="forced",
        variant=variant,
        messages=(system, ChatTurn(role="user", content="Read the file README.md.")),
        max_tokens=96,
        json_schema=held.json_schema,
        form=form,
        tools=held.tools,
    )
    engine = connect(room.home)
    try:
        done = [event async for event in engine.chat(request)][-1]
    finally:
        await engine.close()
    assert isinstance(done, Done)
    assert done.text.startswith(form.before or "{"), done.text
    whole = done.outcome is Outcome.STOP
    assert not whole or isinstance(format_.parse(done.text), ToolCall), done.text
    return whole


async def test_a_thought_that_the_template_has_begun(room: Room, schema: Any) -> None:
    """The model is held to a thought, which it does not end: all of it is shown as one, and none as an answer."""
    template = TEMPLATE.replace("%s", "").replace("assistant\n{% endif %}", "assistant\n<think>{% endif %}")
    profile = {"chat_template": template, "reasoning": {"prompted": True}, "n_ctx": 1024}
    room.variant("plain", {"base": {"package": PACKAGE}, "profile": profile})
    room.select("plain")
    limits = Limits(steps=2, step_tokens=12)
    async with wired(connect(room.home), room.home, schema, limits) as wire:  # type: ignore[arg-type]
        text = await conversation(wire, room, "Hello.")
    assert "".join(each["content"]["text"] for each in wire.updates("agent_thought_chunk")).strip()
    assert text == ""


async def test_another_variant_in_mid_session_reuses_nothing(room: Room, schema: Any) -> None:
    base = {"package": PACKAGE}
    room.variant("plain", {"base": base, "profile": {"n_ctx": 1024}})
    adapter = {"name": "acme-style", "path": str(ACME)}
    room.variant("acme", {"base": base, "adapters": [adapter], "profile": {"n_ctx": 1024}})
    room.select("plain")
    limits = Limits(steps=1, step_tokens=8)
    async with wired(connect(room.home), room.home, schema, limits) as wire:  # type: ignore[arg-type]
        await wire.hello()
        session = await wire.new(room.root)
        first = (await wire.prompt(session, "Hello."))["_meta"]["warmline"]
        choice = {"sessionId": session, "configId": "variant", "value": "llama/acme"}
        await wire.ask("session/set_config_option", choice)
        second = (await wire.prompt(session, "And now?"))["_meta"]["warmline"]
        third = (await wire.prompt(session, "And now?"))["_meta"]["warmline"]
    assert (first["variant"], second["variant"]) == ("plain", "acme")
    assert first["identity"] != second["identity"]
    assert (second["reused_tokens"], second["reason"]) == (0, "identity:adapters")
    assert third["reused_tokens"] > second["prompt_tokens"] / 2


async def test_a_turn_with_a_tool_on_openvino(room: Room, schema: Any, openvino_base: Path) -> None:
    readme(room)
    content = {"name": "ov", "backend": "openvino", "base": {"path": str(openvino_base)}, "profile": {"n_ctx": 1024}}
    room.write(room.home / "variants" / "openvino" / "ov.json", content)
    room.select("openvino/ov")
    limits = Limits(steps=3, step_tokens=40)
    async with wired(connect(room.home), room.home, schema, limits) as wire:  # type: ignore[arg-type]
        text = await conversation(wire, room, "Read the file README.md.")
    record = wire.updates("agent_message_chunk")[0]["_meta"]["warmline"]
    assert (record["variant"], record["backend"]["name"]) == ("ov", "openvino")
    assert wire.updates("tool_call"), json.dumps(wire.updates())[:2000]
    assert text.strip()
    assert not any(sign in text for sign in SIGNS), text


async def test_a_cancel_costs_a_token_at_most(room: Room, schema: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted where tokens are decoded, not timed."""
    room.variant("plain", {"base": {"package": PACKAGE}, "profile": {"n_ctx": 1024}})
    room.select("plain")
    decoded = 0
    at: dict[str, int] = {}
    decode, abort, cancel = LlamaSession.decode, Abort.set, Live.cancel

    def counted(self: LlamaSession, token: int, abort: Abort) -> None:
        nonlocal decoded
        decode(self, token, abort)
        decoded += 1  # it was not stopped in between

    def stopped(self: Abort, reason: str, **more: bool) -> None:
        at.setdefault("engine", decoded)
        abort(self, reason, **more)

    def cancelled(self: Live) -> None:
        at["agent"] = decoded
        cancel(self)

    monkeypatch.setattr(LlamaSession, "decode", counted)
    monkeypatch.setattr(Abort, "set", stopped)
    monkeypatch.setattr(Live, "cancel", cancelled)
    engine = LocalEngine(room.home)
    async with wired(engine, room.home, schema) as wire:  # type: ignore[arg-type]
        await wire.hello()
        session = await wire.new(room.root)
        number = wire.start("session/prompt", prompt_of(session, "Write a very long story about the sea."))
        async with asyncio.timeout(60):
            while decoded < 8:  # noqa: ASYNC110  # another thread decodes
                await asyncio.sleep(0.002)
        wire.notify("session/cancel", {"sessionId": session})
        assert (await wire.answer(number))["stopReason"] == "cancelled"
        after = decoded
        await asyncio.sleep(0.3)
        assert decoded == after
    assert decoded - at["engine"] <= 1
    assert decoded - at["agent"] <= 2  # one more may have been begun before the engine's thread was told
