"""`search`: lines that match a pattern, in the files below a folder, within limits of time, files and matches.

Files that Git ignores, hidden folders, binaries, the rest of large files and files that may hold secrets are passed
over; links are not followed. The pattern runs in a process of its own, since a regular expression can take forever.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import sys
import time
from pathlib import Path
from typing import Any, Final

from ...characters import escape_invisible
from ...processes import end
from .. import updates
from ..modes import Effect
from .files import inside
from .searched import Searched, searched_files
from .tool import STRING, Action, Arguments, Place, Report, Result, ToolError, checked, object_of

_MOST_MATCHES: Final = 100
_MOST_PATTERN: Final = 500
_SECONDS: Final = 10.0
_MOST_OUTPUT: Final = 16_000
_MOST_BYTES: Final = 1 << 20
_CUT: Final = "\0"
_SEARCHER: Final = Path(__file__).with_name("searcher.py")


class _Arguments(Arguments):
    pattern: str
    path: str = "."


class Search:
    """Searches with a regular expression, or for the text itself where it is none."""

    name = "search"
    effect: Effect = "read"
    usage = "search(pattern, path): lines that match a regular expression in the files below path"
    schema = object_of({"pattern": STRING}, {"path": STRING})

    async def prepare(self, arguments: dict[str, Any], place: Place) -> Action:
        """See `Tool.prepare`."""
        given = checked(_Arguments, arguments)
        if not 0 < len(given.pattern) <= _MOST_PATTERN:
            raise ToolError(f"pattern: it has to have 1 to {_MOST_PATTERN} characters")
        real = inside(place, given.path)

        async def perform(_report: Report) -> Result:
            until = time.monotonic() + _SECONDS
            searched = await searched_files(place.roots, real, _SECONDS / 2)
            text = await _matches(_compilable(given.pattern), searched, place, until)
            return Result(text, [updates.text_content(text)])

        title = f"Search for {escape_invisible(given.pattern)}"
        return Action(title, "search", "read", f"search {place.shown(real)}", perform, locations=[real])


def _compilable(pattern: str) -> str:
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError):
        return re.escape(pattern)
    return pattern


async def _matches(pattern: str, searched: Searched, place: Place, until: float) -> str:
    names = [(os.fspath(path), place.shown(path)) for path in searched.files]
    job = json.dumps({"pattern": pattern, "files": names, "most": _MOST_MATCHES, "bytes": _MOST_BYTES}).encode()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-S", str(_SEARCHER)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    found, late = b"", False
    try:
        async with asyncio.timeout(until - time.monotonic()):
            with contextlib.suppress(ConnectionError):
                process.stdin.write(job)
                process.stdin.close()
            while chunk := await process.stdout.read(4096):
                found += chunk
    except TimeoutError:
        late = True
    finally:
        await end(process)
    return _told(found.decode("utf-8", "replace").split("\n")[:-1], searched, late)


def _told(lines: list[str], searched: Searched, late: bool) -> str:
    """Write what was found, and wherever was not looked: what is not found there may be there all the same."""
    matches = [line for line in lines if line != _CUT]
    text = "\n".join(matches)
    cut = len(lines) - len(matches)
    notes = [
        (late, f"stopped after {_SECONDS:.0f} s"),
        (len(matches) >= _MOST_MATCHES, f"{_MOST_MATCHES} matches; there may be more"),
        (len(text) > _MOST_OUTPUT, f"{len(text) - _MOST_OUTPUT} characters left out"),
        (searched.left_out, f"not all files were searched: {searched.left_out}; give a path that is further below"),
        (cut, f"of {cut} large file{'s' if cut > 1 else ''} only the first {_MOST_BYTES} bytes were searched"),
    ]
    return "\n".join([text[:_MOST_OUTPUT] or "[no matches]", *(f"[{note}]" for holds, note in notes if holds)])
