"""The machine that a bench runs on, and whether something else is at work on it."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from ..backends.base import physical_cores
from ..memory import available_bytes
from .report import Machine

# Share of the cores from which on other work is felt.
_BUSY: Final = 0.25


def describe() -> Machine:
    """Describe the machine as it is now, when a bench begins."""
    return Machine(
        cpu=_cpu_model(),
        architecture=platform.machine(),
        physical_cores=physical_cores(),
        logical_cores=os.cpu_count() or 1,
        memory=_total_bytes(),
        memory_available=available_bytes(),
        system=platform.platform(terse=True),
        python=platform.python_version(),
        warmline=_version(),
        load_at_start=load(),
        load_at_end=None,
    )


def load() -> float | None:
    """Return the load average of the last minute: processes that ran or waited; None where there is none."""
    try:
        return round(os.getloadavg()[0], 2)
    except (AttributeError, OSError):
        return None


def busy(at_start: float | None, at_end: float | None, own_threads: int) -> str | None:
    """Say that something else was at work, or None; the bench's own threads are in the load at its end."""
    limit = _BUSY * (os.cpu_count() or 1)
    if at_start is not None and at_start > limit:
        return f"the machine was busy when the bench began: load {at_start:g} on {os.cpu_count()} cores"
    if at_end is not None and at_end > own_threads + limit:
        return f"something else was at work during the bench: load {at_end:g}, of which {own_threads} is its own"
    return None


def peak_bytes() -> int | None:
    """Return the most memory that this process has had; None where the system does not say."""
    return _kibibytes("/proc/self/status", "VmHWM:")


def _total_bytes() -> int | None:
    return _kibibytes("/proc/meminfo", "MemTotal:")


def _kibibytes(file: str, key: str) -> int | None:
    try:
        rows = (line.split() for line in Path(file).read_text().splitlines())
        return next((int(row[1]) << 10 for row in rows if row and row[0] == key), None)
    except (OSError, ValueError, IndexError):
        return None


def _cpu_model() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(errors="replace").splitlines():
            name, _, value = line.partition(":")
            if name.strip() in ("model name", "Model", "Hardware"):
                return " ".join(value.split())
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _version() -> str:
    try:
        return version("warmline")
    except PackageNotFoundError:
        return "0+source"
