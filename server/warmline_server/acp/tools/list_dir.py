"""`list_dir`: what is in a folder."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any, Final

from .. import updates
from ..confinement import Roots
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
    names = []
    try:
        with os.scandir(real) as entries:
            for entry in entries:
                mark = "/" if entry.is_dir(follow_symlinks=False) else "@" if entry.is_symlink() else ""
                names.append(f"{entry.name}{mark}" + (" (secret)" if roots.secret(Path(entry.path)) else ""))
    except OSError as error:
        raise ToolError(f"{shown}: {error.strerror}") from None
    names.sort()
    more = [f"[{len(names) - _MOST_ENTRIES} more]"] if len(names) > _MOST_ENTRIES else []
    text = "\n".join([*names[:_MOST_ENTRIES], *more]) or "[empty]"
    return text.encode("utf-8", "replace").decode()  # names are bytes, UTF-8 or not
