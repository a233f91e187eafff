"""One question at a time for each document: the latest wins, equal ones share an answer, the last to leave stops it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from functools import partial
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class LatestWins(Generic[T]):
    """The running work of each document. Bound to one asyncio loop."""

    def __init__(self) -> None:
        self._running: dict[str, _Run[T]] = {}

    async def ask(self, document: str, key: Hashable, start: Callable[[], Coroutine[Any, Any, T]]) -> T | None:
        """Wait for an answer about a document.

        Parameters
        ----------
        key
            What is asked. Work that runs for an equal key is joined; work for another key is stopped.
        start
            Makes the work, if it has to be begun.

        Returns
        -------
        T or None
            None when another question about the document took this one's place. It is given at once, without waiting
            for the stopped work to clean up: a backend that hangs must not hold up the answer.
        """
        run = self._running.get(document)
        if run is None or run.key != key:
            if run is not None:
                run.stop()
            run = _Run(key, start())
            self._running[document] = run
            run.answer.add_done_callback(partial(self._forget, document, run))
        return await run.join()

    def stop(self, document: str) -> None:
        """Stop the work for a document; whoever waits for it gets None."""
        run = self._running.get(document)
        if run is not None:
            run.stop()

    def stop_all(self) -> None:
        """Stop everything, as `stop`."""
        for run in list(self._running.values()):
            run.stop()

    def _forget(self, document: str, run: _Run[T], _: object) -> None:
        # Only ever its own place: a successor may have it by now.
        if self._running.get(document) is run:
            del self._running[document]


class _Run(Generic[T]):
    """One piece of work and those who wait for it."""

    def __init__(self, key: Hashable, work: Coroutine[Any, Any, T]) -> None:
        self.key = key
        self.answer: asyncio.Future[T | None] = asyncio.get_running_loop().create_future()
        self._waiting = 0
        self._task = asyncio.ensure_future(work)
        self._task.add_done_callback(self._finished)

    async def join(self) -> T | None:
        self._waiting += 1
        try:
            return await asyncio.shield(self.answer)
        except asyncio.CancelledError:
            if self._waiting == 1:
                self.stop()
            raise
        finally:
            self._waiting -= 1

    def stop(self) -> None:
        if not self.answer.done():
            self.answer.set_result(None)
        self.key = object()  # equal to no question: nobody joins work that is being stopped
        self._task.cancel()

    def _finished(self, task: asyncio.Task[T]) -> None:
        error = None if task.cancelled() else task.exception()
        if self.answer.done():
            return
        if task.cancelled():
            self.answer.set_result(None)
        elif error is not None:
            self.answer.set_exception(error)
        else:
            self.answer.set_result(task.result())
