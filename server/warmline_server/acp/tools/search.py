"""`search`: lines that match a pattern, in the files below a folder, within limits of time, files and matches.

Files that Git ignores, hidden folders, binaries, large files and files that may hold secrets are passed over; links are
not followed. The pattern runs in a process of its own, since a regular expression can take forever.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import sys
from pathlib import Path
from typing import Any, Final

from .. import updates
from ..modes import Effect
from .files import inside
from .searched import searched_files
from .tool import STRING, Action, Arguments, Place, Report, Result, ToolError, checked, object_of

_MOST_MATCHES: Final = 100
_MOST_PATTERN: Final = 500
_SECONDS: Final = 10.0
_MOST_OUTPUT: Final = 16_000
# Reads names from stdin, prints matches. It imports next to nothing, so that it is there in some milliseconds.
_SEARCHER: Final = """
import json, os, re, sys
job = json.load(sys.stdin)
pattern, left = re.compile(job["pattern"]), job["most"]
for name, shown in job["files"]:
    try:
        handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        continue
    with open(handle, "rb") as file:
        data = file.read(job["bytes"])
    if b"\\0" in data[:8192]:
        continue
    for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
        if pattern.search(line):
            print(f"{shown}:{number}: {line.strip()[:200]}", flush=True)
            left -= 1
            if not left:
                sys.exit()
"""


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
            files = await asyncio.to_thread(searched_files, place.roots, real)
            text = await _matches(_compilable(given.pattern), files, place)
            return Result(text, [updates.text_content(text)])

        title = f"Search for {given.pattern}"
        return Action(title, "search", "read", f"search {place.shown(real)}", perform, locations=[real])


def _compilable(pattern: str) -> str:
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError):
        return re.escape(pattern)
    return pattern


async def _matches(pattern: str, files: list[Path], place: Place) -> str:
    names = [(os.fspath(path), place.shown(path)) for path in files]
    job = json.dumps({"pattern": pattern, "files": names, "most": _MOST_MATCHES, "bytes": 1 << 20}).encode()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-S", "-c", _SEARCHER),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    found, late = b"", False
    try:
        async with asyncio.timeout(_SECONDS):
            with contextlib.suppress(ConnectionError):
                process.stdin.write(job)
                process.stdin.close()
            while chunk := await process.stdout.read(4096):
                found += chunk
    except TimeoutError:
        late = True
    finally:
        # Not `process.kill`, which would take the exit code away from who waits for it.
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
        await process.wait()
    text = found.decode("utf-8", "replace").strip()
    count = text.count("\n") + 1 if text else 0
    notes = [f"[stopped after {_SECONDS:.0f} s]"] if late else []
    notes += [f"[{_MOST_MATCHES} matches; there may be more]"] if count >= _MOST_MATCHES else []
    return "\n".join([text[:_MOST_OUTPUT] or "[no matches]", *notes])
