"""Bootstrap intervals of a figure, and of the paired difference between two sides of one run. Seeded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from .report import Interval

ROUNDS: Final = 4000
LEVEL: Final = 0.95
_BATCH: Final = 500


def interval(values: Sequence[float | None], seed: int, *, median: bool = False) -> Interval | None:
    """Return a figure's interval; tasks without a value (None) are no part of it. None where no task has one.

    Parameters
    ----------
    values
        One a task, in the order of the tasks.
    median
        Whether the figure is the median of the values, not their mean.
    """
    data = _array(values)[None, :]
    return _interval(data, seed, median)


def difference(
    one: Sequence[float | None], other: Sequence[float | None], seed: int, *, median: bool = False
) -> Interval | None:
    """Return the interval of `one`'s figure less `other`'s: both are resampled by the same tasks, which pairs them."""
    if len(one) != len(other):
        raise ValueError("a paired difference is over the same tasks")
    return _interval(np.stack([_array(one), _array(other)]), seed, median)


def _array(values: Sequence[float | None]) -> NDArray[np.float64]:
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def _interval(data: NDArray[np.float64], seed: int, median: bool) -> Interval | None:
    """`data` has the shape (1 or 2, tasks)."""
    present = ~np.isnan(data)
    if not data.size or not present.any(axis=1).all():
        return None
    value = _figure(data[:, None, :], median)[0]
    chance = np.random.default_rng(seed)
    found = []
    for _ in range(0, ROUNDS, _BATCH):
        picked = chance.integers(0, data.shape[1], (_BATCH, data.shape[1]))
        found.append(_figure(data[:, picked], median))
    resampled = np.concatenate(found)
    edge = (1 - LEVEL) / 2
    low, high = np.nanquantile(resampled, [edge, 1 - edge])
    return Interval(value=_plain(value), low=_plain(low), high=_plain(high), n=int(present.all(axis=0).sum()))


def _figure(data: NDArray[np.float64], median: bool) -> NDArray[np.float64]:
    """Sum up samples of shape (sides, rounds, tasks): the first side's figure, less the second's if there is one."""
    with np.errstate(all="ignore"):
        if median:
            # A resample may hold no value at all: it has no figure, and does not count.
            empty = np.asarray(np.isnan(data).all(axis=2, keepdims=True))
            figures = np.nanmedian(np.where(empty, 0.0, data), axis=2)
            empty = empty.squeeze(2)
            figures = np.where(empty, np.nan, figures)
        else:
            figures = np.nansum(data, axis=2) / (~np.isnan(data)).sum(axis=2)
    found: NDArray[np.float64] = figures[0] - figures[1] if len(figures) == 2 else figures[0]
    return found


def _plain(value: np.float64) -> float:
    return round(float(value), 6)
