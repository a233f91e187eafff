"""One run of a command: its arguments, checked, and whom it tells how it goes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from lsprotocol import types
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pygls.exceptions import JsonRpcException
from warmline.errors import ConfigError, WarmlineError
from warmline.variant import ResolvedVariant

from ...characters import as_message
from ..accepted import MOST_UNITS
from ..documents import Snapshot
from ..progress import Stream, Token
from ..variants import Nowhere, Place

if TYPE_CHECKING:
    from ..session import Session


class Arguments(BaseModel):
    """Base of the commands' arguments: one object, unknown names refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class AboutDocument(Arguments):
    """A command about a document's workspace."""

    uri: str | None = Field(default=None, max_length=8192)


class At(Arguments):
    """A position as LSP has it."""

    line: int = Field(ge=0, le=MOST_UNITS)
    character: int = Field(ge=0, le=MOST_UNITS)


class Span(Arguments):
    """A range as LSP has it; one given from its end to its start is put in order."""

    start: At
    end: At

    @model_validator(mode="after")
    def _in_order(self) -> Span:
        start, end = self.start, self.end
        if (start.line, start.character) <= (end.line, end.character):
            return self
        return Span.model_construct(start=end, end=start)


A = TypeVar("A", bound=Arguments)


class Refused(JsonRpcException):
    """What a client gets in place of a result; it is no fault of the server's, so its log is silent."""

    @classmethod
    def by(cls, error: WarmlineError) -> Refused:
        """Make it of a typed error; `data` holds code, message, file, field and remedy."""
        text = f"{error.message}. {error.remedy}" if error.remedy else error.message
        return cls(as_message(text), code=types.LSPErrorCodes.RequestFailed.value, data=error.to_dict())


@dataclass(frozen=True, slots=True)
class Call:
    """A command that runs."""

    session: Session
    command: str
    given: tuple[Any, ...]
    work: Token | None = None

    def arguments(self, model: type[A]) -> A:
        """Read the one object that the command takes; raises `Refused` where it is not as it should be."""
        try:
            return model.model_validate(self.given[0] if self.given and self.given[0] is not None else {})
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False, include_context=False)[0]
            where = ".".join(map(str, first["loc"])) or "arguments"
            text = f"{where}: {first['msg']}; {self.command} takes {_shape(model)}"
            raise Refused(as_message(text), code=types.ErrorCodes.InvalidParams.value) from None

    def stream(self, partial: Token | None = None) -> Stream:
        """Give what the client is told before the result."""
        return Stream(self.session.outlet, self.work, partial)

    def place(self, uri: str | None) -> Place:
        """Find what selects the variant of a document, or, without one, of the document at hand or the workspace.

        Raises
        ------
        ConfigError
            ``config.no_workspace``.
        """
        # A document without a file belongs to the first folder, and so does a question about none.
        place = self.session.variants.place(uri or self.session.at_hand or "untitled:")
        if isinstance(place, Nowhere):
            raise ConfigError(
                "no workspace selects a variant here",
                code="config.no_workspace",
                remedy="Select one: warmline.selectVariant",
            )
        return place

    def document(self, uri: str) -> Snapshot:
        """Give a document as it is now; raises `Refused` where it is not open."""
        snapshot = self.session.documents.get(uri)
        if snapshot is None or not snapshot.in_sync:
            raise Refused("the document is not open", code=types.ErrorCodes.InvalidParams.value)
        return snapshot

    def variant(self, place: Place, name: str | None) -> ResolvedVariant:
        """Resolve a place's variant to chat with, or the one that was named; errors as in `Variants.resolve`."""
        variants = self.session.variants
        return variants.resolve_named(name, place.workspace) if name else variants.resolve(place, chat=True)


def _shape(model: type[Arguments]) -> str:
    """Draw the object that a command takes: what it must have, and the names of what it may have."""
    named = {field.alias or name: field.is_required() for name, field in model.model_fields.items()}
    must = ", ".join(f'"{name}": ...' for name, required in named.items() if required)
    may = ", ".join(f'"{name}"' for name, required in named.items() if not required)
    return f"{{{must}}}" + (f"; it may have {may}" if may else "")
