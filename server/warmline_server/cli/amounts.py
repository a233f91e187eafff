"""Sizes and times as people read them, and a bar for what takes long."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Final

from .output import Output, cell

_UNITS: Final = ("B", "kB", "MB", "GB", "TB")


def size(nbytes: float) -> str:
    """Write bytes with decimal units, as file managers and disks do: ``91.7 MB``."""
    unit = 0
    while nbytes >= 999.5 and unit < len(_UNITS) - 1:
        nbytes /= 1000
        unit += 1
    digits = 1 if unit and nbytes < 99.95 else 0
    return f"{nbytes:.{digits}f} {_UNITS[unit]}"


def count(number: int, noun: str) -> str:
    """Write how many there are: ``1 file``, ``2 files``; the noun takes an s."""
    return f"{number} {noun}" + ("" if number == 1 else "s")


def age(seconds: float) -> str:
    """Write a time span in its largest whole unit: ``3 h``."""
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{int(seconds // length)} {unit}"
    return f"{max(0, int(seconds))} s"


@contextlib.contextmanager
def bar(output: Output, what: str) -> Iterator[Callable[[int, int], None]]:
    """Show a bar on stderr while something is copied or fetched; give what is called with bytes done and in all.

    Silent with JSON and where no person looks.
    """
    if output.as_json or not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Console(file=sys.stderr), transient=True) as progress:
        task = progress.add_task(cell(what).plain, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total or None)
