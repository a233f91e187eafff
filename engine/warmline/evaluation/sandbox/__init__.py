"""Running code that a model wrote against tests, so that it can neither do harm nor fake a pass.

The code runs in a process of its own (`cell.py`), which knows no test. Another process (`checker.py`) has the tests,
asks it for one call after another over a pipe, and compares the values itself. A solution that passes has returned what
the tests want, whatever it prints, overwrites or how it exits: it sees neither what is expected nor where a verdict is
said. What confines it is in `confinement.py`; `Verdict.holds` tells which of that this machine gave.
"""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

_ENGINE: Final = str(Path(__file__).resolve().parents[3])
_START: Final = "import sys; sys.path.insert(0, {!r}); from warmline.evaluation.sandbox.{} import main; main()"


@dataclass(frozen=True, slots=True)
class Limits:
    """What a solution may take: seconds on the clock and of the CPU, and bytes of address space."""

    seconds: float = 10.0
    cpu_seconds: int = 5
    memory: int = 512 << 20


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether the tests pass, why not, and what confined the code: names of `confinement`."""

    passed: bool
    reason: str
    holds: tuple[str, ...] = ()


def command(module: str) -> list[str]:
    """Return the command line that runs a module of this package in a bare Python: no site, no user's environment."""
    return [sys.executable, "-I", "-S", "-B", "-c", _START.format(_ENGINE, module)]


def passes(code: str, reference: str, test: str, entry_point: str, limits: Limits | None = None) -> Verdict:
    """Run a solution's tests; blocks for at most `limits.seconds` and a little.

    Parameters
    ----------
    code
        What a model had a hand in.
    reference
        A right solution, whose names the tests may use; it runs where the tests do.
    test
        Code that defines ``check(candidate)``, which raises where a test fails.
    entry_point
        Name of the function that is tested.
    """
    limits = limits or Limits()
    secret = secrets.token_hex(16)
    with tempfile.TemporaryDirectory(prefix="wl-cell-") as folder:
        job = {"secret": secret, "code": code, "reference": reference, "test": test, "entry_point": entry_point}
        given = json.dumps({**job, "limits": asdict(limits), "folder": folder}).encode()
        try:
            # A session of its own: whatever it starts can be ended with it.
            done = subprocess.run(
                command("checker"),
                input=given,
                capture_output=True,
                env={},
                cwd=folder,
                timeout=limits.seconds + 5,
                start_new_session=True,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Verdict(False, "it took too long")
    try:
        found = json.loads(done.stdout)
        if found["secret"] != secret:
            raise ValueError
        return Verdict(found["passed"] is True, str(found["reason"]), tuple(found["holds"]))
    except (ValueError, KeyError, TypeError):
        return Verdict(False, f"the tests did not end (exit code {done.returncode})")
