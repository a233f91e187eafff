"""Counting: numbers by variant, added up by any number of processes, bounded, private."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from warmline_server import stats
from warmline_server.stats import STATS_FILE, Stats, load


def test_what_two_count_adds_up(tmp_path: Path) -> None:
    one, other = Stats(tmp_path), Stats(tmp_path)
    for counter, milliseconds in ((one, 90.0), (other, 110.0), (other, 2000.0)):
        counter.shown("acme", milliseconds)
    one.accepted("acme")
    assert one.flush()
    assert other.flush()
    tally = load(tmp_path).variants["acme"]
    assert (tally.shown, tally.accepted) == (3, 1)
    assert tally.quantile_ms(0.5) == pytest.approx(110, rel=0.13)
    assert tally.quantile_ms(1.0) == pytest.approx(2000, rel=0.13)
    assert other.flush()  # nothing is written twice
    assert load(tmp_path).variants["acme"].shown == 3


def test_processes_that_write_at_once_lose_nothing(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from warmline_server.stats import Stats\n"
        "for n in range(20):\n"
        "    one = Stats(Path(sys.argv[1])); one.shown('acme', 5.0)\n"
        "    while not one.flush(): pass\n"
    )
    running = [subprocess.Popen([sys.executable, "-c", script, str(tmp_path)]) for _ in range(3)]
    assert [process.wait(60) for process in running] == [0, 0, 0]
    assert load(tmp_path).variants["acme"].shown == 60


def test_the_file_is_private_and_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stats, "_MOST_VARIANTS", 3)
    for number in range(5):
        one = Stats(tmp_path)
        one.shown(f"v{number}", 1e9)
        assert one.flush()
    file = tmp_path / STATS_FILE
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert sorted(load(tmp_path).variants) == ["v2", "v3", "v4"]


@pytest.mark.parametrize("content", ["", "{", "[]", '{"version": 2}', '{"variants": {"a": {"shown": -1}}}'])
def test_a_file_that_is_none_counts_as_empty(tmp_path: Path, content: str) -> None:
    (tmp_path / STATS_FILE).write_text(content)
    assert load(tmp_path).variants == {}
    one = Stats(tmp_path)
    one.accepted("acme")
    assert one.flush()
    assert load(tmp_path).variants["acme"].accepted == 1


@pytest.mark.parametrize(
    "content",
    ['{"version": 2}', '{"added": 1}', '{"variants": {"a": {"last": NaN}}}', '{"variants": {"a": {"last": 1e300}}}'],
)
def test_what_cannot_be_read_is_never_overwritten(tmp_path: Path, content: str) -> None:
    file, aside = tmp_path / STATS_FILE, tmp_path / stats.UNREADABLE_FILE
    file.write_text(content)
    one = Stats(tmp_path)
    one.accepted("acme")
    assert one.flush()
    assert aside.read_text() == content
    assert aside.name in one.complaint()
    assert one.complaint() == ""
    file.write_text("another")
    one.accepted("acme")
    assert not one.flush()
    assert (file.read_text(), aside.read_text()) == ("another", content)
    assert one.complaint() == ""  # once
    aside.unlink()
    assert one.flush()
    assert load(tmp_path).variants["acme"].accepted == 1


def test_counters_stay_within_what_can_be_read_again(tmp_path: Path) -> None:
    most = 1 << 53
    full = {"shown": most, "accepted": most, "latency": {"0": most}}
    (tmp_path / STATS_FILE).write_text(json.dumps({"variants": {"acme": full}}))
    one = Stats(tmp_path)
    for milliseconds in (0.5, float("inf"), float("nan")):
        one.shown("acme", milliseconds)
    one.accepted("acme")
    assert one.flush()
    tally = load(tmp_path).variants["acme"]
    assert (tally.shown, tally.accepted, tally.latency) == (most, most, {0: most})


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="needs a folder that cannot be written")
def test_what_cannot_be_written_is_kept(tmp_path: Path) -> None:
    one = Stats(tmp_path)
    one.shown("acme", 1.0)
    tmp_path.chmod(0o500)
    assert not one.flush()
    tmp_path.chmod(0o700)
    assert one.flush()
    assert load(tmp_path).variants["acme"].shown == 1


def test_a_fifo_in_its_place_hangs_nobody(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / STATS_FILE)
    assert load(tmp_path).variants == {}


def test_the_command_shows_and_forgets(home: Path) -> None:
    one = Stats(home)
    for _ in range(4):
        one.shown("acme", 100.0)
    one.accepted("acme")
    assert one.flush()

    def run(*arguments: str) -> str:
        command = [sys.executable, "-m", "warmline_server", "stats", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    [row] = json.loads(run("--json"))["variants"]
    assert (row["variant"], row["shown"], row["accepted"], row["acceptance"]) == ("acme", 4, 1, 0.25)
    assert row["p95_ms"] == pytest.approx(100, rel=0.13)
    table = run()
    assert "acme" in table and "25%" in table
    assert json.loads(run("--reset", "--json")) == {"variants": []}
