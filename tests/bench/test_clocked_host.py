"""The clock that benches put into the engine host."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from types import SimpleNamespace

from clocked_host import COUNTS, STAGES, Clock


def test_the_time_of_an_inner_stage_is_not_the_outer_ones_too() -> None:
    clock = Clock()
    inner = clock.timed("vocabulary", lambda: time.sleep(0.02))
    clock.timed("verify", inner)()
    found = clock.read()
    assert found["vocabulary"] >= 20
    assert found["verify"] < found["vocabulary"]


def test_an_opaque_stage_keeps_what_runs_inside_it() -> None:
    clock = Clock()
    inner = clock.timed("decode", lambda: time.sleep(0.01))
    clock.timed("probe", inner, opaque=True)()
    assert clock.read()["probe"] >= 10
    assert clock.model() == 0
    inner()
    assert clock.model() >= 10


def test_another_process_reads_the_same_file(tmp_path: Path) -> None:
    path = tmp_path / "clock"
    Clock.make(path)
    ours, theirs = Clock(path), Clock(path)
    ours.timed("load", lambda: time.sleep(0.001))()
    assert theirs.read() == ours.read()
    assert theirs.read()["load"] >= 1
    theirs.reset()
    assert set(ours.read().values()) == {0}
    assert set(ours.read()) == {*STAGES, *COUNTS}


def test_two_decodes_at_once_are_seen() -> None:
    clock = Clock()
    both = threading.Barrier(2, timeout=10)

    def decode(context: object, batch: object) -> int:
        if context == "together":
            both.wait()
        return 2 if context == "aborted" else 0

    counted = clock.counted(decode)
    batch = SimpleNamespace(n_tokens=3)
    counted("alone", batch)
    counted("aborted", batch)
    assert clock.read()["decodes_at_once"] == 1
    threads = [threading.Thread(target=counted, args=("together", batch)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = clock.read()
    assert [found[name] for name in COUNTS] == [4, 2, 1, 9]


def test_errors_pass_and_are_timed_all_the_same() -> None:
    clock = Clock()

    def fail() -> None:
        time.sleep(0.001)
        raise ValueError

    try:
        clock.timed("load", fail)()
    except ValueError:
        assert clock.read()["load"] >= 1
    clock.timed("verify", lambda: None)()
    assert clock.read()["verify"] < 1
