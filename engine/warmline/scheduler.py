"""Who runs next on the engine: one job at a time, the latest of each (client, document) wins."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Hashable
from typing import Final

from .backends.base import Abort

CANCELLED: Final = "cancelled"
SUPERSEDED: Final = "superseded"
STOPPING: Final = "stopping"


class Job:
    """One piece of work for the engine's thread.

    Parameters
    ----------
    run
        Does the work; it polls the abort it is given and never raises.
    dropped
        Called at once, from the caller's thread, with the reason when the job is superseded, cancelled or refused,
        whether or not it has begun.
    key
        Jobs with the same key supersede each other; None for work that nothing supersedes.
    """

    def __init__(self, run: Callable[[Abort], None], dropped: Callable[[str], None], key: Hashable = None) -> None:
        self.run = run
        self.dropped = dropped
        self.key = key
        self.abort = Abort()

    def drop(self, reason: str) -> None:
        """Stop the job, running or not, and say so once."""
        if not self.abort.is_set():
            self.abort.set(reason)
            self.dropped(reason)


class Scheduler:
    """One thread that runs jobs in the order they came; all native code runs there."""

    def __init__(self) -> None:
        self._queue: deque[Job] = deque()
        self._running: Job | None = None
        self._wake = threading.Condition()
        self._stopping = False
        self._thread = threading.Thread(target=self._loop, name="warmline-engine", daemon=True)
        self._thread.start()

    def submit(self, job: Job) -> None:
        """Queue a job; an older one with its key is told that it is superseded, and stops within one token."""
        dropped: list[tuple[Job, str]] = []
        with self._wake:
            if self._stopping:
                dropped.append((job, STOPPING))
            else:
                if job.key is not None:
                    dropped += [(other, SUPERSEDED) for other in self._queue if other.key == job.key]
                    self._queue = deque(other for other in self._queue if other.key != job.key)
                    if self._running is not None and self._running.key == job.key:
                        dropped.append((self._running, SUPERSEDED))
                self._queue.append(job)
                self._wake.notify()
        for other, reason in dropped:
            other.drop(reason)

    def cancel(self, job: Job) -> None:
        """Take a job back: it leaves the queue, or stops within one token."""
        with self._wake:
            if job in self._queue:
                self._queue.remove(job)
        job.drop(CANCELLED)

    @property
    def idle(self) -> bool:
        """Whether nothing runs and nothing waits."""
        with self._wake:
            return self._running is None and not self._queue

    def close(self) -> None:
        """Drop all jobs and end the thread, after the running one has stopped. Idempotent."""
        with self._wake:
            self._stopping = True
            dropped = [*self._queue, *([self._running] if self._running else [])]
            self._queue.clear()
            self._wake.notify()
        for job in dropped:
            job.drop(STOPPING)
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _loop(self) -> None:
        while True:
            with self._wake:
                self._running = None
                while not self._queue and not self._stopping:
                    self._wake.wait()
                if self._stopping:
                    return
                job = self._running = self._queue.popleft()
            if not job.abort.is_set():
                job.run(job.abort)
