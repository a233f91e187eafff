"""Each bench runs, in its quick mode, and reports what its README promises. Nothing here judges a time."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from llama_server import find

SCRIPTS = ("typing.py", "startup.py", "documents.py", "llama_server.py")


def bench(repo: Path, script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(repo / "bench" / script), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=280)


def report(repo: Path, script: str, *arguments: str) -> dict[str, Any]:
    done = bench(repo, script, *arguments, "--json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("script", SCRIPTS)
def test_each_script_starts_although_one_is_called_typing(repo: Path, script: str) -> None:
    done = bench(repo, script, "--help")
    assert done.returncode == 0, done.stderr
    assert "usage:" in done.stdout


def test_a_script_in_the_folder_gets_the_standard_librarys_typing(repo: Path) -> None:
    # What Python does for a script: its folder comes first on the path.
    check = (
        f"import sys; sys.path.insert(0, {str(repo / 'bench')!r}); import typing; print(typing.NamedTuple.__module__)"
    )
    done = subprocess.run([sys.executable, "-S", "-c", check], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "typing", done.stderr


@pytest.mark.slow
def test_documents(repo: Path) -> None:
    found = report(repo, "documents.py", "--lines", "2000", "--repeats", "3", "--pygls-repeats", "2")
    assert all(row["warmline"]["median_us"] > 0 for row in found["rows"])


@pytest.mark.slow
@pytest.mark.skipif(
    not Path("/proc/self/schedstat").exists(), reason="CPU time of a process is read from Linux's /proc"
)
def test_startup(repo: Path) -> None:
    found = report(repo, "startup.py", "--quick")
    assert set(found["servers"]) == {"warmline lsp", "bare pygls"}
    for server in found["servers"].values():
        assert 0 < server["initialize"]["cpu_ms"] <= server["ready"]["cpu_ms"]


@pytest.mark.slow
@pytest.mark.model
@pytest.mark.skipif(find() is None, reason="no llama-server to compare with: python bench/llama_server.py build")
@pytest.mark.parametrize("adapter", [None, "acme-style"])
def test_typing(repo: Path, examples: Path, adapter: str | None) -> None:
    with_adapter = ("--adapter", str(examples / "adapters" / adapter / "adapter.gguf")) if adapter else ()
    found = report(repo, "typing.py", "--quick", "--same-batches", *with_adapter)
    one, whole = found["rows"]
    assert one["keys"] == whole["keys"] == 10
    assert one["prompt_tokens"] > 1000
    # The same llama.cpp with the same batches: any other text is a fault, here or in the comparison.
    assert one["cold_equal"] is True
    assert one["equal_texts"] == 1
    for side in ("warmline", "llama_server"):
        assert one[side]["reused"] > 0.9
        assert 0 < one[side]["first_ms"]["median"] <= one[side]["total_ms"]["median"]
    assert all(seconds > 0 for seconds in found["cpu"].values())
