"""Open documents: LSP's line rules, cheap incremental edits, and snapshots that later edits never change.

A text is kept as blocks of whole lines. An edit rebuilds the one or two blocks that it touches and shares the rest with
the snapshot before it; which line or offset a block begins at is a running sum over the few hundred blocks, taken anew
after each edit, and where the lines inside a block begin is worked out when somebody looks there. So no keystroke costs
a pass over the file, and a snapshot costs no copy of it.

Line ends, positions and ranges follow the LSP 3.18 specification, "Text Documents". Offsets count code points.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import accumulate
from operator import attrgetter
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from lsprotocol.types import Position


# The only line ends of LSP. str.splitlines knows eight more, and each of them would put the lines after it out of step.
_LINE_END: Final = re.compile(r"\r\n?|\n")
_SURROGATES: Final = re.compile("[\ud800-\udfff]")
_UNITS: Final = {"utf-8": ("utf-8", 1), "utf-16": ("utf-16-le", 2), "utf-32": ("utf-32-le", 4)}

# In code points. Small enough that rebuilding and indexing a block is microseconds, large enough that a 4 MB file has
# some hundreds of blocks, so that the running sums are microseconds too.
_BLOCK: Final = 8192


class LineAndCharacter(Protocol):
    """A position as LSP writes it; `lsprotocol.types.Position` is one."""

    @property
    def line(self) -> int: ...
    @property
    def character(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Edit:
    """What one edit did: `removed` code points at offset `start` gave way to `inserted` others."""

    start: int
    removed: int
    inserted: int

    @property
    def is_insertion(self) -> bool:
        return self.inserted > 0 and self.removed == 0

    @property
    def is_deletion(self) -> bool:
        return self.removed > 0 and self.inserted == 0


class _Block:
    """A run of whole lines; only a document's last block may end without a line end."""

    __slots__ = ("_starts", "cr", "crlf", "length", "lf", "line_ends", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.crlf, self.cr = 0, 0
        if "\r" in text:
            self.crlf = text.count("\r\n")
            self.cr = text.count("\r") - self.crlf
        self.lf = text.count("\n") - self.crlf
        self.line_ends = self.crlf + self.cr + self.lf
        self.length = len(text)
        self._starts: list[int] | None = None

    @property
    def starts(self) -> list[int]:
        """Where each line begins, as offsets in the block; the last one is where the block's last line end ends."""
        if self._starts is None:
            if self.cr:
                self._starts = [0, *(end.end() for end in _LINE_END.finditer(self.text))]
            else:
                # Both \n and \r\n end at a \n, and find is several times faster than the expression.
                starts, at = [0], self.text.find("\n")
                while at >= 0:
                    starts.append(at + 1)
                    at = self.text.find("\n", at + 1)
                self._starts = starts
        return self._starts


def _line_end_after(text: str, at: int) -> int:
    """Give where the first line end at or after `at` ends, or 0. By find: a line may be megabytes long."""
    lf = text.find("\n", at)
    cr = text.find("\r", at, lf if lf >= 0 else len(text))
    if cr < 0:
        return lf + 1
    return cr + 2 if lf == cr + 1 else cr + 1


def _cut(text: str) -> tuple[_Block, ...]:
    """Cut whole lines into blocks, at line ends only; a text of up to two blocks' size stays one."""
    pieces: list[_Block] = []
    at = 0
    while len(text) - at > 2 * _BLOCK:
        end = _line_end_after(text, at + _BLOCK)
        if end in (0, len(text)):
            break
        pieces.append(_Block(text[at:end]))
        at = end
    return (*pieces, _Block(text[at:]))


class _Text:
    """An immutable text with an index of its lines.

    Two rules hold for the blocks: each but the last ends with a line end, and no line end is cut in two (no block that
    ends with ``\\r`` is followed by one that begins with ``\\n``).
    """

    __slots__ = ("_whole", "blocks", "first_lines", "length", "line_count", "offsets")

    def __init__(self, blocks: tuple[_Block, ...]) -> None:
        self.blocks = blocks
        # All of it in C: this is the one pass over all blocks that an edit pays for.
        lines: list[int] = list(accumulate(map(attrgetter("line_ends"), blocks), initial=0))
        offsets: list[int] = list(accumulate(map(attrgetter("length"), blocks), initial=0))
        self.line_count = lines.pop() + 1
        self.length = offsets.pop()
        self.first_lines = lines
        self.offsets = offsets
        self._whole: str | None = None

    @property
    def whole(self) -> str:
        if self._whole is None:
            self._whole = "".join(block.text for block in self.blocks)
        return self._whole

    def block_at(self, offset: int) -> int:
        """Give the block that holds the character at `offset`; the end of the text is in the last block."""
        return bisect_right(self.offsets, offset) - 1

    def line_start(self, line: int) -> int:
        """Give the offset where `line` begins; from `line_count` on, the end of the text."""
        if line >= self.line_count:
            return self.length
        index = bisect_right(self.first_lines, line) - 1
        return self.offsets[index] + self.blocks[index].starts[line - self.first_lines[index]]

    def line_of(self, offset: int) -> int:
        index = self.block_at(offset)
        return self.first_lines[index] + bisect_right(self.blocks[index].starts, offset - self.offsets[index]) - 1

    def slice(self, start: int, end: int) -> str:
        """Give the text of ``0 <= start <= end <= length``; touches only the blocks in between."""
        first, last = self.block_at(start), self.block_at(end)
        head = start - self.offsets[first]
        tail = end - self.offsets[last]
        if first == last:
            return self.blocks[first].text[head:tail]
        middle = (block.text for block in self.blocks[first + 1 : last])
        return "".join((self.blocks[first].text[head:], *middle, self.blocks[last].text[:tail]))

    def spliced(self, start: int, end: int, new: str) -> _Text:
        """Give the text with ``[start, end)`` replaced; blocks before and behind are shared with this one."""
        first, last = self.block_at(start), self.block_at(end)
        head = self.blocks[first].text[: start - self.offsets[first]]
        tail = self.blocks[last].text[end - self.offsets[last] :]
        merged = f"{head}{new}{tail}"
        before, behind = self.blocks[:first], self.blocks[last + 1 :]
        # The tail runs to a block's end, so only the left seam can bring a \r and a \n together. The size rule keeps
        # many deletions from leaving many tiny blocks, and nothing at all is not a block.
        if before:
            left = before[-1].text
            meets = left.endswith("\r") and merged.startswith("\n")
            if meets or not merged or len(left) + len(merged) <= _BLOCK:
                merged = left + merged
                before = before[:-1]
        if behind and len(merged) + behind[0].length <= _BLOCK:
            merged += behind[0].text
            behind = behind[1:]
        return _Text((*before, *_cut(merged), *behind))


def _encoded(text: str, codec: str) -> bytes:
    """Encode `text`. A lone surrogate (JSON can carry one) stands as U+FFFF, which has as many units in each codec."""
    try:
        return text.encode(codec)
    except UnicodeEncodeError:
        return _SURROGATES.sub("\uffff", text).encode(codec)


def _unit_count(text: str, encoding: str) -> int:
    """Give the length of `text` in code units of a position encoding."""
    if encoding == "utf-32" or text.isascii():
        return len(text)
    codec, size = _UNITS[encoding]
    return len(_encoded(text, codec)) // size


def _points_before(text: str, units: int, encoding: str) -> int:
    """Give how many whole characters of `text` fit in its first `units` code units."""
    if encoding == "utf-32" or text.isascii():
        return min(units, len(text))
    codec, size = _UNITS[encoding]
    # No character is less than one unit, so what is beyond `units` characters can't matter.
    return len(_encoded(text[:units], codec)[: units * size].decode(codec, "ignore"))


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """One state of one open document. Take it when a handler begins; no later edit changes it.

    Two snapshots are equal only if they are the same object, so ``store.get(uri) is snapshot`` tells whether the
    document has stayed as it was.

    Attributes
    ----------
    uri, language_id, version
        As the editor gave them.
    encoding
        Position encoding of the session: ``utf-8``, ``utf-16`` or ``utf-32``.
    last_edit
        The last edit of the latest change. None when it is not known what was edited: the document was just opened, or
        replaced as a whole.
    in_sync
        False after a change had to be refused: the editor may show another text than this one, until it sends a whole
        text again.
    """

    uri: str
    language_id: str
    version: int
    encoding: str
    last_edit: Edit | None
    in_sync: bool
    _text: _Text = field(repr=False)

    @property
    def text(self) -> str:
        """The whole text. Joined on first use: a handler of a keystroke wants `slice_lines`."""
        return self._text.whole

    @property
    def length(self) -> int:
        """Number of code points in the text."""
        return self._text.length

    @property
    def line_count(self) -> int:
        """Number of line ends, plus one."""
        return self._text.line_count

    @property
    def eol(self) -> str:
        r"""The line end used most, ``\n``, ``\r\n`` or ``\r``; ``\n`` when there is none or on a tie that it is in."""
        blocks = self._text.blocks
        counts = {
            "\n": sum(block.lf for block in blocks),
            "\r\n": sum(block.crlf for block in blocks),
            "\r": sum(block.cr for block in blocks),
        }
        return max(counts, key=counts.__getitem__)

    def line(self, index: int) -> str:
        """Give the text of a line, without its line end.

        Raises
        ------
        IndexError
            If `index` is not in ``[0, line_count)``. A position from a client is not checked: take the line of
            ``position_at(offset_at(position))``.
        """
        if not 0 <= index < self.line_count:
            raise IndexError(f"line {index} of {self.line_count}")
        return self._line_from(index)[1]

    def slice_lines(self, first: int, last: int) -> str:
        """Give the text of lines ``[first, last)`` with their line ends; both are cut to the document."""
        start = self._text.line_start(max(first, 0))
        return self.slice(start, self._text.line_start(max(last, 0)))

    def slice(self, start: int, end: int) -> str:
        """Give the text of offsets ``[start, end)``; both are cut to the document, never counted from its end."""
        start = min(max(start, 0), self.length)
        end = min(max(end, start), self.length)
        return self._text.slice(start, end)

    def offset_at(self, position: LineAndCharacter) -> int:
        """Give the offset of a client's position, whatever its numbers.

        Past a line's end is the line's end (before its line end), past the last line is the document's end, and inside
        a character is that character's start.
        """
        if position.line < 0:
            return 0
        if position.line >= self.line_count:
            return self.length
        start, content = self._line_from(position.line)
        return start + _points_before(content, max(position.character, 0), self.encoding)

    def position_at(self, offset: int) -> Position:
        r"""Give the client's position of an offset; between ``\r`` and ``\n`` is before both."""
        offset = min(max(offset, 0), self.length)
        line = self._text.line_of(offset)
        start, content = self._line_from(line)
        from lsprotocol.types import Position  # half a second that completing from the command line need not spend

        return Position(line, _unit_count(content[: offset - start], self.encoding))

    def units(self, text: str) -> int:
        """Give the length of a text in the code units of the session's positions."""
        return _unit_count(text, self.encoding)

    def _line_from(self, line: int) -> tuple[int, str]:
        """Give a line's offset and its text without line end."""
        start = self._text.line_start(line)
        content = self._text.slice(start, self._text.line_start(line + 1))
        if content.endswith("\r\n"):
            return start, content[:-2]
        return start, content[:-1] if content.endswith(("\n", "\r")) else content


class Outcome(StrEnum):
    """What became of a change."""

    APPLIED = "applied"
    NOT_OPEN = "not_open"
    OLDER_VERSION = "older_version"
    MALFORMED = "malformed"


@dataclass(frozen=True, slots=True)
class ChangeResult:
    """Outcome of a change, the document's snapshot after it (None if not open), and why a change was refused."""

    outcome: Outcome
    snapshot: Snapshot | None
    reason: str = ""

    @property
    def applied(self) -> bool:
        return self.outcome is Outcome.APPLIED


class DocumentStore:
    """The documents that an editor has open.

    Knows only what the editor sent: an URI that isn't open has no document, and no file is ever read. Call it from one
    thread, in the order in which the messages came; the snapshots may go to any thread.

    Parameters
    ----------
    encoding
        The position encoding that was negotiated: ``utf-8``, ``utf-16`` (what LSP has when nothing was) or ``utf-32``.

    Raises
    ------
    ValueError
        If `encoding` is another.
    """

    def __init__(self, encoding: str = "utf-16") -> None:
        if encoding not in _UNITS:
            raise ValueError(f"unknown position encoding {encoding!r}")
        # PositionEncodingKind's members are strings too, but str() of one is its Python name.
        self.encoding = str.__str__(encoding)
        self._open: dict[str, Snapshot] = {}

    def open(self, uri: str, language_id: str, version: int, text: str) -> Snapshot:
        """Take a document as opened; one that is open already is replaced, whatever its version was."""
        snapshot = Snapshot(uri, language_id, version, self.encoding, None, True, _Text(_cut(text)))
        self._open[uri] = snapshot
        return snapshot

    def get(self, uri: str) -> Snapshot | None:
        """Give the present state of an open document, or None if it is not open."""
        return self._open.get(uri)

    def lost(self, uri: str) -> None:
        """Take note that a change could not be read: as after a refused one, `Snapshot.in_sync` is False."""
        snapshot = self._open.get(uri)
        if snapshot is not None:
            self._open[uri] = replace(snapshot, in_sync=False)

    def close(self, uri: str) -> None:
        """Forget a document; one that is not open is none to forget."""
        self._open.pop(uri, None)

    def renamed(self, old: str, new: str) -> list[str]:
        """Keep an open document, or all below a folder, under the new name; give the old names that are gone."""
        moved = [uri for uri in self._open if uri == old or uri.startswith(old.rstrip("/") + "/")]
        for uri in moved:
            target = new + uri[len(old.rstrip("/")) :] if uri != old else new
            snapshot = self._open.pop(uri)
            # A client that already opened it under its new name knows better.
            self._open.setdefault(target, replace(snapshot, uri=target))
        return moved

    def change(self, uri: str, version: int, content_changes: Iterable[object]) -> ChangeResult:
        """Apply the changes of one ``didChange``, each to the text that the one before it left.

        All of them are applied or none. The version may stay as it is (not every client counts), and a range whose end
        is before its start is taken the right way round.

        Parameters
        ----------
        content_changes
            What has ``text`` and, unless it is the whole new text, ``range``: lsprotocol's
            ``TextDocumentContentChangePartial`` and ``TextDocumentContentChangeWholeDocument``, or the like.

        Returns
        -------
        ChangeResult
            Never an exception. After a refusal the text stays as it was and `Snapshot.in_sync` is False.
        """
        snapshot = self._open.get(uri)
        if snapshot is None:
            return ChangeResult(Outcome.NOT_OPEN, None, f"{uri} is not open")
        changes = tuple(content_changes)
        if problem := _problem(version, changes):
            return self._refused(Outcome.MALFORMED, snapshot, problem)
        if version < snapshot.version:
            return self._refused(
                Outcome.OLDER_VERSION, snapshot, f"version {version} came after version {snapshot.version}"
            )
        for change in changes:
            snapshot = _applied(snapshot, change)
        snapshot = replace(snapshot, version=version)
        self._open[uri] = snapshot
        return ChangeResult(Outcome.APPLIED, snapshot)

    def _refused(self, outcome: Outcome, snapshot: Snapshot, reason: str) -> ChangeResult:
        snapshot = replace(snapshot, in_sync=False)
        self._open[snapshot.uri] = snapshot
        return ChangeResult(outcome, snapshot, reason)


def _applied(snapshot: Snapshot, change: object) -> Snapshot:
    """Apply one change that `_problem` found well formed."""
    new: str = change.text  # type: ignore[attr-defined]
    span = getattr(change, "range", None)
    if span is None:
        return replace(snapshot, last_edit=None, in_sync=True, _text=_Text(_cut(new)))
    start, end = sorted((snapshot.offset_at(span.start), snapshot.offset_at(span.end)))
    edit = Edit(start, end - start, len(new))
    return replace(snapshot, last_edit=edit, _text=snapshot._text.spliced(start, end, new))


def _problem(version: object, changes: tuple[object, ...]) -> str:
    """Name what makes a ``didChange`` unusable, or give an empty string."""
    if not isinstance(version, int):
        return f"version is {type(version).__name__}, not an integer"
    for index, change in enumerate(changes):
        if not isinstance(getattr(change, "text", None), str):
            return f"contentChanges[{index}].text is not a string"
        span = getattr(change, "range", None)
        for end in ("start", "end") if span is not None else ():
            position = getattr(span, end, None)
            for number in ("line", "character"):
                if not isinstance(getattr(position, number, None), int):
                    return f"contentChanges[{index}].range.{end}.{number} is not an integer"
    return ""
