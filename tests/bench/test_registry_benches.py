"""The benches of the store and its readers run, and report what they promise."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any


def report(repo: Path, script: str, *arguments: str) -> dict[str, Any]:
    command = [sys.executable, str(repo / "bench" / script), *arguments, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr + done.stdout[-2000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_mutated_headers_neither_crash_nor_hang_nor_take_much_memory(repo: Path) -> None:
    """The bench reads 10,000; this smaller run fails as that does."""
    found = report(repo, "fuzz_headers.py", "--count", "800", "--seed", "7")
    assert found["failures"] == []
    assert found["count"] == 800
    assert found["peak_mib"] < 200
    refused = {name.split()[1] for name in found["by_code"]}
    assert {"accepted", "artifact.gguf.string", "artifact.safetensors.json"} <= refused
    assert all(name == "accepted" or name.startswith("artifact.") for name in refused)


def test_the_stores_bench_reports(repo: Path) -> None:
    found = report(repo, "registry.py", "--variants", "20", "--runs", "2")
    assert found["variants"] == 20
    assert {"list_ms", "resolve_ms", "process_ms", "names_ms"} <= set(found)
