"""What an evaluation found: each figure with its interval, the paired difference, and which thresholds are met."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..backends.base import default_threads
from ..benchmark.report import AdapterLabel, Label, Machine
from ..filemodel import Digest, Model, Name
from ..host.wire import VariantStatus
from .intervals import Interval, difference, interval
from .metrics import LESS_IS_BETTER
from .partial import Row
from .reading import Suite
from .run import AGAINST, VARIANT
from .tasks import Kind, Metric, Threshold


def label_of(status: VariantStatus, name: str | None = None) -> Label:
    """Label what was verified; `name` in place of its own."""
    adapters = tuple(
        AdapterLabel(name=each.name, digest=each.digest, scale=each.scale, effective_scale=each.effective_scale)
        for each in status.adapters
    )
    return Label(
        name=name or status.variant,
        kind="dynamic" if adapters else "merged" if status.base.merged_from else "base",
        identity=status.identity,
        base=status.base.name,
        base_digest=status.base.digest,
        merged_from=status.base.merged_from,
        adapters=adapters,
        backend=status.backend.name,
        backend_version=status.backend.version,
        threads=default_threads(),
        n_ctx=status.context.n_ctx,
    )


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


def summarise(suite: Suite, rows: Sequence[Row], *, has_adapters: bool) -> SuiteReport:
    """Sum up the rows of one suite.

    Parameters
    ----------
    has_adapters
        Whether the variant is something else than its base: only then is it held to thresholds over the base.
    """
    sides = {row.side for row in rows}
    by_task = {(row.side, row.task): row for row in rows}
    metrics = list(dict.fromkeys(metric for row in rows for metric in row.scores))
    figures = []
    for metric in metrics:
        median = metric in LESS_IS_BETTER
        mine = [by_task[VARIANT, task.id].scores.get(metric) for task in suite.tasks]
        found = interval(mine, suite.header.seed, median=median)
        if found is None:
            continue
        against = paired = None
        if AGAINST in sides:
            theirs = [by_task[AGAINST, task.id].scores.get(metric) for task in suite.tasks]
            against = interval(theirs, suite.header.seed, median=median)
            paired = difference(mine, theirs, suite.header.seed, median=median)
        figures.append(Figure(metric=metric, variant=found, against=against, difference=paired))
    asked = [each for each in suite.header.thresholds if has_adapters or each.over_base is None]
    return SuiteReport(
        name=suite.header.name,
        kind=suite.header.kind,
        digest=suite.digest,
        seed=suite.header.seed,
        tasks=len(suite.tasks),
        figures=tuple(figures),
        verdicts=tuple(_verdict(each, figures) for each in asked),
        rows=tuple(rows),
    )


def _verdict(threshold: Threshold, figures: Iterable[Figure]) -> Verdict:
    figure = next((each for each in figures if each.metric == threshold.metric), None)
    if figure is None:
        return Verdict(threshold=threshold, met=False, reason=f"{threshold.words()}: there is no such figure")
    if threshold.over_base is not None:
        if figure.difference is None:
            return Verdict(threshold=threshold, met=False, reason=f"{threshold.words()}: there is nothing to compare")
        met = figure.difference.low > threshold.over_base
        found = f"the difference is {figure.difference.words()}"
    elif threshold.at_least is not None:
        met, found = figure.variant.value >= threshold.at_least, f"it is {figure.variant.value:.3f}"
    else:
        assert threshold.at_most is not None  # a threshold has one limit
        met, found = figure.variant.value <= threshold.at_most, f"it is {figure.variant.value:.3f}"
    return Verdict(threshold=threshold, met=met, reason=f"{threshold.words()}: {found}")


class Report(Model):
    """What `warmline eval` prints as JSON."""

    variant: Label
    against: Label | None
    made_at: str
    machine: Machine
    suites: tuple[SuiteReport, ...]
