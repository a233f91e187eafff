"""What the model decides in one step: a tool call or an answer, as one JSON object that it is held to by grammar."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from warmline.artifacts.bounded_json import BadJSON, parse_object
from warmline.backends.json_schema import check_schema
from warmline.errors import BackendError

from .modes import Mode, allowed
from .tools.tool import STRING, Tool, object_of

PLAN_TOOL: Final = "update_plan"
_MAX_DEPTH, _MAX_CONTAINERS = 32, 4096
_ANSWER: Final = re.compile(r'\s*\{\s*"answer"\s*:\s*"')
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", '"': '"', "\\": "\\", "/": "/"}
_STEP: Final = object_of(
    {"content": STRING, "status": {"enum": ["pending", "in_progress", "completed"]}},
)
_PLAN: Final = object_of({"entries": {"type": "array", "items": _STEP, "maxItems": 20}})
_HEAD: Final = """\
You are a coding assistant who works in the folder {cwd}. Each of your replies is one JSON object.
To use a tool: {{"tool": NAME, "arguments": {{...}}}}. You are told its result. To answer the user: {{"answer": TEXT}}.
Use a tool only where it is needed. Paths are relative to the folder. Tools:"""
_PLAN_USAGE: Final = f"{PLAN_TOOL}(entries): shows the user your plan, a list of content and status"


class BadPlan(Exception):
    """What was decoded is no plan; the message is for the model."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The model answers."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCall:
    """The model wants a tool."""

    name: str
    arguments: dict[str, Any]


def system_prompt(cwd: str, tools: Iterable[Tool]) -> str:
    """Tell the model how to speak. It says the same all through a session, so that its KV stays warm."""
    usages = [tool.usage for tool in tools]
    return "\n".join([_HEAD.format(cwd=cwd), *(f"- {usage}" for usage in (*usages, _PLAN_USAGE))])


def plan_schema(tools: Sequence[Tool], mode: Mode) -> str:
    """Write the schema that a step is decoded under: an answer, or a call of a tool that the mode allows."""
    choices = [object_of({"answer": STRING}), _call(PLAN_TOOL, _PLAN)]
    choices += [_call(tool.name, tool.schema) for tool in tools if allowed(mode, tool.effect)]
    return json.dumps({"anyOf": choices})


def usable_schema(schema: Any) -> dict[str, Any]:
    """Give a foreign tool's schema where output can be held to it, else that of any object."""
    try:
        return check_schema(json.dumps(schema))
    except (BackendError, TypeError, ValueError):
        return {"type": "object"}


def parse_plan(text: str) -> Answer | ToolCall:
    """Read what was decoded; raises `BadPlan`."""
    try:
        plan = parse_object(text.encode(), max_depth=_MAX_DEPTH, max_containers=_MAX_CONTAINERS, floats=True)
    except BadJSON as error:
        raise BadPlan(f"it is not one JSON object: {error.message}") from None
    # Half of a character is JSON, and no text.
    plan = json.loads(json.dumps(plan, ensure_ascii=False).encode("utf-8", "replace"))
    if plan.keys() == {"answer"} and isinstance(plan["answer"], str):
        return Answer(plan["answer"])
    name, arguments = plan.get("tool"), plan.get("arguments")
    if plan.keys() == {"tool", "arguments"} and isinstance(name, str) and isinstance(arguments, dict):
        return ToolCall(name, arguments)
    raise BadPlan('it has neither just "answer" nor just "tool" and "arguments"')


def as_answer(text: str) -> str:
    """Write a text as the plan that answers with it."""
    return json.dumps({"answer": text}, ensure_ascii=False)


class AnswerText:
    """Finds an answer's text in a plan while it is decoded, and nothing that is no answer's."""

    def __init__(self) -> None:
        self._raw = ""
        self._at: int | None = None
        self._ended = False

    def feed(self, piece: str) -> str:
        """Take more of the plan and give the text that became known with it."""
        self._raw += piece
        if self._at is None:
            match = _ANSWER.match(self._raw)
            if match is None:
                return ""
            self._at = match.end()
        found = []
        while not self._ended and (part := self._next()) is not None:
            found.append(part)
        return "".join(found)

    def _next(self) -> str | None:
        assert self._at is not None
        at, raw = self._at, self._raw
        if at >= len(raw):
            return None
        if raw[at] == '"':
            self._ended = True
            return None
        if raw[at] != "\\":
            stop = min((found for sign in '"\\' if (found := raw.find(sign, at)) >= 0), default=len(raw))
            self._at = stop
            return raw[at:stop]
        if at + 1 >= len(raw):
            return None
        if raw[at + 1] != "u":
            self._at = at + 2
            return _ESCAPES.get(raw[at + 1], "")
        return self._unicode(at)

    def _unicode(self, at: int) -> str | None:
        r"""Decode ``\uXXXX``, and two of them where they are the halves of one character."""
        raw = self._raw
        unit = _unit(raw, at)
        if unit is None:
            return None if len(raw) < at + 6 else self._skip(at, 2)
        if not 0xD800 <= unit <= 0xDFFF:
            self._at = at + 6
            return chr(unit)
        low = _unit(raw, at + 6)
        if low is None and len(raw) < at + 12 and "\\u".startswith(raw[at + 6 : at + 8]):
            return None  # the other half may be on its way
        if unit < 0xDC00 and low is not None and 0xDC00 <= low <= 0xDFFF:
            self._at = at + 12
            return chr(0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00))
        return self._skip(at, 6)

    def _skip(self, at: int, count: int) -> str:
        self._at = at + count
        return "?"


def _unit(raw: str, at: int) -> int | None:
    digits = raw[at + 2 : at + 6]
    if raw[at : at + 2] != "\\u" or len(digits) < 4:
        return None
    try:
        return int(digits, 16)
    except ValueError:
        return None


def _call(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    return object_of({"tool": {"const": name}, "arguments": schema})
