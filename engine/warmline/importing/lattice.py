"""Finds the quantisation that dequantised values came from: groups in which each is (q - z) * s, q a whole number.

The formats of GGUF differ in how they pack q, z and s; the values alone tell them, so that one function serves all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from .weights import Floats

MAX_LEVEL: Final = 255
# The closest two values of a group may be this many steps apart at most.
_MAX_STEPS: Final = 12
# Of the largest value of the group: some float32 roundings.
_TOLERANCE: Final = 1e-6


@dataclass(frozen=True, slots=True)
class Lattice:
    """Groups of values: ``(levels - zero) * step``.

    ``levels`` has the values' shape (..., n); ``zero`` and ``step`` are (..., 1).
    """

    levels: NDArray[np.uint8]
    zero: Floats
    step: Floats


def find_lattice(groups: Floats) -> Lattice | None:
    """Find step and zero point of each group, shape (..., n); None where one group's values lie on no such lattice."""
    flat = groups.reshape(-1, groups.shape[-1]).astype(np.float64)
    low = flat.min(axis=-1, keepdims=True)
    spread = flat.max(axis=-1, keepdims=True) - low
    size = np.abs(flat).max(axis=-1, keepdims=True)
    gaps = np.diff(np.sort(flat, axis=-1), axis=-1)
    closest = np.where(gaps > size * _TOLERANCE, gaps, np.inf).min(axis=-1, keepdims=True)
    # One value alone is one step from zero.
    step = np.where(np.isinf(closest), np.where(size > 0, size, 1), closest)
    levels = np.zeros(flat.shape)
    pending = np.arange(len(flat))
    for parts in range(1, _MAX_STEPS + 1):
        part_low, part_spread = low[pending], spread[pending]
        found = np.rint((flat[pending] - part_low) / (step[pending] / parts))
        top = found.max(axis=-1, keepdims=True)
        # The whole spread tells the step more exactly than its smallest gap does.
        fine = np.where(top > 0, part_spread / np.maximum(top, 1), step[pending])
        off = np.abs(part_low + found * fine - flat[pending]).max(axis=-1, keepdims=True)
        good = ((off <= size[pending] * _TOLERANCE) & (top <= MAX_LEVEL))[:, 0]
        levels[pending[good]], step[pending[good]] = found[good], fine[good]
        pending = pending[~good]
        if not len(pending):
            shape = (*groups.shape[:-1], 1)
            zero = (-low / step).astype(np.float32).reshape(shape)
            return Lattice(levels.astype(np.uint8).reshape(groups.shape), zero, step.astype(np.float32).reshape(shape))
    return None
