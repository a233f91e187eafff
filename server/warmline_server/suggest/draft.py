"""A suggestion in the making: its lines so far, of which a filter judges the last, and where a filter cuts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from warmline_server.suggest.brackets import Walk
from warmline_server.suggest.context import Context


@dataclass(frozen=True)
class Cut:
    """Keep `lines[:line]` and the first `column` characters of `lines[line]`."""

    line: int
    column: int
    reason: str


@dataclass(frozen=True)
class Draft:
    """Lines to insert; `lines[0]` goes to the cursor, `complete` says whether the model ended the last one itself.

    `walk` is how the lines use brackets.
    """

    context: Context
    lines: Sequence[str]
    complete: bool
    walk: Walk

    @property
    def row(self) -> int:
        return len(self.lines) - 1

    @property
    def line(self) -> str:
        return self.lines[-1]

    @property
    def document_line(self) -> str:
        """The last line as it will stand in the document, up to where the insertion ends."""
        return self.context.cursor_line + self.line if self.row == 0 else self.line

    @property
    def document_lines(self) -> list[str]:
        return [self.context.cursor_line + self.lines[0], *self.lines[1:]]


# A rule looks at the draft's last line only. So its verdict on a line never depends on text that follows, and the
# first verdict, in the order of the text, holds whatever else the model writes: `is_settled` rests on this.
Rule = Callable[[Draft], Cut | None]
