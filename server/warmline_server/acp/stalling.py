"""Whether a turn still gets anywhere: small models make the same call again and again, or such as tell them nothing."""

from __future__ import annotations

import json
from typing import Final

from .modes import Effect
from .plans import ToolCall

# How often the same call is made while nothing changes. A command may say something else the next time.
_TIMES: Final[dict[Effect, int]] = {"read": 1, "write": 1, "run": 3}
_MOST_REFUSED: Final = 2
_MOST_IN_VAIN: Final = 4


class Stalling:
    """Watches one turn."""

    def __init__(self) -> None:
        self._made: dict[str, int] = {}
        self._refused = 0
        self._in_vain = 0
        self._told: set[str] = set()
        self._results: dict[str, str] = {}

    @property
    def stuck(self) -> bool:
        """Whether the model had better answer now."""
        return self._refused >= _MOST_REFUSED or self._in_vain >= _MOST_IN_VAIN

    def is_again(self, call: ToolCall, effect: Effect) -> bool:
        """Tell whether a call was made before as often as makes sense; it counts as refused then."""
        again = self._made.get(_key(call), 0) >= _TIMES[effect]
        self._refused += again
        return again

    def result(self, call: ToolCall) -> str:
        """Give what a call that was made before gave."""
        return self._results[_key(call)]

    def used(self, call: ToolCall, effect: Effect, result: str, *, worked: bool) -> None:
        """Note a call that was made; one that changes something lets all others be made again.

        One that failed, or read what the model was told before, was in vain.
        """
        news = worked and (effect != "read" or result not in self._told)
        self._in_vain = 0 if news else self._in_vain + 1
        self._told.add(result)
        self._results[_key(call)] = result
        key = _key(call)
        if worked and effect != "read":
            self._made = {key: self._made.get(key, 0)}
        self._made[key] = self._made.get(key, 0) + 1


def _key(call: ToolCall) -> str:
    return f"{call.name} {json.dumps(call.arguments, sort_keys=True)}"
