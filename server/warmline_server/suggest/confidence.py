"""Weak guesses: a suggestion of which the model itself is not sure enough is hidden."""

from __future__ import annotations

#: The reason of a suggestion that is hidden for this.
WEAK = "weak"


def is_weak(mean_probability: float | None, floor: float) -> bool:
    """Tell whether a text's tokens are less probable than the floor, on average; where none is told, it is believed."""
    return mean_probability is not None and mean_probability < floor
