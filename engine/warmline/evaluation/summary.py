"""Summing up: rows become figures with intervals, and figures are held against thresholds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..backends.base import default_threads
from ..benchmark.report import AdapterLabel, Label
from ..host.wire import VariantStatus
from .intervals import difference, interval
from .metrics import LESS_IS_BETTER
from .reading import Suite
from .report import Figure, SuiteReport, Verdict
from .rows import Row
from .run import AGAINST, VARIANT
from .tasks import Threshold


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
