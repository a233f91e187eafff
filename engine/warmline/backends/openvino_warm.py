"""Which OpenVINO pipelines stay in memory: as many as a budget holds, those that were used last."""

from __future__ import annotations

import gc
import logging
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol

from ..memory import give_back, resident_bytes

_MIB: Final = 1 << 20
_log = logging.getLogger(__name__)


class Holder(Protocol):
    """Whoever has a pipeline, and can do without it for a while."""

    def let_go(self) -> None:
        """Free the pipeline."""


@dataclass(frozen=True, slots=True)
class Taken:
    """What a pipeline takes.

    Parameters
    ----------
    nbytes
        By how much the process grew while the pipeline was made, and never less than what its weights and its KV must
        take: KV gets its memory as it fills, and some of what was freed before may have been used again.
    measured
        Whether it is the growth that counts; else weights and KV.
    """

    nbytes: int
    measured: bool


class WarmPipelines:
    """Pipelines in memory; the one that was used longest ago leaves first, whoever it belongs to.

    Parameters
    ----------
    most
        So many at most.
    budget
        Bytes that they may take together, or None for no limit; the one that is needed now stays whatever it takes.
        What one takes is known only once it is there: until then its weights and KV count.
    resident
        Gives the bytes that this process has; 0 where that is not known.
    """

    def __init__(self, most: int, budget: int | None = None, *, resident: Callable[[], int] = resident_bytes) -> None:
        self._most = most
        self._budget = budget
        self._resident = resident
        self._held: OrderedDict[int, tuple[Holder, Taken]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._held)

    @property
    def taken(self) -> list[Taken]:
        """What each of them takes; the one that was used longest ago first."""
        return [taken for _, taken in self._held.values()]

    def make(self, holder: Holder, make: Callable[[], Any], least: int) -> Any:
        """Make room, then a pipeline for `holder`, whose weights and KV take `least` bytes."""
        self.make_room(least)
        before = self._resident()
        made = make()
        grown = self._resident() - before
        taken = Taken(max(grown, least), measured=grown >= least)
        self._held[id(holder)] = holder, taken
        how = "measured" if taken.measured else "weights and KV"
        _log.info("a pipeline takes %d MiB (%s); %d are warm", taken.nbytes // _MIB, how, len(self))
        while len(self) > 1 and self._over(0):
            self._close_oldest()
        return made

    def make_room(self, least: int = 0) -> None:
        """Free pipelines until one more may be made, of so many bytes."""
        while self._held and (len(self) >= self._most or self._over(least)):
            self._close_oldest()

    def used(self, holder: Holder) -> None:
        """Count a pipeline as used now."""
        self._held.move_to_end(id(holder))

    def forget(self, holder: Holder) -> None:
        """Forget a holder that has let go."""
        if self._held.pop(id(holder), None) is not None:
            free_memory()

    def _over(self, more: int) -> bool:
        return self._budget is not None and sum(taken.nbytes for taken in self.taken) + more > self._budget

    def _close_oldest(self) -> None:
        _, (oldest, _) = self._held.popitem(last=False)
        oldest.let_go()
        free_memory()


def free_memory() -> None:
    """Give memory of pipelines that were let go back to the system."""
    gc.collect()
    give_back()
