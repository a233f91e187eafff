"""Who runs next: one at a time, latest wins, nothing that was taken back goes on."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from warmline.backends.base import Abort
from warmline.scheduler import Job, Priority, Scheduler


@pytest.fixture
def scheduler() -> Iterator[Scheduler]:
    scheduler = Scheduler()
    yield scheduler
    scheduler.close()


class Work:
    """A job that runs until it is told to end; remembers what happened."""

    def __init__(self, log: list[str], name: str, key: object = None, **options: Any) -> None:
        self.began, self.end, self.ended = threading.Event(), threading.Event(), threading.Event()
        self.log, self.name = log, name
        self.job = Job(self.run, lambda reason: log.append(f"{name} {reason}"), key, **options)

    def run(self, abort: Abort) -> Iterator[None]:
        self.log.append(f"{self.name} began")
        self.began.set()
        while not abort.is_set() and not self.end.wait(0.001):
            yield
        self.log.append(f"{self.name} ended")
        self.ended.set()


def ended(*works: Work) -> None:
    for work in works:
        assert work.ended.wait(10)


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


def test_a_completion_interrupts_a_chat_which_then_goes_on(scheduler: Scheduler) -> None:
    log: list[str] = []
    chat = Work(log, "chat", priority=Priority.CHAT)
    completion = Work(log, "completion")
    scheduler.submit(chat.job)
    assert chat.began.wait(10)
    completion.end.set()
    scheduler.submit(completion.job)
    assert completion.ended.wait(10)
    assert not chat.ended.is_set()
    chat.end.set()
    ended(chat)
    assert log == ["chat began", "completion began", "completion ended", "chat ended"]
    assert scheduler.preemptions == 1


def test_a_chat_never_interrupts_a_completion_nor_another_chat(scheduler: Scheduler) -> None:
    log: list[str] = []
    first, second = Work(log, "first", priority=Priority.CHAT), Work(log, "second", priority=Priority.CHAT)
    completion = Work(log, "completion")
    scheduler.submit(completion.job)
    assert completion.began.wait(10)
    scheduler.submit(first.job)
    scheduler.submit(second.job)
    completion.end.set()
    assert first.began.wait(10)
    first.end.set()
    second.end.set()
    ended(first, second)
    assert log == [f"{who} {what}" for who in ("completion", "first", "second") for what in ("began", "ended")]


@pytest.mark.parametrize("priority", [Priority.COMPLETION, Priority.CHAT])
def test_real_work_ends_pre_warming_at_once(scheduler: Scheduler, priority: Priority) -> None:
    log: list[str] = []
    running, waiting = (Work(log, name, priority=Priority.PREWARM) for name in ("running", "waiting"))
    scheduler.submit(running.job)
    assert running.began.wait(10)
    scheduler.submit(waiting.job)
    real = Work(log, "real", priority=priority)
    real.end.set()
    scheduler.submit(real.job)
    assert log.count("running preempted") == log.count("waiting preempted") == 1
    ended(real)
    assert "waiting began" not in log
    assert log.index("running ended") < log.index("real began")


def test_clients_take_turns(scheduler: Scheduler) -> None:
    log: list[str] = []
    blocker = Work(log, "blocker", client="busy")
    scheduler.submit(blocker.job)
    assert blocker.began.wait(10)
    many = [Work(log, f"busy{index}", client="busy") for index in range(3)]
    one = Work(log, "other0", client="other")
    for work in [*many, one]:
        work.end.set()
        scheduler.submit(work.job)
    blocker.end.set()
    ended(*many, one)
    assert [line for line in log if line.endswith("began")][1:] == [
        "other0 began",
        "busy0 began",
        "busy1 began",
        "busy2 began",
    ]


def test_an_interrupted_chat_can_be_cancelled(scheduler: Scheduler) -> None:
    log: list[str] = []
    chat, completion = Work(log, "chat", priority=Priority.CHAT), Work(log, "completion")
    scheduler.submit(chat.job)
    assert chat.began.wait(10)
    scheduler.submit(completion.job)
    assert completion.began.wait(10)
    scheduler.cancel(chat.job)
    assert "chat cancelled" in log
    completion.end.set()
    ended(chat)
    assert log[-1] == "chat ended"


def test_a_job_that_raises_is_told_and_the_thread_lives_on(scheduler: Scheduler) -> None:
    log: list[str] = []

    def burn(_abort: Abort) -> Iterator[None]:
        yield
        raise ZeroDivisionError

    scheduler.submit(Job(burn, log.append))
    after = Work(log, "after")
    after.end.set()
    scheduler.submit(after.job)
    ended(after)
    assert log == ["failed", "after began", "after ended"]


LONG = "".join(f"line {number}\n" for number in range(200))


def native_call_goes_on(job: Job) -> bool:
    return (ctypes.c_char * 2).from_address(job.abort.address).raw[0] == 0


@pytest.mark.parametrize(
    ("older", "newer", "goes_on"),
    [
        (("v", LONG), ("v", LONG + "x"), True),
        (("v", LONG), ("v", LONG[:-40] + "y"), True),  # typed at the end, deleted at the end
        (("v", LONG), ("w", LONG + "x"), False),  # another variant, another suffix
        (("v", LONG), ("v", LONG[300:] + "x"), False),  # the window has moved
        (("v", "short"), ("v", "short x"), False),  # little work to lose
        (None, ("v", LONG), False),
        (("v", LONG), None, False),
    ],
)
@pytest.mark.parametrize("priority", [Priority.COMPLETION, Priority.PREWARM])
def test_a_batch_that_the_next_request_needs_is_not_thrown_away(
    scheduler: Scheduler, older: Any, newer: Any, goes_on: bool, priority: Priority
) -> None:
    log: list[str] = []
    first = Work(log, "first", "k" if priority is Priority.COMPLETION else "p", prompt=older, priority=priority)
    second = Work(log, "second", "k", prompt=newer)
    scheduler.submit(first.job)
    assert first.began.wait(10)
    scheduler.submit(second.job)
    assert first.job.abort.is_set()  # it ends where it looks next, whatever the native call does
    assert native_call_goes_on(first.job) is goes_on
    second.end.set()
    ended(first, second)


def test_who_takes_a_job_back_stops_the_native_call_too(scheduler: Scheduler) -> None:
    work = Work([], "only", "k", prompt=("v", LONG))
    scheduler.submit(work.job)
    assert work.began.wait(10)
    scheduler.cancel(work.job)
    assert not native_call_goes_on(work.job)
    ended(work)
