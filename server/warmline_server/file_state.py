"""What tells that a file is still the one that was looked at, without opening it."""

from __future__ import annotations

import os

# Device, inode, size in bytes, mtime and ctime in ns; None where there is nothing. A list, as JSON gives it back.
FileState = list[int] | None


def state_of(path: str) -> FileState:
    """Look at what a path leads to."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return [status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns]
