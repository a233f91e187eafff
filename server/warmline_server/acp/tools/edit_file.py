"""`edit_file`: replaces one text in a file by another."""

from __future__ import annotations

from typing import Any

from .. import updates
from ..modes import Effect
from .files import read_exact, writable, write_changed
from .line_ends import with_carriage_returns, with_line_ends_of
from .tool import STRING, Action, Arguments, Place, Report, Result, ToolError, checked, object_of


class _Arguments(Arguments):
    path: str
    search: str
    replace: str


class EditFile:
    """Search and replace; the text has to be in the file exactly once, so that it is clear what is meant."""

    name = "edit_file"
    effect: Effect = "write"
    usage = "edit_file(path, search, replace): replaces a text that is in the file exactly once"
    schema = object_of({"path": STRING, "search": STRING, "replace": STRING})

    async def prepare(self, arguments: dict[str, Any], place: Place) -> Action:
        """See `Tool.prepare`."""
        given = checked(_Arguments, arguments)
        real = writable(place, given.path)
        shown = place.shown(real)
        old = await read_exact(place, real)
        new = _replaced(old, given, shown)

        async def perform(_report: Report) -> Result:
            await write_changed(place, real, old, new)
            return Result(f"{shown} is changed.", [updates.diff_content(str(real), old, new)])

        diff = [updates.diff_content(str(real), old, new)]
        return Action(f"Edit {shown}", "edit", "write", f"changes of {shown}", perform, diff, [real])


def _replaced(old: str, given: _Arguments, shown: str) -> str:
    if not given.search:
        raise ToolError("search: it is empty")
    search, replace = (with_line_ends_of(old, text) for text in (given.search, given.replace))
    if search not in old and "\r\n" in old:  # at some line ends only, and these are meant
        search, replace = map(with_carriage_returns, (search, replace))
    count = old.count(search)
    if count == 0:
        raise ToolError(f"search: that text is not in {shown}; read it first and copy exactly")
    if count > 1:
        raise ToolError(f"search: that text is {count} times in {shown}; give more of what stands around it")
    return old.replace(search, replace)
