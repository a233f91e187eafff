"""Which files a search looks into: those that Git knows or would add, else all below a folder, within limits."""

from __future__ import annotations

import asyncio
import os
import stat
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from ...context import git
from ...context.secrets import HardLinks
from ..confinement import Roots

_MOST_FILES: Final = 10_000
_GIT_SECONDS: Final = 3.0
_SKIPPED: Final = frozenset({"node_modules", "__pycache__", "venv", "target", "build", "dist"})


@dataclass(slots=True)
class Searched:
    """Regular files to search, sorted, and in words why there may be more; empty where these are all."""

    files: list[Path]
    left_out: str = ""


async def searched_files(roots: Roots, below: Path, seconds: float) -> Searched:
    """List files to search below a real path; links and files that may hold secrets are not among them.

    Parameters
    ----------
    seconds
        How long it may take; what was found till then is given.
    """
    until = time.monotonic() + seconds
    if await asyncio.to_thread(below.is_file):
        return Searched([below])
    names = await _from_git(below)
    stopped = threading.Event()

    def over() -> bool:
        return stopped.is_set() or time.monotonic() > until

    try:
        return await asyncio.to_thread(_kept, roots, below, names or _walked(below), over)
    finally:
        stopped.set()


def _kept(roots: Roots, below: Path, paths: Iterable[Path], over: Callable[[], bool]) -> Searched:
    """Keep the files that may be read. A path may be anything: an index is a file like others, and folders change."""
    links = HardLinks()
    kept = Searched([])

    @cache
    def real(folder: Path) -> bool:
        return folder.is_relative_to(below) and os.path.realpath(folder) == str(folder)

    for path in paths:
        if over():
            kept.left_out = "listing the files took too long"
        elif len(kept.files) == _MOST_FILES:
            kept.left_out = f"no more than {_MOST_FILES} are looked into"
        elif real(path.parent) and _regular(path) and not roots.secret(path, links):
            kept.files.append(path)
        if kept.left_out:
            break
    kept.files.sort()
    return kept


def _regular(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False


async def _from_git(below: Path) -> list[Path]:
    listing = ("ls-files", "-z", "--cached", "--others", "--exclude-standard")
    answer = await git.ask(below, *listing, seconds=_GIT_SECONDS)
    names = answer[1].split(b"\x00") if answer is not None and answer[0] == 0 else []
    # One that is not merged yet is named for each of its versions.
    return [below / os.fsdecode(name) for name in dict.fromkeys(names) if name]


def _walked(below: Path) -> Iterator[Path]:
    """Give what is below a folder, folders too, so that whoever asks can stop between them."""
    for folder, folders, names in os.walk(below, followlinks=False):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in _SKIPPED)
        yield from (Path(folder, name) for name in (*folders, *names))
