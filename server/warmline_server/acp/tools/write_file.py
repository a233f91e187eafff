"""`write_file`: a whole file, new or in place of what it held."""

from __future__ import annotations

from typing import Any, Final

from .. import updates
from ..modes import Effect
from .files import read_replaced, writable, write_changed
from .line_ends import in_form_of
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
        shown = place.shown(real)
        if real.is_dir():
            raise ToolError(f"{shown} is a folder")
        old = await read_replaced(place, real)
        new = given.content if old is None else in_form_of(old, given.content)

        async def perform(_report: Report) -> Result:
            await write_changed(place, real, old, new)
            return Result(f"{shown} is written.", [updates.diff_content(str(real), old, new)])

        diff = [updates.diff_content(str(real), old, new)]
        title = f"{'Create' if old is None else 'Rewrite'} {shown}"
        return Action(title, "edit", "write", f"changes of {shown}", perform, diff, [real])
