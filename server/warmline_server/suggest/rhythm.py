"""When to ask the model: from the rhythm in which a person types and from how long answers take.

An answer that comes before the next key is worth asking for at once. One that comes later is out of date when it
comes, and its decode was for nothing: then it is better to wait until the next key fails to come.
"""

from __future__ import annotations

from typing import Final

# Seconds; a longer pause says nothing about the rhythm, it ends it.
_PAUSE: Final = 1.0
_WEIGHT: Final = 0.2
# A key that is this much later than usual mostly does not come.
_LATE: Final = 1.25
# How much longer an answer is taken to be that was not waited for, until one is measured.
_MORE: Final = 1.5


class Rhythm:
    """One person's typing, and the engine's answers. All times in seconds, of one monotonic clock."""

    def __init__(self) -> None:
        self._last_key: float | None = None
        self._between_keys: float | None = None
        self._answer: float | None = None

    def typed(self, now: float) -> None:
        """Take note of a key."""
        if self._last_key is not None and 0 < now - self._last_key < _PAUSE:
            self._between_keys = _moved(self._between_keys, now - self._last_key)
        self._last_key = now

    def answered(self, seconds: float) -> None:
        """Take note of how long an answer took from when the model was asked."""
        self._answer = _moved(self._answer, seconds)

    def gave_up(self, seconds: float) -> None:
        """Take note of an answer that was not waited for any longer: it would have taken more than that."""
        self._answer = max(self._answer or 0.0, _MORE * seconds)

    def wait(self, now: float, longest: float) -> float:
        """Give how long to wait before the model is asked; 0 while nothing is known that speaks for waiting."""
        if self._between_keys is None or self._answer is None or self._last_key is None:
            return 0.0
        if self._answer <= self._between_keys:
            return 0.0
        since = max(now - self._last_key, 0.0)  # what the editor itself has waited already
        return max(0.0, min(_LATE * self._between_keys, longest) - since)


def _moved(mean: float | None, value: float) -> float:
    return value if mean is None else mean + _WEIGHT * (value - mean)
