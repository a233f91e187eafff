"""Lists of things and facts about one thing, for people: as a table where the terminal is wide enough, else as blocks.

A list may be long (a thousand variants), so whatever fits is laid out here and not by rich, which takes a millisecond
a row.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from .output import Output, cell, one_line

if TYPE_CHECKING:
    from rich.text import Text

# A cell: its text, or its text and its style.
Cell = str | tuple[str, str]
_FOLDED: Final = 24  # columns that the last cell needs at least, to be folded and still be read
_MANY: Final = 200


def rows(output: Output, headers: Sequence[str], cells: Sequence[Sequence[Cell]]) -> None:
    """Print a list on stdout; where its columns don't fit a terminal side by side, each row becomes a block."""
    plain = [[one_line(_text(each)) for each in row] for row in cells]
    widths = [max(map(_width, column)) for column in zip(headers, *plain, strict=True)]
    gaps = 2 * (len(widths) - 1)
    width = shutil.get_terminal_size((80, 24)).columns
    if not output.stdout.isatty() or sum(widths) + gaps <= width:
        _laid_out(output, headers, plain, cells, widths)
    elif sum(widths[:-1]) + gaps + _FOLDED <= width:
        _folded(output, headers, cells)
    else:
        for row in cells:
            facts(output, dict(zip(headers, row, strict=True)))
            output.text("")


def facts(output: Output, values: Mapping[str, Cell]) -> None:
    """Print what is known of one thing on stdout, a line each; empty values are left out."""
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in values.items():
        if _text(value):
            table.add_row(cell(name, "dim"), _styled(value))
    output.table(table)


def _laid_out(
    output: Output,
    headers: Sequence[str],
    plain: Sequence[Sequence[str]],
    cells: Sequence[Sequence[Cell]],
    widths: Sequence[int],
) -> None:
    if len(plain) > _MANY or not output.stdout.isatty():
        for row in (headers, *plain):
            output.text(_line(row, widths))
        return
    from rich.text import Text

    output.table(Text(_line(headers, widths), style="bold"))
    for texts, styled in zip(plain, cells, strict=True):
        line = Text()
        for text, value, width in zip(texts, styled, widths, strict=True):
            line.append(text, style="" if isinstance(value, str) else value[1])
            line.append(" " * (width - _width(text) + 2))
        line.rstrip()
        output.table(line)


def _folded(output: Output, headers: Sequence[str], cells: Iterable[Sequence[Cell]]) -> None:
    from rich.table import Table

    table = Table(*headers, box=None, pad_edge=False)
    for column in table.columns[:-1]:
        column.no_wrap = True
    table.columns[-1].overflow = "fold"
    for row in cells:
        table.add_row(*map(_styled, row))
    output.table(table)


def _line(texts: Sequence[str], widths: Sequence[int]) -> str:
    padded = (text + " " * (width - _width(text)) for text, width in zip(texts, widths, strict=True))
    return "  ".join(padded).rstrip()


def _styled(value: Cell) -> Text:
    return cell(value) if isinstance(value, str) else cell(*value)


def _text(value: Cell) -> str:
    return value if isinstance(value, str) else value[0]


def _width(text: str) -> int:
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)
