"""Who runs next: one at a time, latest wins, nothing that was taken back goes on."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from warmline.backends.base import Abort
from warmline.scheduler import Job, Scheduler


@pytest.fixture
def scheduler() -> Iterator[Scheduler]:
    scheduler = Scheduler()
    yield scheduler
    scheduler.close()


class Work:
    """A job that runs until it is told to end; remembers what happened."""

    def __init__(self, log: list[str], name: str, key: object = None) -> None:
        self.began, self.end, self.ended = threading.Event(), threading.Event(), threading.Event()
        self.log, self.name = log, name
        self.job = Job(self.run, lambda reason: log.append(f"{name} {reason}"), key)

    def run(self, abort: Abort) -> None:
        self.log.append(f"{self.name} began")
        self.began.set()
        while not abort.is_set() and not self.end.wait(0.001):
            pass
        self.log.append(f"{self.name} ended")
        self.ended.set()


def test_jobs_run_one_at_a_time_in_order(scheduler: Scheduler) -> None:
    log: list[str] = []
    works = [Work(log, name) for name in "abc"]
    for work in works:
        scheduler.submit(work.job)
        work.end.set()
    assert all(work.ended.wait(10) for work in works)
    assert log == ["a began", "a ended", "b began", "b ended", "c began", "c ended"]


def test_a_newer_job_of_one_key_ends_the_older_at_once(scheduler: Scheduler) -> None:
    log: list[str] = []
    first, second, other = Work(log, "first", "k"), Work(log, "second", "k"), Work(log, "other", "x")
    scheduler.submit(first.job)
    assert first.began.wait(10)
    scheduler.submit(other.job)
    scheduler.submit(second.job)
    assert "first superseded" in log
    other.end.set()
    second.end.set()
    assert second.ended.wait(10)
    assert log.index("first ended") < log.index("other began") < log.index("second began")


def test_a_storm_of_one_key_runs_only_the_last_of_those_that_waited(scheduler: Scheduler) -> None:
    log: list[str] = []
    blocker = Work(log, "blocker")
    scheduler.submit(blocker.job)
    assert blocker.began.wait(10)
    storm = [Work(log, str(index), "k") for index in range(200)]
    for work in storm:
        work.end.set()
        scheduler.submit(work.job)
    blocker.end.set()
    assert storm[-1].ended.wait(10)
    assert [line for line in log if line.endswith("began")] == ["blocker began", "199 began"]
    assert sum(line.endswith("superseded") for line in log) == 199


def test_a_cancelled_job_never_begins_and_says_so_once(scheduler: Scheduler) -> None:
    log: list[str] = []
    blocker, waiting, last = Work(log, "blocker"), Work(log, "waiting"), Work(log, "last")
    scheduler.submit(blocker.job)
    assert blocker.began.wait(10)
    scheduler.submit(waiting.job)
    scheduler.cancel(waiting.job)
    scheduler.cancel(waiting.job)
    scheduler.submit(last.job)
    blocker.end.set()
    last.end.set()
    assert last.ended.wait(10)
    assert log.count("waiting cancelled") == 1
    assert "waiting began" not in log


def test_closing_stops_what_runs_and_refuses_what_comes() -> None:
    scheduler = Scheduler()
    log: list[str] = []
    running, waiting, late = Work(log, "running"), Work(log, "waiting"), Work(log, "late")
    scheduler.submit(running.job)
    assert running.began.wait(10)
    scheduler.submit(waiting.job)
    scheduler.close()
    scheduler.submit(late.job)
    assert running.ended.is_set()
    assert {"running stopping", "waiting stopping", "late stopping"} <= set(log)
    assert "waiting began" not in log
    scheduler.close()
