"""Ends whatever a test has started, however far down and in whatever session: known by its environment. Linux only."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path


def end_all_with(variable: str, value: str) -> None:
    """Kill each process that was started with this environment variable."""
    for found in Path("/proc").glob("[0-9]*"):
        end_one_with(int(found.name), variable, value)


def end_one_with(pid: int, variable: str, value: str, number: signal.Signals = signal.SIGKILL) -> None:
    """Send a signal to a process, if it is there and was started with this environment variable.

    A number that was noted may be another process's by now, or that of a thread, of this very process among others; and
    a signal to a thread's number goes to the whole process.
    """
    with contextlib.suppress(OSError):  # it has ended, or it is somebody else's
        handle = os.pidfd_open(pid)
        try:
            environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            if f"{variable}={value}".encode() in environment and pid != os.getpid():
                signal.pidfd_send_signal(handle, number)
        finally:
            os.close(handle)
