"""Ending a child process, and being asked to end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator


async def end(process: asyncio.subprocess.Process) -> None:
    """Kill a process where it still runs, and wait until it has ended."""
    # Not `process.kill`, which would take the exit code away from who waits for it.
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)
    if process.stdout is not None:
        await process.stdout.read()  # where nobody reads what is left, the end is not seen
    await process.wait()


@contextlib.contextmanager
def on_signals(function: Callable[[], object]) -> Iterator[None]:
    """Have a function called in the running loop when the process is asked to end, or its terminal is closed.

    Nothing is done outside of the main thread and on Windows, where a loop hears of no signals.
    """
    loop = asyncio.get_running_loop()
    here = sys.platform != "win32" and threading.current_thread() is threading.main_thread()
    numbers = (signal.SIGTERM, signal.SIGHUP) if here else ()
    for number in numbers:
        loop.add_signal_handler(number, function)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)
