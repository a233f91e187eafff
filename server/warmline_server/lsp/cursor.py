"""Where a request stands: the document as it is at entry, the cursor in it, and what a popup has selected."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace

from lsprotocol import types
from warmline.prompts.window import LineSource

from .documents import Snapshot


@dataclass(frozen=True, slots=True)
class Cursor:
    """A cursor in an immutable document.

    Attributes
    ----------
    snapshot
        The document.
    lines
        What is completed: the snapshot, or the snapshot with the popup's selection applied.
    line, column
        The cursor in `lines`, in code points.
    before, after
        The cursor's line in `lines`, left and right of the cursor, without line end.
    offset
        The editor's cursor in the snapshot.
    selected
        Text of the popup's selection, and where in the snapshot it goes.
    """

    snapshot: Snapshot
    lines: LineSource
    line: int
    column: int
    before: str
    after: str
    offset: int
    selected: tuple[str, int, int] | None = None

    @property
    def key(self) -> Hashable:
        """What is asked: equal keys have equal answers from one variant."""
        return (self.snapshot, self.line, self.column, self.selected)

    @property
    def typed_start(self) -> int:
        """Column at which the text of the line begins: after the indentation, at most the cursor."""
        return len(self.before) - len(self.before.lstrip())


def cursor_at(snapshot: Snapshot, position: types.Position) -> Cursor:
    """Take a client's position; one outside the document is moved into it, as LSP says."""
    offset = snapshot.offset_at(position)
    line = snapshot.position_at(offset).line
    column = offset - snapshot.offset_at(types.Position(line, 0))
    content = snapshot.line(line)
    return Cursor(snapshot, snapshot, line, column, content[:column], content[column:], offset)


def with_selection(cursor: Cursor, info: types.SelectedCompletionInfo) -> Cursor | None:
    """Complete as though the popup's selected entry were accepted already.

    Returns
    -------
    Cursor or None
        None when that entry can't be continued: it isn't on the cursor's line, or is more than a line itself.
    """
    snapshot = cursor.snapshot
    start, end = snapshot.offset_at(info.range.start), snapshot.offset_at(info.range.end)
    line_start = cursor.offset - cursor.column
    line_end = line_start + len(cursor.before) + len(cursor.after)
    if not line_start <= start <= cursor.offset <= end <= line_end or "\n" in info.text or "\r" in info.text:
        return None
    before = cursor.before[: start - line_start] + info.text
    after = (cursor.before + cursor.after)[end - line_start :]
    return replace(
        cursor,
        lines=_OneLineChanged(snapshot, cursor.line, before + after),
        column=len(before),
        before=before,
        after=after,
        selected=(info.text, start, end),
    )


@dataclass(frozen=True, slots=True)
class _OneLineChanged:
    """A document in which one line has another content."""

    snapshot: Snapshot
    line: int
    content: str

    @property
    def line_count(self) -> int:
        return self.snapshot.line_count

    def slice_lines(self, first: int, last: int) -> str:
        if not first <= self.line < last:
            return self.snapshot.slice_lines(first, last)
        whole = self.snapshot.slice_lines(self.line, self.line + 1)
        end = whole[len(self.snapshot.line(self.line)) :]
        before, behind = self.snapshot.slice_lines(first, self.line), self.snapshot.slice_lines(self.line + 1, last)
        return f"{before}{self.content}{end}{behind}"
