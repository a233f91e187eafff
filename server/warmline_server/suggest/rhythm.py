"""When to ask the model: from the rhythm in which a person types and from how long answers take.

An answer that comes before the next key is worth asking for at once. One that comes later is out of date when it
comes, and its decode was for nothing: then it is better to wait until the next key fails to come. What counts is how
soon the next key comes where nothing is suggested yet: who types a suggestion along is quicker, and needs no answer.
"""

from __future__ import annotations

from collections import deque
from statistics import median_low
from typing import Final

# Seconds; a longer pause says nothing about the rhythm, it ends it.
_PAUSE: Final = 1.0
_WEIGHT: Final = 0.2
# A key that is this much later than usual mostly does not come.
_LATE: Final = 1.25
# The median of so many answers is the usual one: the first of a document can take a hundred times as long as the next.
_ANSWERS: Final = 5
# How much longer an answer is taken to be that was not waited for, until one is measured.
_MORE: Final = 1.5


class Rhythm:
    """One person's typing, and the engine's answers. All times in seconds, of one monotonic clock."""

    def __init__(self) -> None:
        self._last_key: float | None = None
        self._needless = False  # whether an answer to the last key was there already
        self._between_keys: float | None = None
        self._answers: deque[float] = deque(maxlen=_ANSWERS)

    def typed(self, now: float) -> None:
        """Take note of a key."""
        if self._last_key is not None and not self._needless and 0 < now - self._last_key < _PAUSE:
            self._between_keys = _moved(self._between_keys, now - self._last_key)
        self._last_key, self._needless = now, False

    def had_one(self) -> None:
        """Take note that what to suggest after the last key was there already."""
        self._needless = True

    def answered(self, seconds: float) -> None:
        """Take note of how long an answer took from when the model was asked."""
        self._answers.append(seconds)

    def gave_up(self, seconds: float) -> None:
        """Take note of an answer that was not waited for any longer: it would have taken more than that."""
        self._answers.append(max(_MORE * seconds, self._usual_answer or 0.0))

    @property
    def _usual_answer(self) -> float | None:
        return median_low(self._answers) if self._answers else None

    def wait(self, now: float, longest: float) -> float:
        """Give how long to wait before the model is asked; 0 while nothing is known that speaks for waiting."""
        answer = self._usual_answer
        if self._between_keys is None or answer is None or self._last_key is None:
            return 0.0
        if answer <= self._between_keys:
            return 0.0
        since = max(now - self._last_key, 0.0)  # what the editor itself has waited already
        return max(0.0, min(_LATE * self._between_keys, longest) - since)


def _moved(mean: float | None, value: float) -> float:
    return value if mean is None else mean + _WEIGHT * (value - mean)
