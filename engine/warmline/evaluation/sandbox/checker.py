"""The process that has the tests: it starts the cell, asks it for calls, and says the verdict."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from typing import Any, Final

from . import command
from .confinement import children_cpu_seconds, hide
from .values import NotPlainError, decode, encode

_MOST: Final = 4 << 20  # bytes of one answer


class _FailedError(BaseException):
    """The solution cannot go on. No `Exception`, which a test might catch."""


class _Cell:
    """The solution's process, as a function that can be called."""

    def __init__(self, job: dict[str, Any]) -> None:
        limits = job["limits"]
        self._deadline = time.monotonic() + limits["seconds"]
        self._cpu_seconds = limits["cpu_seconds"]
        self._data = b""
        self._process = subprocess.Popen(
            command("cell"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={},
            cwd=job["folder"],
            start_new_session=True,
        )
        self._send({"code": job["code"], "entry_point": job["entry_point"], "folder": job["folder"]} | limits)
        self.holds = [str(each) for each in self._answer()["holds"]]

    def begin(self) -> None:
        """Wait until the code has run once; raises `_FailedError`."""
        self._value(self._answer())

    def __call__(self, *positional: Any, **named: Any) -> Any:
        try:
            self._send({"positional": encode(positional), "named": encode(named)})
        except NotPlainError as error:
            raise _FailedError(f"a test gives it what is no plain data: {error}") from None
        return self._value(self._answer())

    def close(self) -> None:
        """End the process and all that it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _send(self, message: dict[str, Any]) -> None:
        stdin = self._process.stdin
        assert stdin is not None  # it is a pipe
        try:
            stdin.write(json.dumps(message).encode() + b"\n")
            stdin.flush()
        except OSError:
            raise _FailedError(self._end()) from None

    def _answer(self) -> dict[str, Any]:
        stdout = self._process.stdout
        assert stdout is not None  # it is a pipe
        while b"\n" not in self._data:
            left = self._deadline - time.monotonic()
            if left <= 0 or not select.select([stdout], [], [], left)[0]:
                raise _FailedError("it took too long")
            more = os.read(stdout.fileno(), 1 << 16)
            if not more:
                raise _FailedError(self._end())
            self._data += more
            if len(self._data) > _MOST:
                raise _FailedError("it answers too much")
        line, _, self._data = self._data.partition(b"\n")
        try:
            answer = json.loads(line)
            if not isinstance(answer, dict):
                raise ValueError
        except (ValueError, RecursionError):
            raise _FailedError("it does not answer as it should") from None
        return answer

    def _end(self) -> str:
        """Reap the process that answers no more; return why it does not."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=1)
        self.close()
        # The kernel kills at the limit without a word; the checker has had no other child.
        if children_cpu_seconds() >= self._cpu_seconds:
            return "it used up its time of the processor"
        return "the solution's process ended"

    @staticmethod
    def _value(answer: dict[str, Any]) -> Any:
        if answer.keys() != {"value"}:
            raise _FailedError(f"it raised {str(answer.get('error'))[:80]}")
        try:
            return decode(answer["value"])
        except (NotPlainError, RecursionError) as error:
            raise _FailedError(f"it returned no plain data: {error}") from None


def main() -> None:
    """Read the job, run its tests, print the verdict."""
    hide()
    job = json.loads(sys.stdin.buffer.read())
    verdict = _verdict(job)
    verdict["secret"] = job["secret"]
    sys.stdout.write(json.dumps(verdict))


def _verdict(job: dict[str, Any]) -> dict[str, Any]:
    holds: list[str] = []
    passed, reason = False, ""
    cell = None
    try:
        cell = _Cell(job)
        holds = cell.holds
        cell.begin()
        names: dict[str, Any] = {"__name__": "tests"}
        exec(compile(job["reference"], "reference", "exec"), names)
        exec(compile(job["test"], "tests", "exec"), names)
        names["check"](cell)
        passed = True
    except _FailedError as error:
        reason = str(error)
    except AssertionError:
        reason = "a test failed"
    except Exception as error:  # what a wrong value does to a test
        reason = f"a test could not use what it returned: {type(error).__name__}"
    finally:
        if cell is not None:
            cell.close()
    return {"passed": passed, "reason": reason, "holds": holds}
