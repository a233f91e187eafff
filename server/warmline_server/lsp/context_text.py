"""The part of a document that goes along with a question: the selection, what is around it, and its name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from warmline.errors import ConfigError

from . import uris
from .documents import LineAndCharacter, Snapshot
from .markdown import fenced
from .refusals import OFF_PATH, SECRET, in_document, path_in
from .variants import Nowhere, Place

if TYPE_CHECKING:
    from .session import Session

_KEPT_BACK: Final = {
    SECRET: "this file may hold secrets",
    OFF_PATH: "this file is switched off by the setting disabledPaths",
}


class LineRange(Protocol):
    """A range as LSP has it."""

    @property
    def start(self) -> LineAndCharacter: ...
    @property
    def end(self) -> LineAndCharacter: ...


async def about(session: Session, place: Place, uri: str | None, where: LineRange | None) -> str:
    """Write a document's text as a message to a model has it; nothing for a document that is not open.

    The text stands after the question, so that a conversation only ever grows at its end and its KV stays.

    Raises
    ------
    ConfigError
        ``config.secret``: the file is one of those that hold secrets, or the person keeps it from the model.
    """
    snapshot = session.documents.get(uri) if uri else None
    if snapshot is None or not snapshot.in_sync:
        return ""
    await _refuse_kept_back(session, place, snapshot)
    name = _name(place, snapshot)
    lines = session.settings.chat.context_lines
    parts = []
    if where is None:
        parts.append((f"{name} begins", snapshot.slice_lines(0, lines)))
    else:
        first, last = sorted((where.start.line, where.end.line))
        half = lines // 2
        before, after = max(0, first - half), min(snapshot.line_count, last + 1 + half)
        if lines and (before < first or after > last + 1):
            parts.append((f"{name}, lines {before + 1} to {after}", snapshot.slice_lines(before, after)))
        parts.append((f"The selected code, from {name}", _selected(snapshot, where)))
    return "".join(_part(title, text, snapshot) for title, text in parts if text)


async def selection(session: Session, snapshot: Snapshot, where: LineRange) -> str:
    """Write exactly the text of a range, with its lines' numbers; an empty range stands for its line.

    Raises
    ------
    ConfigError
        As in `about`.
    """
    place = session.variants.place(snapshot.uri)
    await _refuse_kept_back(session, place, snapshot)
    start, end = sorted((where.start, where.end), key=lambda at: (at.line, at.character))
    first, last = start.line, end.line - (end.line > start.line and end.character == 0)
    return _part(f"{_name(place, snapshot)}, lines {first + 1} to {last + 1}", _selected(snapshot, where), snapshot)


async def _refuse_kept_back(session: Session, place: Place | Nowhere, snapshot: Snapshot) -> None:
    suggesting = session.suggesting
    reason = await in_document(snapshot, place, suggesting.settings, suggesting.git)
    if reason in _KEPT_BACK:
        raise ConfigError(
            f"{_KEPT_BACK[reason]}: no text of it goes to a model",
            code="config.secret",
            remedy="Ask without the file",
        )


def _name(place: Place | Nowhere, snapshot: Snapshot) -> str:
    return path_in(place, uris.to_path(snapshot.uri)) or "the document"


def _part(title: str, text: str, snapshot: Snapshot) -> str:
    return f"\n\n{title}:\n{fenced(text.rstrip(), snapshot.language_id)}"


def _selected(snapshot: Snapshot, where: LineRange) -> str:
    ends = sorted((snapshot.offset_at(where.start), snapshot.offset_at(where.end)))
    if ends[0] == ends[1]:
        return snapshot.line(snapshot.position_at(ends[0]).line)
    return snapshot.slice(*ends)
