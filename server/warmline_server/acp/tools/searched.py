"""Which files a search looks into: those that Git knows or would add, else all below a folder, within limits."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ..confinement import Roots

_MOST_FILES: Final = 10_000
_GIT_SECONDS: Final = 5.0
_SKIPPED: Final = frozenset({"node_modules", "__pycache__", "venv", "target", "build", "dist"})


def searched_files(roots: Roots, below: Path) -> list[Path]:
    """List regular files to search, sorted; links and files that may hold secrets are not among them. Blocks."""
    if below.is_file():
        return [below]
    found = []
    for path in _from_git(below) or _walked(below):
        if not roots.secret(path) and path.is_file() and not path.is_symlink():
            found.append(path)
            if len(found) == _MOST_FILES:
                break
    return sorted(found)


def _from_git(below: Path) -> list[Path]:
    command = ["git", "-C", str(below), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_GIT_SECONDS, stdin=subprocess.DEVNULL, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    return [below / os.fsdecode(name) for name in done.stdout.split(b"\x00") if name]


def _walked(below: Path) -> Iterator[Path]:
    for folder, folders, names in os.walk(below, followlinks=False):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in _SKIPPED)
        yield from (Path(folder, name) for name in names)
