"""`list_dir`: what is in a folder."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any, Final

from ...context.secrets import HardLinks
from .. import updates
from ..confinement import Roots, printable
from ..modes import Effect
from .files import inside
from .tool import STRING, Action, Arguments, Place, Report, Result, ToolError, checked, object_of

_MOST_ENTRIES: Final = 200


class _Arguments(Arguments):
    path: str = "."


class ListDir:
    """Lists names; folders end with a slash, files that may hold secrets are named and marked."""

    name = "list_dir"
    effect: Effect = "read"
    usage = "list_dir(path): the names in a folder; . is the session's folder"
    schema = object_of({"path": STRING})

    async def prepare(self, arguments: dict[str, Any], place: Place) -> Action:
        """See `Tool.prepare`."""
        real = inside(place, checked(_Arguments, arguments).path)
        shown = place.shown(real)

        async def perform(_report: Report) -> Result:
            text = await asyncio.to_thread(_listing, real, shown, place.roots)
            return Result(text, [updates.text_content(text)])

        return Action(f"List {shown}", "read", "read", f"list {shown}", perform, locations=[real])


def _listing(real: Path, shown: str, roots: Roots) -> str:
    try:
        with os.scandir(real) as entries:
            marked = {entry.name: _mark(entry) for entry in entries}
    except OSError as error:
        raise ToolError(f"{shown}: {error.strerror}") from None
    links = HardLinks()
    lines = [
        f"{printable(name)}{marked[name]}" + (" (secret)" if roots.secret(real / name, links) else "")
        for name in sorted(marked)[:_MOST_ENTRIES]
    ]
    more = [f"[{len(marked) - _MOST_ENTRIES} more]"] if len(marked) > _MOST_ENTRIES else []
    return "\n".join([*lines, *more]) or "[empty]"


def _mark(entry: os.DirEntry[str]) -> str:
    return "/" if entry.is_dir(follow_symlinks=False) else "@" if entry.is_symlink() else ""
