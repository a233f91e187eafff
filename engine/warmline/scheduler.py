"""Who runs next on the engine: one job at a time, completions before chats before pre-warming, the latest wins.

A job is a generator on the engine's one thread; it yields where it may be interrupted (between two tokens, between two
batches of a prefill). A job of a lower class waits there while one of a higher class runs, and goes on afterwards.
Pre-warming is not worth waiting for: real work ends it at once. Within a class the client that was served longest ago
comes first.
"""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Callable, Generator, Hashable
from enum import IntEnum
from typing import Final

from .backends.base import Abort

CANCELLED: Final = "cancelled"
SUPERSEDED: Final = "superseded"
PREEMPTED: Final = "preempted"
STOPPING: Final = "stopping"
FAILED: Final = "failed"

# Characters at a prompt's end that two requests of one typist may differ in.
_TYPED_LAST: Final = 256

_log = logging.getLogger(__name__)

Work = Generator[None, None, None]


class Priority(IntEnum):
    """Classes of work, most urgent first."""

    COMPLETION = 0
    CHAT = 1
    PREWARM = 2


class Job:
    """One piece of work for the engine's thread.

    Parameters
    ----------
    work
        Makes the generator that does the work; it polls the abort it is given and never raises.
    dropped
        Called at once, from the caller's thread, with the reason when the job is superseded, cancelled or refused,
        whether or not it has begun.
    key
        Jobs with the same key supersede each other; None for work that nothing supersedes.
    client
        Who asked, for fairness.
    prompt
        What the prompt is made of: all that has to be equal for KV to be shared, and the text that grows at its end.
    """

    def __init__(
        self,
        work: Callable[[Abort], Work],
        dropped: Callable[[str], None],
        key: Hashable = None,
        *,
        client: str = "",
        priority: Priority = Priority.COMPLETION,
        prompt: tuple[Hashable, str] | None = None,
    ) -> None:
        self.dropped = dropped
        self.prompt = prompt
        self.key = key
        self.client = client
        self.priority = priority
        self.abort = Abort()
        self._work = work
        self._steps: Work | None = None

    def step(self) -> bool:
        """Run to the next point where the job may be interrupted; tell whether there is more to do."""
        if self._steps is None:
            if self.abort.is_set():
                return False
            self._steps = self._work(self.abort)
        return next(self._steps, _END) is not _END

    def drop(self, reason: str, successor: Job | None = None) -> None:
        """Stop the job, running or not, and say so once.

        A native call under way is stopped inside, unless it works for a prompt that the successor shares: a batch of a
        long prefill that was thrown away at each keystroke would never get done.
        """
        if not self.abort.is_set():
            self.abort.set(reason, after_call=successor is not None and successor.shares(self))
            self.dropped(reason)

    def shares(self, other: Job) -> bool:
        """Tell whether this job's prompt begins as the other's does, but for what was typed last."""
        if self.prompt is None or other.prompt is None or self.prompt[0] != other.prompt[0]:
            return False
        settled = len(other.prompt[1]) - _TYPED_LAST
        return settled > 0 and self.prompt[1].startswith(other.prompt[1][:settled])


_END: Final = object()


class Scheduler:
    """One thread that runs all jobs; all native code runs there."""

    def __init__(self) -> None:
        self._waiting: list[Job] = []
        self._suspended: list[Job] = []
        self._running: Job | None = None
        self._served: dict[str, int] = {}
        self._turns = itertools.count()
        self._wake = threading.Condition()
        self._stopping = False
        self.preemptions = 0
        self._thread = threading.Thread(target=self._loop, name="warmline-engine", daemon=True)
        self._thread.start()

    def submit(self, job: Job) -> None:
        """Queue a job; an older one with its key is told that it is superseded, and stops within one token."""
        dropped: list[tuple[Job, str]] = []
        with self._wake:
            if self._stopping:
                dropped.append((job, STOPPING))
            else:
                for other in self._all():
                    if job.key is not None and other.key == job.key:
                        dropped.append((other, SUPERSEDED))
                    elif other.priority is Priority.PREWARM and job.priority is not Priority.PREWARM:
                        dropped.append((other, PREEMPTED))
                gone = {id(other) for other, _ in dropped}
                self._waiting = [other for other in self._waiting if id(other) not in gone]
                self._waiting.append(job)
                self._wake.notify()
        for other, reason in dropped:
            other.drop(reason, job)

    def cancel(self, job: Job) -> None:
        """Take a job back: it leaves the queue, or stops within one token."""
        with self._wake:
            if job in self._waiting:
                self._waiting.remove(job)
        job.drop(CANCELLED)

    @property
    def idle(self) -> bool:
        """Whether nothing runs and nothing waits."""
        with self._wake:
            return not self._all()

    @property
    def queued(self) -> int:
        """Jobs that wait, suspended ones included."""
        with self._wake:
            return len(self._waiting) + len(self._suspended)

    def close(self) -> None:
        """Drop all jobs and end the thread, after the running one has stopped. Idempotent."""
        with self._wake:
            self._stopping = True
            dropped = self._all()
            self._waiting.clear()
            self._wake.notify()
        for job in dropped:
            job.drop(STOPPING)
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _all(self) -> list[Job]:
        return [*self._waiting, *self._suspended, *([self._running] if self._running else [])]

    def _loop(self) -> None:
        job: Job | None = None
        while True:
            if job is None or self._waiting:  # else it goes on, which is so after nearly each token
                with self._wake:
                    job = self._next(job)
                    while job is None and not self._stopping:
                        self._wake.wait()
                        job = self._next(None)
                    self._running = job
            if job is None:
                return
            try:
                more = job.step()
            except Exception:  # a job that breaks its promise must not take the thread, and with it all others, along
                _log.exception("a job failed outside of its own error handling")
                job.drop(FAILED)
                more = False
            if not more:
                job = None

    def _next(self, current: Job | None) -> Job | None:
        """Choose what runs now: the current job, one that was suspended, or one that waits and is more urgent."""
        if current is None and self._suspended:
            current = self._suspended.pop()
        if current is not None and current.abort.is_set():
            return current  # it has only to clean up, and nothing is to wait for that
        rival = min(self._waiting, key=self._rank, default=None)
        if rival is None or (current is not None and current.priority <= rival.priority):
            return current
        self._waiting.remove(rival)
        if current is not None:
            self._suspended.append(current)
            self.preemptions += 1
        self._served[rival.client] = next(self._turns)
        return rival

    def _rank(self, job: Job) -> tuple[int, int]:
        # min() keeps the first of equals, so one client's jobs stay in the order they came.
        return job.priority, self._served.get(job.client, -1)
