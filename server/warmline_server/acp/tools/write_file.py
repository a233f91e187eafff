"""`write_file`: a whole file, new or in place of what it held."""

from __future__ import annotations

from typing import Any, Final

from .. import updates
from ..modes import Effect
from .files import read_text, writable, write_text
from .tool import STRING, Action, Arguments, Place, Report, Result, ToolError, checked, object_of

_MOST_CHARACTERS: Final = 1 << 20


class _Arguments(Arguments):
    path: str
    content: str


class WriteFile:
    """Writes a file; folders on the way are made."""

    name = "write_file"
    effect: Effect = "write"
    usage = "write_file(path, content): writes a whole file, new or in place of the old"
    schema = object_of({"path": STRING, "content": STRING})

    async def prepare(self, arguments: dict[str, Any], place: Place) -> Action:
        """See `Tool.prepare`."""
        given = checked(_Arguments, arguments)
        if len(given.content) > _MOST_CHARACTERS:
            raise ToolError(f"content: at most {_MOST_CHARACTERS} characters are written")
        real = writable(place, given.path)
        if real.is_dir():
            raise ToolError(f"{given.path} is a folder")
        shown = place.shown(real)
        old = await read_text(place, real) if real.exists() else None

        async def perform(_report: Report) -> Result:
            await write_text(place, real, given.content)
            return Result(f"{shown} is written.", [updates.diff_content(str(real), old, given.content)])

        diff = [updates.diff_content(str(real), old, given.content)]
        title = f"{'Create' if old is None else 'Rewrite'} {shown}"
        return Action(title, "edit", "write", f"changes of {shown}", perform, diff, [real])
