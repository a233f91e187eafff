"""Ending a child process."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal


async def end(process: asyncio.subprocess.Process) -> None:
    """Kill a process where it still runs, and wait until it has ended."""
    # Not `process.kill`, which would take the exit code away from who waits for it.
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)
    if process.stdout is not None:
        await process.stdout.read()  # where nobody reads what is left, the end is not seen
    await process.wait()
