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
            told = _part(lines, given.line - 1, min(given.limit, _MOST_LINES))
            return Result(told, [updates.text_content(told)])

        title = f"Read {place.shown(real)}"
        return Action(title, "read", "read", f"read {place.shown(real)}", perform, locations=[real])


def _part(lines: list[str], first: int, limit: int) -> str:
    """Give whole lines, as many as there is room for; one that has no room alone is cut, and says so."""
    part: list[str] = []
    room = _MOST_CHARACTERS
    for line in lines[first : first + limit]:
        if part and len(line) > room:
            break
        left_out = len(line) - room
        part.append(line if left_out <= 0 else f"{line[:room]}[... {left_out} characters of this line left out]")
        room -= len(line) + 1
    left = len(lines) - first - len(part)
    more = [f"[{left} more lines; read on with line={first + len(part) + 1}]"] if left > 0 else []
    return "\n".join(["\n".join(part) or "[nothing there]", *more])
