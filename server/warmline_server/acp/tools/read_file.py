"""`read_file`: lines of a text file, numbered."""

from __future__ import annotations

from typing import Any, Final

from pydantic import Field

from .. import updates
from ..modes import Effect
from .files import inside, read_text
from .tool import INTEGER, STRING, Action, Arguments, Place, Report, Result, checked, object_of

_MOST_LINES: Final = 400
_MOST_CHARACTERS: Final = 12_000


class _Arguments(Arguments):
    path: str
    line: int = Field(default=1, ge=1)
    limit: int = Field(default=_MOST_LINES, ge=1)


class ReadFile:
    """Reads a file, a part at a time."""

    name = "read_file"
    effect: Effect = "read"
    usage = "read_file(path, line, limit): the lines of a text file; line and limit may be left out"
    schema = object_of({"path": STRING}, {"line": INTEGER, "limit": INTEGER})

    async def prepare(self, arguments: dict[str, Any], place: Place) -> Action:
        """See `Tool.prepare`."""
        given = checked(_Arguments, arguments)
        real = inside(place, given.path)

        async def perform(_report: Report) -> Result:
            lines = (await read_text(place, real)).splitlines()
            first = given.line - 1
            text = "\n".join(lines[first : first + min(given.limit, _MOST_LINES)])
            cut = text[:_MOST_CHARACTERS]
            shown = cut.count("\n") + 1 if cut else 0
            left = len(lines) - first - shown
            more = f"\n[{left} more lines; read on with line={given.line + shown}]" if left > 0 else ""
            told = (cut or "[nothing there]") + more
            return Result(told, [updates.text_content(told)])

        title = f"Read {place.shown(real)}"
        return Action(title, "read", "read", f"read {place.shown(real)}", perform, locations=[real])
