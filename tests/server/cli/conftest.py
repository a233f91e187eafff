"""Runs the `warmline` command as a process of its own, as people and programs do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

# What the console script does; a checkout on PYTHONPATH has no script.
ENTRY = [sys.executable, "-c", "import sys; from warmline_server.cli import main; sys.argv[0] = 'warmline'; main()"]


@dataclass(frozen=True)
class Result:
    """What one command left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """All of stdout as one JSON value."""
        return json.loads(self.out)


@pytest.fixture(scope="session")
def entry() -> list[str]:
    """The start of a command line."""
    return ENTRY


@pytest.fixture
def warmline(home: Path, tmp_path: Path) -> Callable[..., Result]:
    """Run a command in an empty store and, unless told otherwise, an empty folder."""
    empty = tmp_path / "elsewhere"
    empty.mkdir()

    def run(
        *arguments: str | Path,
        cwd: Path = empty,
        stdin: bytes | str = b"",
        environment: Mapping[str, str] | None = None,
    ) -> Result:
        given = stdin.encode() if isinstance(stdin, str) else stdin
        done = subprocess.run(
            [*ENTRY, *map(str, arguments)],
            cwd=cwd,
            input=given,
            capture_output=True,
            env=os.environ | {"NO_COLOR": "1"} | dict(environment or {}),
            timeout=200,
        )
        return Result(done.returncode, done.stdout.decode(), done.stderr.decode())

    return run
