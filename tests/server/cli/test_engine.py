"""`warmline engine` and `warmline cache`: the host as a person sees it; KV on disk without what it says."""

from __future__ import annotations

import os
import signal
import socket
import stat
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from smollm2 import PACKAGE
from warmline.identity import ContextIdentity, Identity
from warmline.kv.disk import DiskSnapshots
from warmline.kv.snapshots import Snapshot

Run = Callable[..., Any]
IDENTITY = Identity("llama.cpp", "1", "sha256:" + "0" * 64, (), "t", "none", "fim/1", ContextIdentity(512))
STAY = {"WARMLINE_ENGINE_IDLE_SECONDS": "60"}


@pytest.fixture
def engine(warmline: Run) -> Iterator[Run]:
    """Run commands on an engine that is stopped in the end."""
    yield lambda *arguments: warmline(*arguments, environment=STAY)
    warmline("engine", "stop")


@pytest.fixture
def port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def test_an_engine_that_is_reached_otherwise_is_no_missing_one(engine: Run, warmline: Run) -> None:
    pid = engine("engine", "start", "--json").json["pid"]
    other = {"WARMLINE_TRANSPORT": "tcp"}
    for command in ("status", "metrics"):
        error = warmline("engine", command, "--json", environment=other).json["error"]
        assert (error["code"], "warmline engine stop" in error["remedy"]) == ("backend.transport", True)
    rows = {row["check"]: row for row in warmline("doctor", "--json", environment=other).json["checks"]}
    assert (rows["engine"]["level"], "reached by unix" in rows["engine"]["message"]) == ("warn", True)
    assert engine("engine", "status", "--json").json["pid"] == pid
    # What the remedy says: it leaves in good order, whatever the transport of who asks it to.
    assert warmline("engine", "stop", "--json", environment=other).json == {"stopped": True}
    assert warmline("engine", "logs", "-n", "1").out.rstrip().endswith("stopped")


def test_an_engine_that_does_not_answer_is_no_missing_one(engine: Run) -> None:
    pid = engine("engine", "start", "--json").json["pid"]
    os.kill(pid, signal.SIGSTOP)
    try:
        for command in ("status", "metrics"):
            error = engine("engine", command, "--json").json["error"]
            assert error["code"] == "backend.silent"
            assert f"process {pid}" in error["message"]
    finally:
        os.kill(pid, signal.SIGCONT)
    assert engine("engine", "status", "--json").json["pid"] == pid


@pytest.mark.parametrize("suffix", ["spawn", "lease", "pid"])
def test_what_stands_in_the_way_of_a_start_is_named(warmline: Run, suffix: str) -> None:
    there = Path(warmline("engine", "status", "--json").json["socket"]).with_suffix(f".{suffix}")
    there.mkdir(parents=True)
    error = warmline("engine", "start", "--json").json["error"]
    assert error["code"] == "backend.host_start"
    assert "Is a directory" in error["message"]
    assert "Errno" not in error["message"]
    assert str(there) in f"{error['file']} {error['message']}"


def test_what_is_no_number_is_logged_and_costs_nobody_the_engine(warmline: Run) -> None:
    odd = {"WARMLINE_ENGINE_IDLE_SECONDS": "soon", "WARMLINE_METRICS_PORT": "99999"}
    try:
        assert warmline("engine", "start", "--json", environment=odd).json["metrics_port"] is None
        lines = "\n".join(warmline("engine", "logs", "--json").json["lines"])
        assert "WARMLINE_ENGINE_IDLE_SECONDS is not used: `soon` is no number of 0 to 10000000" in lines
        assert "WARMLINE_METRICS_PORT is not used: `99999` is no number of 0 to 65535" in lines
    finally:
        warmline("engine", "stop")


def test_what_stands_in_the_sockets_place_is_named(warmline: Run) -> None:
    socket_path = Path(warmline("engine", "status", "--json").json["socket"])
    socket_path.mkdir(parents=True)
    error = warmline("engine", "start", "--json").json["error"]
    assert error["code"] == "backend.host_start"
    assert f"{socket_path}: the engine cannot listen: Is a directory" in error["message"]


def test_start_status_and_stop(engine: Run) -> None:
    nothing = engine("engine", "status", "--json")
    assert (nothing.code, nothing.json["running"], nothing.json["pid"]) == (0, False, None)
    started = engine("engine", "start", "--json").json
    assert (started["running"], started["started"]) == (True, True)
    again = engine("engine", "start", "--json").json
    assert (again["pid"], again["started"]) == (started["pid"], False)
    running = engine("engine", "status", "--json").json
    assert (running["pid"], running["state"]["state"]) == (started["pid"], "empty")
    assert stat.S_IMODE(Path(running["socket"]).stat().st_mode) == 0o600
    for part in ("empty", str(started["pid"]), running["log"]):
        assert part in engine("engine", "status").out
    logged = engine("engine", "logs", "--json").json
    assert any("starting" in line for line in logged["lines"])
    assert [record["level"] for record in logged["records"] if "starting" in record["message"]] == ["INFO"]
    assert len(engine("engine", "logs", "-n", "1").out.splitlines()) == 1
    samples = engine("engine", "metrics", "--json").json
    assert {"warmline_state"} <= {sample["name"] for sample in samples}
    assert engine("engine", "metrics").out.startswith("# HELP")
    assert engine("engine", "stop", "--json").json == {"stopped": True}
    assert engine("engine", "stop", "--json").json == {"stopped": False}


def test_what_needs_an_engine_starts_none(engine: Run) -> None:
    error = engine("engine", "metrics", "--json").json["error"]
    assert error["code"] == "backend.host_missing"
    assert engine("engine", "status", "--json").json["running"] is False
    assert engine("engine", "logs", "--json").json["lines"] == []


def test_metrics_are_served_on_loopback_alone(engine: Run, port: int) -> None:
    started = engine("engine", "start", "--metrics-port", str(port), "--json").json
    assert started["metrics_port"] == port
    text = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10).read().decode()
    assert 'warmline_state{what="bases"} 0.0' in text
    listening = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    ours = {fields[1] for fields in listening if fields[3] == "0A" and fields[1].endswith(f":{port:04X}")}
    assert ours == {f"0100007F:{port:04X}"}
    assert engine("engine", "status", "--json").json["metrics_port"] == port
    other = engine("engine", "start", "--metrics-port", "1", "--json")
    assert (other.code, other.json["error"]["code"]) == (1, "backend.metrics_port")
    assert engine("engine", "stop").code == 0
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10)


def test_the_port_can_be_a_setting(engine: Run, port: int) -> None:
    assert engine("config", "set", "metrics-port", str(port)).code == 0
    assert engine("engine", "start", "--json").json["metrics_port"] == port


def test_a_port_that_is_taken_is_said_and_the_engine_runs(engine: Run, port: int) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port))
        taken.listen()
        done = engine("engine", "start", "--metrics-port", str(port), "--json")
    assert done.json["error"]["code"] == "backend.metrics_port"
    assert engine("engine", "status", "--json").json["running"] is True


def snapshot(home: Path, tokens: tuple[int, ...]) -> None:
    disk = DiskSnapshots(home / "cache/kv")
    assert disk.put(Snapshot(IDENTITY, tokens, b"secret" * 100))


def test_the_cache_is_listed_without_what_it_says_and_purged(warmline: Run, home: Path) -> None:
    snapshot(home, (1, 2, 3))
    snapshot(home, (4, 5))
    rows = warmline("cache", "list", "--json").json
    assert sorted(row["tokens"] for row in rows) == [2, 3]
    assert all(set(row) == {"kind", "identity", "tokens", "bytes", "age_seconds"} for row in rows)
    assert rows[0]["identity"] == IDENTITY.digest
    text = warmline("cache", "list")
    assert IDENTITY.digest[7:19] in text.out
    assert "secret" not in text.out
    purged = warmline("cache", "purge", "--json").json
    assert (purged["removed"], purged["bytes"]) == (2, sum(row["bytes"] for row in rows))
    assert warmline("cache", "list", "--json").json == []
    assert list((home / "cache/kv").iterdir()) == []


def test_the_demos_base_is_listed_and_purged_too(warmline: Run, home: Path) -> None:
    base = home / "cache/demo-openvino-0123456789abcdef-1"
    (base / "inner").mkdir(parents=True)
    (base / "inner/model.bin").write_bytes(b"x" * 5000)
    (row,) = warmline("cache", "list", "--json").json
    assert (row["kind"], row["bytes"], row["identity"]) == ("demo base", 5000, None)
    assert base.name in warmline("cache", "list").out
    assert warmline("cache", "purge", "--json").json == {"removed": 0, "demo_bases": 1, "bytes": 5000}
    assert not base.exists()
    assert (home / "cache").exists()


def test_the_folder_can_be_a_setting(warmline: Run, tmp_path: Path) -> None:
    assert warmline("config", "set", "snapshot-path", str(tmp_path / "kv")).code == 0
    disk = DiskSnapshots(tmp_path / "kv")
    disk.put(Snapshot(IDENTITY, (1,), b"x"))
    assert len(warmline("cache", "list", "--json").json) == 1


@pytest.mark.model
def test_a_conversation_is_kept_on_disk_when_the_engine_stops(engine: Run, home: Path) -> None:
    assert engine("model", "add", PACKAGE, "--name", "smollm2").code == 0
    assert engine("variant", "add", "plain", "--base", "smollm2").code == 0
    asked = ("chat", "What is a ledger, and who writes into it? One sentence.", "--variant", "plain")
    first = engine(*asked, "--max-tokens", "6", "--json")
    assert first.code == 0, first.out
    assert first.json["reason"] == "cold"
    assert engine("engine", "stop").code == 0
    (row,) = engine("cache", "list", "--json").json
    assert row["identity"] == first.json["identity"]
    second = engine(*asked, "--max-tokens", "6", "--json").json
    assert second["reused_tokens"] >= second["prompt_tokens"] - 1
    assert second["text"] == first.json["text"]
