"""One question at a time for each document: the latest wins, equal ones share an answer, the last to leave stops it.

Work that a later question can still use is not stopped but taken over: a person who types what is just being decoded
gets the rest of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from functools import partial
from typing import Any, Final, Generic, TypeVar

T = TypeVar("T")

#: Seconds that work goes on after the last who waited has left. An editor that cancels what it asked before the key
#: sends its next question some milliseconds later, and that may want this very work.
GRACE: Final = 0.1


class LatestWins(Generic[T]):
    """The running work of each document. Bound to one asyncio loop.

    Parameters
    ----------
    grace
        Seconds that work goes on with nobody waiting for it.
    """

    def __init__(self, grace: float = GRACE) -> None:
        self._running: dict[str, _Run[T]] = {}
        self._grace = grace

    async def ask(
        self,
        document: str,
        key: Hashable,
        start: Callable[[], Coroutine[Any, Any, T]],
        serves: Callable[[], bool] = lambda: False,
    ) -> T | None:
        """Wait for an answer about a document.

        Parameters
        ----------
        key
            What is asked. Work that runs for an equal key is joined; other work is taken over if it `serves`, else it
            is stopped. Either way those who waited for it get None.
        start
            Makes the work, if it has to be begun.
        serves
            Tells whether the work that runs can answer this question too. Asked again at each `progressed`: when it
            says no, the work is stopped and begun anew.

        Returns
        -------
        T or None
            What the work came to, also where it was begun for another question. None when another question about the
            document took this one's place. It is given at once, without waiting for the stopped work to clean up: a
            backend that hangs must not hold up the answer.
        """
        while True:
            run = self._running.get(document)
            if run is None or run.over.done() or (run.key != key and not serves()):
                if run is not None:
                    run.stop()
                run = _Run(key, start(), self._grace)
                self._running[document] = run
                run.over.add_done_callback(partial(self._forget, document, run))
                answered, answer = await run.join(None)
            elif run.key == key:
                answered, answer = await run.join(run.condition)
            else:
                run.take_over(key, serves)
                answered, answer = await run.join(serves)
            if answered:
                return answer

    def progressed(self, document: str) -> None:
        """The work for a document has come further: whoever took it over looks whether it still serves."""
        run = self._running.get(document)
        if run is not None:
            run.look()

    def answer(self, document: str, answer: T) -> None:
        """Give those who wait for a document's work an answer before its end; who joins from here on gets the rest."""
        run = self._running.get(document)
        if run is not None and not run.over.done():
            run.release(True, answer)

    async def finished(self, document: str) -> None:
        """Wait until no work for a document runs."""
        while (run := self._running.get(document)) is not None and not run.over.done():
            await asyncio.shield(run.over)

    def stop(self, document: str, unless: Hashable = None) -> None:
        """Stop the work for a document, `unless` it is for that question; whoever waits for it gets None."""
        run = self._running.get(document)
        if run is not None and (unless is None or run.key != unless):
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
    """One piece of work and those who wait for it.

    `over` is done when nobody can get an answer of it any more. `condition` is what those who wait made of their
    waiting, None for the question that it was begun for.
    """

    def __init__(self, key: Hashable, work: Coroutine[Any, Any, T], grace: float) -> None:
        self.key = key
        self.condition: Callable[[], bool] | None = None
        loop = asyncio.get_running_loop()
        self.over: asyncio.Future[None] = loop.create_future()
        self._waiting: set[asyncio.Future[tuple[bool, T | None]]] = set()
        self._grace = grace
        self._leaving: asyncio.TimerHandle | None = None
        self._task = asyncio.ensure_future(work)
        self._task.add_done_callback(self._finished)

    async def join(self, condition: Callable[[], bool] | None) -> tuple[bool, T | None]:
        """Wait; False first when the work turned out not to serve."""
        self.condition = condition
        if self._leaving is not None:
            self._leaving.cancel()
            self._leaving = None
        place: asyncio.Future[tuple[bool, T | None]] = asyncio.get_running_loop().create_future()
        self._waiting.add(place)
        try:
            return await place
        except asyncio.CancelledError:
            if self._waiting == {place}:
                self._leave()
            raise
        finally:
            self._waiting.discard(place)

    def take_over(self, key: Hashable, condition: Callable[[], bool]) -> None:
        """The work is for another question from here on; who waited for it gets None."""
        self.release(True)
        self.key, self.condition = key, condition

    def look(self) -> None:
        if self.condition is not None and not self.condition():
            self._end()
            self.release(False)

    def stop(self) -> None:
        self._end()
        self.release(True)

    def _leave(self) -> None:
        if self._grace > 0:
            self._leaving = asyncio.get_running_loop().call_later(self._grace, self.stop)
        else:
            self.stop()

    def _end(self) -> None:
        # Once: a second cancellation would hit the work while it cleans up.
        if not self.over.done():
            self.over.set_result(None)
            self._task.cancel()

    def release(self, answered: bool, answer: T | None = None) -> None:
        """Let go who waits."""
        for place in self._waiting:
            if not place.done():
                place.set_result((answered, answer))
        self._waiting.clear()

    def _finished(self, task: asyncio.Task[T]) -> None:
        if self._leaving is not None:
            self._leaving.cancel()
        error = None if task.cancelled() else task.exception()
        if not self.over.done():
            self.over.set_result(None)
        if error is not None:
            for place in self._waiting:
                if not place.done():
                    place.set_exception(error)
            self._waiting.clear()
        else:
            self.release(True, None if task.cancelled() else task.result())
