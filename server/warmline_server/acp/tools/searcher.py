"""The process that `search` matches in, so that it can be ended: a program of its own, with next to nothing imported.

    python -I -S searcher.py     # {"pattern": ..., "most": ..., "bytes": ..., "files": [[PATH, SHOWN], ...]} on stdin

Prints ``SHOWN:LINE: TEXT`` for each of the first `most` matches, and a NUL in a line of its own for each file of which
only the first `bytes` were looked into. Paths are absolute and real: one that has become a link on the way is not read.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import sys
from collections.abc import Iterator

_MOST_CHARACTERS = 200
_FOLDER = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def search(pattern: re.Pattern[str], most: int, most_bytes: int, files: list[tuple[str, str]]) -> None:
    """Print matches, file by file."""
    left = most
    for parent, here in itertools.groupby(files, key=lambda each: each[0].rpartition("/")[0]):
        with contextlib.suppress(OSError), _opened(parent) as folder:
            for path, shown in here:
                data = _read(folder, path.rpartition("/")[2], most_bytes + 1)
                for match in _matches(data[:most_bytes], pattern):
                    print(f"{shown}:{match}", flush=True)
                    left -= 1
                    if not left:
                        return
                if len(data) > most_bytes:
                    print("\0", flush=True)


@contextlib.contextmanager
def _opened(path: str) -> Iterator[int]:
    """Open an absolute path step by step; raises `OSError` where a step is a link."""
    handle = os.open("/", _FOLDER)
    try:
        for name in filter(None, path.split("/")):
            outer, handle = handle, os.open(name, _FOLDER, dir_fd=handle)
            os.close(outer)
        yield handle
    finally:
        os.close(handle)


def _read(folder: int, name: str, most_bytes: int) -> bytes:
    """Read a file; nothing of one that cannot be read, or is binary."""
    try:
        with open(os.open(name, _FILE, dir_fd=folder), "rb") as file:
            data = file.read(most_bytes)
    except OSError:
        return b""
    return b"" if b"\0" in data[:8192] else data


def _matches(data: bytes, pattern: re.Pattern[str]) -> Iterator[str]:
    for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
        if pattern.search(line):
            text = line.strip()
            yield f"{number}: {text[:_MOST_CHARACTERS]}" + (" [...]" if len(text) > _MOST_CHARACTERS else "")


if __name__ == "__main__":
    job = json.load(sys.stdin)
    search(re.compile(job["pattern"]), job["most"], job["bytes"], job["files"])
