"""A shell command in a process group of its own, which ends as a whole: bounded in time, output and processes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_MOST_PROCESSES: Final = 256
_MOST_FILE_BYTES: Final = 1 << 30
_POLL_SECONDS: Final = 0.05
_LAST_SECONDS: Final = 0.2
_ENDING_SECONDS: Final = 1.0
# Waits until its limits are in force; the command itself reads nothing.
_GATED: Final = 'read -r _ && exec </dev/null && exec /bin/sh -c "$1"'


@dataclass(frozen=True, slots=True)
class Ran:
    """How a command ended. `late`: it was stopped. `output` holds at most what was allowed, of stdout and stderr."""

    code: int
    output: str
    late: bool


async def run_shell(command: str, cwd: Path, seconds: float, most_bytes: int) -> Ran:
    """Run a command; whatever it started is ended with it, also when the caller is cancelled.

    Raises
    ------
    OSError
        When no process can be started in `cwd`.
    """
    process = await asyncio.create_subprocess_exec(
        *("/bin/sh", "-c", _GATED, "sh", command),
        cwd=cwd,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    output, late = bytearray(), False
    try:
        _limit(process.pid)
        async with asyncio.timeout(seconds):
            with contextlib.suppress(ConnectionError):
                process.stdin.write(b"\n")
                process.stdin.close()
            await _read(process, process.stdout, output, most_bytes)
    except TimeoutError:
        late = True
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        # asyncio waits for the output's end too, which a process that left the group may hold open.
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), _ENDING_SECONDS)
    code = process.returncode if process.returncode is not None else -signal.SIGKILL
    return Ran(code, output.decode("utf-8", "replace"), late)


async def _read(
    process: asyncio.subprocess.Process, stream: asyncio.StreamReader, output: bytearray, most: int
) -> None:
    """Read until the command itself has ended; what it left in the background may hold its output open."""
    while True:
        reading = asyncio.ensure_future(stream.read(1 << 14))
        try:
            while not reading.done():
                ended = process.returncode is not None
                await asyncio.wait({reading}, timeout=_LAST_SECONDS if ended else _POLL_SECONDS)
                if ended and not reading.done():
                    return
        finally:
            reading.cancel()
        data = reading.result()
        if not data:
            break
        output += data[: max(0, most - len(output))]
    while process.returncode is None:  # noqa: ASYNC110  # asyncio tells no sooner
        await asyncio.sleep(_POLL_SECONDS / 10)


def _limit(pid: int) -> None:
    """Keep a command from filling the disk or the process table; elsewhere than on Linux, time has to do."""
    if not sys.platform.startswith("linux"):
        return
    limits = {
        resource.RLIMIT_FSIZE: _MOST_FILE_BYTES,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_NPROC: _processes() + _MOST_PROCESSES,
    }
    for kind, value in limits.items():
        with contextlib.suppress(OSError, ValueError):
            hard = resource.prlimit(pid, kind)[1]
            most = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.prlimit(pid, kind, (most, most))


def _processes() -> int:
    """Count this user's threads, which is what the limit counts too."""
    mine, count = os.getuid(), 0
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError):
                if os.stat(f"/proc/{name}").st_uid == mine:
                    count += len(os.listdir(f"/proc/{name}/task"))
    return count
