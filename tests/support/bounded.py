"""Runs commands for tests within a time, and ends them whatever happens, with all that they started in their group.

Output goes to files rather than pipes: a pipe is at its end only when the last process that holds it is, which may be a
grandchild that nobody waits for.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

_LOOK_SECONDS: Final = 0.05
_KILLED_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class Ran:
    """What came of a command: its exit status, None when its time was over, and what it printed."""

    status: int | None
    out: str
    err: str

    @property
    def said(self) -> str:
        """The ends of both outputs, for a message."""
        over = "\nits time was over" if self.status is None else ""
        return f"{self.out[-4000:]}\n{self.err[-6000:]}{over}"


def run(
    command: Sequence[str], *, seconds: float, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> Ran:
    """Run a command for so many seconds at most."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        with started(command, out=out, err=err, cwd=cwd, env=env) as process:
            in_time = ended_within(process, seconds)
        return Ran(process.returncode if in_time else None, _read(out), _read(err))


@contextlib.contextmanager
def started(
    command: Sequence[str],
    *,
    out: IO[bytes],
    err: IO[bytes],
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> Iterator[subprocess.Popen[bytes]]:
    """Start a command in a group of its own, and kill what is left of that group in the end."""
    process = subprocess.Popen(
        command, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True
    )
    try:
        yield process
    finally:
        # Before it is waited for: after that its number may be somebody else's.
        assert process.returncode is None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(_KILLED_SECONDS)


def ended_within(process: subprocess.Popen[bytes], seconds: float) -> bool:
    """Wait for the end of a process without taking its number from it."""
    until = time.monotonic() + seconds
    while os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        if time.monotonic() > until:
            return False
        time.sleep(_LOOK_SECONDS)
    return True


def _read(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode("utf-8", "replace")
