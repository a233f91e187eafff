"""How much of a prompt is already there: the longest common prefix of two token lists."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count


def common_prefix(a: Sequence[int], b: Sequence[int]) -> int:
    """Return the number of leading tokens that `a` and `b` share."""
    end = min(len(a), len(b))
    if list(a[:end]) == list(b[:end]):
        return end
    low = 0
    # Compare in halves of growing places: slices compare in C, a loop over thousands of tokens would not.
    step = 256
    for start in count(0, step):
        if a[start : start + step] != b[start : start + step]:
            low = start
            break
    return next((i for i in range(low, end) if a[i] != b[i]), end)
