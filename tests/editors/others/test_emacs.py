"""Emacs in batch mode with eglot, our configuration and the real server: a suggestion of a real model is taken."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EMACS = shutil.which("emacs")
SCRIPT = Path(__file__).with_name("completion.el")


def has_eglot() -> bool:
    probe = [str(EMACS), "--batch", "--eval", "(package-initialize)", "--eval", "(require 'eglot)"]
    return EMACS is not None and subprocess.run(probe, capture_output=True, timeout=60, check=False).returncode == 0


@pytest.mark.model
def test_a_suggestion_is_taken(repo: Path, examples: Path, tmp_path: Path, home: Path) -> None:
    if not has_eglot():
        pytest.skip("needs Emacs with eglot: apt-get install emacs-nox elpa-eglot")
    workspace, out = tmp_path / "ws", tmp_path / "out.py"
    shutil.copytree(examples, workspace)
    trust = [sys.executable, "-m", "warmline_server", "trust", "add", "--workspace", "--yes"]
    subprocess.run(trust, cwd=workspace, check=True, capture_output=True, timeout=60)
    environment = os.environ | {
        "HOME": str(tmp_path),
        "CONFIG": str(repo / "editors" / "emacs" / "warmline.el"),
        "FILE": str(workspace / "ledger.py"),
        "OUT": str(out),
        "PYTHON": sys.executable,
    }
    command = [str(EMACS), "--batch", "--eval", "(package-initialize)", "-l", str(SCRIPT)]
    done = subprocess.run(
        command, cwd=workspace, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    before = (examples / "ledger.py").read_text().rstrip("\n")
    assert out.read_text().startswith(before + "ledger: Ledger, account_id")
