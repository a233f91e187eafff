"""What the model decides in one step, a tool call or an answer, and what it is offered to decide between."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from warmline.artifacts.bounded_json import BadJSON, parse_object
from warmline.backends.json_schema import check_schema
from warmline.errors import BackendError

from ..characters import whole
from .modes import Mode, allowed
from .tools.tool import STRING, Tool, object_of

Json = dict[str, Any]
PLAN_TOOL: Final = "update_plan"
_MAX_DEPTH, _MAX_CONTAINERS = 32, 4096
_STEP: Final = object_of(
    {"content": STRING, "status": {"enum": ["pending", "in_progress", "completed"]}},
)
_PLAN: Final = object_of({"entries": {"type": "array", "items": _STEP, "maxItems": 20}})
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
    arguments: Json


Plan = Answer | ToolCall


class Offer(NamedTuple):
    """A tool as the model is told of it: `usage` is a line, `schema` that of its arguments."""

    name: str
    usage: str
    schema: Json


def told(tools: Sequence[Tool]) -> list[Offer]:
    """Give what the model is told of: the same all through a session, so that its KV stays warm."""
    return [*(Offer(tool.name, tool.usage, tool.schema) for tool in tools), Offer(PLAN_TOOL, _PLAN_USAGE, _PLAN)]


def callable_(tools: Sequence[Tool], mode: Mode) -> list[Offer]:
    """Give what the model can call in a mode."""
    return [told(())[0], *told([tool for tool in tools if allowed(mode, tool.effect)])[:-1]]


def usable_schema(schema: Any) -> Json:
    """Give a foreign tool's schema where output can be held to it, else that of any object."""
    try:
        return check_schema(json.dumps(schema))
    except (BackendError, TypeError, ValueError):
        return {"type": "object"}


def as_object(text: str) -> Json:
    """Read one JSON object that was decoded; raises `BadPlan`."""
    try:
        value = parse_object(text.encode(), max_depth=_MAX_DEPTH, max_containers=_MAX_CONTAINERS, floats=True)
    except BadJSON as error:
        raise BadPlan(f"it is not one JSON object: {error.message}") from None
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except ValueError:  # digits can write what JSON cannot hold
        raise BadPlan("it holds a number that is too large") from None
    found: Json = json.loads(whole(text))
    return found
