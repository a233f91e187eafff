"""How much memory this machine has left."""

from __future__ import annotations

import contextlib
import ctypes
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


def give_back() -> None:
    """Return freed memory that the C library keeps for itself to the system, where it can."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
