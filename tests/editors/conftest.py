"""Fixtures of the tests in a real VS Code: what it takes, the extension as built, a workspace and a store."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
import vscode_tools
from bounded import run
from vscode_server import Room
from vscode_tools import Extension, Tools

_COMMANDS: Final = Path(sys.executable).parent


@pytest.fixture(scope="session")
def tools() -> Tools:
    """A real VS Code and a browser, installed once."""
    try:
        return vscode_tools.install()
    except vscode_tools.Missing as missing:
        pytest.skip(f"no test in a real VS Code: {missing}")


@pytest.fixture(scope="session")
def extension(tools: Tools) -> Extension:
    """The extension as it is in the checkout, checked and built."""
    return vscode_tools.build(tools)


@pytest.fixture(scope="session")
def pictures() -> Path:
    """Where screenshots are kept to be looked at."""
    where = os.environ.get("WARMLINE_TEST_PICTURES")
    folder = Path(where) if where else vscode_tools.REPO / "build" / "pictures" / "vscode"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture(scope="module")
def room(examples: Path, base_gguf: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Room]:
    """A copy of the example workspace, approved; `base_gguf` says that the model is there."""
    top = tmp_path_factory.mktemp("vscode")
    folder = top / "examples"
    shutil.copytree(examples, folder)
    with tempfile.TemporaryDirectory(prefix="wl-") as runtime:
        env = {
            "WARMLINE_HOME": str(top / "home"),
            "WARMLINE_RUNTIME_DIR": runtime,
            "PATH": f"{_COMMANDS}{os.pathsep}{os.environ['PATH']}",
        }
        trust = [str(_COMMANDS / "warmline"), "trust", "add", "--workspace", "--yes"]
        ran = run(trust, seconds=120, cwd=folder, env={**os.environ, **env})
        assert ran.status == 0, ran.said
        yield Room(folder, env)
