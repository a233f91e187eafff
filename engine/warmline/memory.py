"""How much memory this machine has left."""

from __future__ import annotations

import contextlib
import ctypes
import os
from pathlib import Path


def available_bytes() -> int | None:
    """Return the memory that programs can still get, in bytes; None where the system does not say."""
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        return None
    return None


def resident_bytes() -> int:
    """Return the bytes of memory that this process has now, files that it has mapped among them; 0 if not known."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


def give_back() -> None:
    """Return freed memory that the C library keeps for itself to the system, where it can."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
