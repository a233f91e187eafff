"""Fixtures of the plugin's tests: the example workspace, a store in which it is approved, and editors."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from neovim_editor import Neovim, Workspace

WARMLINE = [sys.executable, "-m", "warmline_server"]


@pytest.fixture
def workspace(tmp_path: Path, examples: Path) -> Workspace:
    """A workspace of one test."""
    root = tmp_path / "ws"
    shutil.copytree(examples, root)
    return Workspace(root)


@pytest.fixture(scope="session")
def approved(tmp_path_factory: pytest.TempPathFactory, examples: Path) -> Path:
    """A store in which the examples' adapters are approved; all tests share it, and so one engine."""
    folder = tmp_path_factory.mktemp("approved")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WARMLINE_HOME", str(folder))
        for variant in ("acme", "fim-python"):
            command = [*WARMLINE, "trust", "add", "--workspace", "--variant", variant, "--yes"]
            subprocess.run(command, cwd=examples, check=True, capture_output=True, timeout=60)
    return folder


@pytest.fixture
def neovim(tmp_path: Path) -> Iterator[Callable[..., Neovim]]:
    """Give a starter of editors: where it starts, its store, the file it opens, and what setup{} is given."""
    editors: list[Neovim] = []

    def start(cwd: Path, home: Path, file: str = "", options: dict[str, Any] | None = None, **more: Any) -> Neovim:
        work = tmp_path / f"nvim{len(editors)}"
        given = {} if options is None else options
        editors.append(Neovim(work, cwd, given, file, WARMLINE_HOME=str(home), **more))
        return editors[-1]

    yield start
    for editor in editors:
        editor.stop()
