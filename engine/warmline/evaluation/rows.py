"""One answer and its scores, as it is kept and reported."""

from __future__ import annotations

from ..filemodel import Model
from .tasks import Metric

Scores = dict[Metric, float]


class Row(Model):
    """One answer: whose (`side`), to which task, its scores, and what was shown."""

    side: str
    task: str
    scores: Scores
    text: str | None = None
    note: str = ""
