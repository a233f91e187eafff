"""Warmline's own format, for any model and any chat template: each reply is one JSON object, in plain messages."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from warmline.host.wire import ChatTurn

from ..modes import Mode
from ..plans import Answer, BadPlan, Plan, ToolCall, as_object, callable_, told
from ..tools.tool import Tool, object_of
from .answer_text import AnswerText
from .format import Held

_HEAD: Final = """\
You are a coding assistant who works in the folder {cwd}. Each of your replies is one JSON object.
To use a tool: {{"tool": NAME, "arguments": {{...}}}}. You are told its result. To answer the user: {{"answer": TEXT}}.
Use a tool only where it is needed. Paths are relative to the folder. Tools:"""
# An answer says something: an empty one helps nobody, and a small model is tempted.
_ANSWER: Final = object_of({"answer": {"type": "string", "minLength": 1}})


class Neutral:
    """See `Format`."""

    name = "neutral"
    how = 'one JSON object, {"tool": NAME, "arguments": {...}} or {"answer": TEXT}'

    def system_prompt(self, cwd: Path, tools: Sequence[Tool]) -> str:
        """See `Format.system_prompt`."""
        return "\n".join([_HEAD.format(cwd=cwd), *(_line(offer.usage) for offer in told(tools))])

    def characters(self, tool: Tool) -> int:
        """See `Format.characters`."""
        return len(_line(tool.usage)) + 1

    def held(self, tools: Sequence[Tool], mode: Mode, *, only_answer: bool) -> Held:
        """See `Format.held`."""
        if only_answer:
            return Held(json.dumps(_ANSWER))
        calls = [_call(offer.name, offer.schema) for offer in callable_(tools, mode)]
        return Held(json.dumps({"anyOf": [_ANSWER, *calls]}))

    def reader(self) -> AnswerText:
        """See `Format.reader`."""
        return AnswerText()

    def parse(self, text: str) -> Plan:
        """See `Format.parse`."""
        plan = as_object(text)
        if plan.keys() == {"answer"} and isinstance(plan["answer"], str):
            return Answer(plan["answer"])
        name, arguments = plan.get("tool"), plan.get("arguments")
        if plan.keys() == {"tool", "arguments"} and isinstance(name, str) and isinstance(arguments, dict):
            return ToolCall(name, arguments)
        raise BadPlan('it has neither just "answer" nor just "tool" and "arguments"')

    def said(self, plan: Plan, decoded: str | None) -> ChatTurn:
        """See `Format.said`; what was decoded, to the letter, has its KV already."""
        return ChatTurn(role="assistant", content=_written(plan) if decoded is None else decoded)

    def result(self, text: str) -> ChatTurn:
        """See `Format.result`."""
        return ChatTurn(role="user", content=text)


def _line(usage: str) -> str:
    return f"- {usage}"


def _written(plan: Plan) -> str:
    if isinstance(plan, Answer):
        return json.dumps({"answer": plan.text}, ensure_ascii=False)
    return json.dumps({"tool": plan.name, "arguments": plan.arguments}, ensure_ascii=False)


def _call(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    return object_of({"tool": {"const": name}, "arguments": schema})
