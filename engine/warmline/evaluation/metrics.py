"""Answers against what was wanted: one number a metric and task."""

from __future__ import annotations

import difflib
from typing import Final

from .rows import Scores
from .tasks import Metric

#: Metrics of which less is better; they are summed up by their median, the others by their mean.
LESS_IS_BETTER: Final[frozenset[Metric]] = frozenset({"latency_ms"})


def first_line(text: str) -> str:
    """Return a text's first line without white space behind it."""
    return text.split("\n", 1)[0].rstrip()


def compare(text: str | None, wanted: str) -> Scores:
    """Score a suggestion against what stood there.

    `first_line_exact`: 1 where the first line is exactly what stood there; `edit_similarity`: difflib's ratio of the
    two first lines; `kept_rate`: the share of the suggestion's characters that a person would keep, from its start up
    to the first that is not what stood there, absent where nothing was shown; `shown`: 1 where something was.
    """
    if not text:
        return {"first_line_exact": 0.0, "edit_similarity": 0.0, "shown": 0.0}
    mine, theirs = first_line(text), first_line(wanted)
    differs = next((at for at, (a, b) in enumerate(zip(text, wanted, strict=False)) if a != b), None)
    kept = min(len(text), len(wanted)) if differs is None else differs
    return {
        "first_line_exact": float(mine == theirs),
        "edit_similarity": difflib.SequenceMatcher(None, mine, theirs, autojunk=False).ratio(),
        "kept_rate": kept / len(text),
        "shown": 1.0,
    }
