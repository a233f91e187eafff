"""Indentation: what the model wrote, as the document would have it (tabs, spaces, from the column of the cursor)."""

import re
from collections.abc import Sequence

from warmline_server.suggest import languages
from warmline_server.suggest.context import Context

_OPENS = re.compile(r"(?:[{(\[]|=>|->|\b(?:then|do|else|begin))\s*\Z")
_OUTDENTED = re.compile(r"(?:case|default|public|private|protected)\b")


def leading(line: str) -> str:
    """The spaces and tabs that a line begins with."""
    return line[: len(line) - len(line.lstrip(" \t"))]


def width(space: str, tab_size: int) -> int:
    """Columns that leading spaces and tabs take."""
    columns = 0
    for char in space:
        columns += tab_size - columns % tab_size if char == "\t" else 1
    return columns


def opens_block(line: str, language: str) -> bool:
    """Whether the next line has to be deeper than `line`."""
    if line.rstrip().endswith(":"):
        return language in languages.COLON_BLOCKS
    return _OPENS.search(line) is not None


def base_width(context: Context, first: str) -> int:
    """Columns of the line at the cursor, `first` being what is inserted there."""
    space = leading(context.cursor_line)
    return width(space + leading(first) if context.blank else space, context.tab_size)


def _space(context: Context, columns: int) -> str:
    if context.tabs:
        return "\t" * (columns // context.tab_size) + " " * (columns % context.tab_size)
    return " " * columns


def _translated(context: Context, space: str) -> str:
    """Leading space in the document's manner. A mix is left alone: it is an alignment, and the model copied it."""
    if context.tabs is False and space and not space.strip("\t"):
        return " " * (len(space) * context.step)
    if context.tabs and space and not space.strip(" "):
        return _space(context, len(space))
    return space


def _first(context: Context, line: str) -> str:
    """The line at the cursor.

    On a blank line that is indented already, the model's own indentation may count from column 0 or from the cursor.
    The reading that lands where the line above asks for wins; otherwise from column 0, as the files it learned from.
    """
    if not context.blank:
        return line.lstrip(" ") if context.cursor_line.endswith((" ", "\t")) else line
    text = line.lstrip(" \t")
    space = leading(line)
    if space == " ":
        return line if text.startswith("*") else text
    there = width(context.cursor_line, context.tab_size)
    written = width(_translated(context, space), context.tab_size)
    above = context.above[-1] if context.above else ""
    wanted = width(leading(above), context.tab_size)
    if opens_block(above, context.language):
        wanted += context.step
    from_cursor = written != wanted and there + written == wanted
    columns = written if from_cursor else max(0, written - there)
    return _space(context, columns) + text


def _shift(context: Context, first: str, second: str) -> int:
    """Columns that are missing where the model wrote a block as if the cursor stood in column 0.

    It shows in the line after one that opens a block: it has to be deeper than the cursor's line, and is not.
    """
    base = base_width(context, first)
    columns = width(leading(second), context.tab_size)
    text = second.lstrip()
    if base == 0 or _OUTDENTED.match(text) or not opens_block(context.cursor_line + first, context.language):
        return 0
    closes = text.startswith((")", "]", "}"))
    return base if (columns < base if closes else 0 < columns <= base) else 0


def indent(context: Context, lines: Sequence[str]) -> list[str]:
    """The model's `lines`, indented for the document. Line n of the answer depends on lines 0 to n only."""
    if not lines:
        return []
    done = [_first(context, lines[0])]
    shift: int | None = None
    for line in lines[1:]:
        text = line.lstrip(" \t")
        space = _translated(context, leading(line))
        if shift is None and text.strip():
            shift = _shift(context, done[0], space + text)
        if shift:
            space = _space(context, width(space, context.tab_size) + shift)
        done.append(space + text if text.strip() else "")
    return done
