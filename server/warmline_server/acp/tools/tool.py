"""What a tool is: it checks its arguments and prepares an action, which is shown, permitted, and then done."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from ..client import Client
from ..confinement import Roots
from ..modes import Effect

Json = dict[str, Any]
Report = Callable[[list[Json]], Awaitable[None]]
A = TypeVar("A", bound="Arguments")


class ToolError(Exception):
    """A tool cannot do what was asked; the model is told why and goes on."""


class Arguments(BaseModel):
    """Base of tools' arguments: unknown names refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a tool works: a session's client and folders."""

    session_id: str
    client: Client
    roots: Roots

    def shown(self, path: Path) -> str:
        """Write a path as the model and people read it."""
        return self.roots.shown(path)


@dataclass(frozen=True, slots=True)
class Result:
    """What came of an action: text for the model, and content for the client."""

    text: str
    content: list[Json] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Action:
    """What a tool is about to do.

    Attributes
    ----------
    title, kind
        As a client shows it, and the protocol's kind of it.
    effect
        What permission it takes.
    scope
        What *always* would permit, exactly, in words; permissions are kept by it.
    perform
        Does it; is given what reports content while it works.
    """

    title: str
    kind: str
    effect: Effect
    scope: str
    perform: Callable[[Report], Awaitable[Result]]
    content: list[Json] = field(default_factory=list)
    locations: list[Path] = field(default_factory=list)


class Tool(Protocol):
    """One tool. `schema` is that of its arguments, within what output can be held to."""

    @property
    def name(self) -> str:
        """The name by which the model calls it."""
        ...

    @property
    def effect(self) -> Effect:
        """What permission it takes."""
        ...

    @property
    def usage(self) -> str:
        """One line for the model."""
        ...

    @property
    def schema(self) -> Json:
        """JSON schema of the arguments."""
        ...

    async def prepare(self, arguments: Json, place: Place) -> Action:
        """Check the arguments and say what would be done; raises `ToolError`."""
        ...


def checked(model: type[A], arguments: Json) -> A:
    """Read a tool's arguments; raises `ToolError` in words that a model can follow."""
    try:
        return model.model_validate(arguments)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        raise ToolError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None


def object_of(required: dict[str, Json], optional: dict[str, Json] | None = None) -> Json:
    """Write the schema of an object with these properties and no others."""
    return {
        "type": "object",
        "properties": {**required, **(optional or {})},
        "required": list(required),
        "additionalProperties": False,
    }


STRING: Json = {"type": "string"}
INTEGER: Json = {"type": "integer"}
