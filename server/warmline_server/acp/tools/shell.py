"""A shell command below a supervisor, which ends it as a whole: bounded in time, output, file sizes and processes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

MOST_PROCESSES: Final = 256
_MOST_FILE_BYTES: Final = 1 << 30
_POLL_SECONDS: Final = 0.05
_LAST_SECONDS: Final = 0.2
_ENDING_SECONDS: Final = 6.0
_SUPERVISOR: Final = Path(__file__).with_name("supervisor.py")


@dataclass(frozen=True, slots=True)
class Ran:
    """How a command ended. `late`, `many`: it was stopped, since it took too long or had too many processes.

    `output` holds at most what was allowed, of stdout and stderr.
    """

    code: int
    output: str
    late: bool
    many: bool


async def run_shell(
    command: str, cwd: Path, seconds: float, most_bytes: int, most_processes: int = MOST_PROCESSES
) -> Ran:
    """Run a command; whatever it started is ended with it, also when the caller is cancelled.

    Raises
    ------
    OSError
        When no process can be started in `cwd`.
    """
    result, telling = os.pipe()
    try:
        limits = map(str, (telling, most_processes, _MOST_FILE_BYTES))
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", str(_SUPERVISOR), *limits, command),
            cwd=cwd,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            pass_fds=(telling,),
            start_new_session=True,
        )
    except BaseException:
        os.close(result)
        raise
    finally:
        os.close(telling)
    assert process.stdin is not None
    assert process.stdout is not None
    output, late = bytearray(), False
    try:
        async with asyncio.timeout(seconds):
            await _read(process, process.stdout, output, most_bytes)
    except TimeoutError:
        late = True
    finally:
        process.stdin.close()  # the supervisor ends all of it
        try:
            # asyncio waits for the output's end too, which a process that left may hold open.
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), _ENDING_SECONDS)
        finally:
            code, many = _told(result)
    return Ran(code, output.decode("utf-8", "replace"), late, many)


def _told(result: int) -> tuple[int, bool]:
    """Read what the supervisor told; where it was ended itself, end the command for it."""
    os.set_blocking(result, False)
    try:
        lines = os.read(result, 100).splitlines()
    except BlockingIOError:
        lines = []
    finally:
        os.close(result)
    if len(lines) == 2:
        code, many = lines[1].split()
        return int(code), many == b"1"
    if lines:
        with contextlib.suppress(OSError):
            os.killpg(int(lines[0]), signal.SIGKILL)
    return -signal.SIGKILL, False


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
