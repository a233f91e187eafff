"""What an evaluation found: each figure with its interval, the paired difference, and which thresholds are met."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ..benchmark.report import Label, Machine
from ..filemodel import Digest, Model, Name
from .rows import Row
from .tasks import Kind, Metric, Threshold

Finite = Annotated[float, Field(allow_inf_nan=False)]


class Interval(Model):
    """A figure over `n` tasks, and between what it lies in 95 % of all resamples (percentile bootstrap)."""

    value: Finite
    low: Finite
    high: Finite
    n: int

    def words(self, digits: int = 3) -> str:
        """Write it as people do: ``0.152 [0.091, 0.214]``."""
        return f"{self.value:.{digits}f} [{self.low:.{digits}f}, {self.high:.{digits}f}]"


class Figure(Model):
    """One metric: of the variant, of what it is compared with, and the paired difference of the two."""

    metric: Metric
    variant: Interval
    against: Interval | None = None
    difference: Interval | None = None


class Verdict(Model):
    """One threshold, and whether it is met."""

    threshold: Threshold
    met: bool
    reason: str


class SuiteReport(Model):
    """One suite's figures. `rows` are the single answers, where they are kept."""

    name: Name
    kind: Kind
    digest: Digest
    seed: int
    tasks: int
    figures: tuple[Figure, ...]
    verdicts: tuple[Verdict, ...] = ()
    rows: tuple[Row, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether every threshold is met."""
        return all(verdict.met for verdict in self.verdicts)

    def figure(self, metric: Metric) -> Figure | None:
        """Return one metric's figure, or None."""
        return next((figure for figure in self.figures if figure.metric == metric), None)


class Report(Model):
    """What `warmline eval` prints as JSON."""

    variant: Label
    against: Label | None
    made_at: str
    machine: Machine
    suites: tuple[SuiteReport, ...]
