"""Settings that are lists of texts, as editors and people write them: what is of use in one that is half wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def usable(value: object) -> tuple[Any, list[int]]:
    """Give what of a list of texts can be used, and at which places the rest is.

    A text alone is a list of one. An empty object is how some editors write an empty list. What is no list, or has no
    text in it although it is not empty, comes back as it is: there is nothing to go by.
    """
    if isinstance(value, str):
        return [value], []
    if isinstance(value, Mapping) and not value:
        return [], []
    if not isinstance(value, (list, tuple)):
        return value, []
    texts = [each for each in value if isinstance(each, str)]
    if value and not texts:
        return value, []
    return texts, [place for place, each in enumerate(value) if not isinstance(each, str)]
