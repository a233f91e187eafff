"""Running suites for a command: both sides on an engine of the command's own, a bar, and what an interrupt leaves."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from warmline.benchmark.machine import describe
from warmline.evaluation.partial import Partial
from warmline.evaluation.reading import Suite
from warmline.evaluation.report import Report, SuiteReport
from warmline.evaluation.run import AGAINST, VARIANT, Side, Tester, measure
from warmline.evaluation.summary import label_of, summarise
from warmline.evaluation.tasks import Infill
from warmline.host.wire import VariantStatus
from warmline.store import changes
from warmline.variant import ResolvedVariant

from .output import Output, cell

if TYPE_CHECKING:
    from warmline.evaluation.report import Figure
    from warmline.host.client import EngineClient

FOLDER = ("evaluation", "partial")


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be evaluated, and how.

    Attributes
    ----------
    against
        What it is compared with; None for nothing.
    run_code
        Whether code that a model wrote may run, in the sandbox.
    fresh
        Whether what an interrupted run left is thrown away.
    """

    variant: ResolvedVariant
    against: ResolvedVariant | None
    suites: tuple[Suite, ...]
    run_code: bool = False
    fresh: bool = False


async def evaluate(output: Output, home: Path, plan: Plan) -> tuple[Report, VariantStatus, list[Partial]]:
    """Run all suites; give the report, the variant as it was verified, and the partial results, to be removed.

    Raises
    ------
    WarmlineError
        A variant cannot be loaded, or as `measure`.
    """
    output.guard()
    from warmline.evaluation.cold import ColdPool
    from warmline.host.local import LocalEngine

    machine = describe()
    engine = LocalEngine(home, pool=ColdPool())
    try:
        sides = {VARIANT: plan.variant} | ({AGAINST: plan.against} if plan.against is not None else {})
        statuses = {}
        for name, variant in sides.items():
            with output.working(f"Loading {variant.name}"):
                statuses[name] = await engine.load(variant)
        reports, partials = [], []
        for suite in plan.suites:
            partial = Partial(home.joinpath(*FOLDER), _subject(suite, plan, statuses))
            partials.append(partial)
            reports.append(await _one(output, engine, suite, sides, statuses, partial, plan))
    finally:
        await engine.close()
    against = statuses.get(AGAINST)
    report = Report(
        variant=label_of(statuses[VARIANT]),
        against=label_of(against) if against is not None else None,
        made_at=changes.now(),
        machine=machine,
        suites=tuple(reports),
    )
    return report, statuses[VARIANT], partials


async def _one(
    output: Output,
    engine: EngineClient,
    suite: Suite,
    sides: dict[str, ResolvedVariant],
    statuses: dict[str, VariantStatus],
    partial: Partial,
    plan: Plan,
) -> SuiteReport:
    from warmline_server.answering import Answerer

    with partial.open(fresh=plan.fresh):
        if partial.rows:
            output.note(
                cell(f"{suite.header.name}: {len(partial.rows)} answers are there from an interrupted run", "dim")
            )
        asked: dict[str, Side] = {
            name: Answerer(engine, variant, statuses[name].identity, suite.header) for name, variant in sides.items()
        }
        with _kept(output, partial), _bar(output, suite.header.name) as progress:
            rows = await measure(
                suite, asked, partial, tester=_tester(suite) if plan.run_code else None, progress=progress
            )
    return summarise(suite, rows, has_adapters=bool(plan.variant.adapters))


def _subject(suite: Suite, plan: Plan, statuses: dict[str, VariantStatus]) -> dict[str, object]:
    """Say all that the answers depend on."""
    variants = {VARIANT: plan.variant, AGAINST: plan.against}
    return {
        "suite": suite.digest,
        "seed": suite.header.seed,
        "machine": describe().model_dump(mode="json", include={"cpu", "warmline", "python"}),
        "sides": {
            name: [status.identity, variant.profile.model_dump(mode="json", exclude={"claims"})]
            for name, status in statuses.items()
            if (variant := variants[name]) is not None
        },
    }


def _tester(suite: Suite) -> Tester | None:
    if not any(isinstance(task, Infill) for task in suite.tasks):
        return None
    from warmline.evaluation.sandbox import passes

    def tested(task: Infill, text: str) -> tuple[bool, str]:
        verdict = passes(task.before + text + task.after, task.reference, task.test, task.entry_point)
        return verdict.passed, verdict.reason

    return tested


@contextlib.contextmanager
def _kept(output: Output, partial: Partial) -> Iterator[None]:
    """Say what an interrupt leaves: the answers so far, from which the same command goes on."""
    import asyncio

    try:
        yield
    except (KeyboardInterrupt, asyncio.CancelledError):
        output.note(cell(f"Interrupted: {len(partial.rows)} answers are kept; the same command goes on from there."))
        raise


@contextlib.contextmanager
def _bar(output: Output, what: str) -> Iterator[Callable[[int, int], None]]:
    """Show on stderr how many answers are there; silent with JSON and where no person looks."""
    if output.as_json or not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(file=sys.stderr), transient=True) as progress:
        task = progress.add_task(cell(what).plain, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


def show(output: Output, report: Report) -> None:
    """Print a report for people."""
    from . import tables

    mine, theirs = report.variant, report.against
    for label in (mine, theirs):
        if label is not None:
            parts = " + ".join(f"{each.name}@{each.scale} {each.digest[7:19]}" for each in label.adapters)
            made_of = f"{label.base} {label.base_digest[7:19]}" + (f" -> {parts}" if parts else "")
            what = f"{label.name} ({label.kind}) {label.identity[7:19]}"
            output.text(f"{what}: {made_of}, {label.backend} {label.backend_version}")
    for suite in report.suites:
        output.text("")
        output.text(f"{suite.name} ({suite.kind}), {suite.tasks} tasks, seed {suite.seed}, {suite.digest[7:19]}")
        headers = ["metric", mine.name, *([theirs.name, "difference"] if theirs is not None else [])]
        tables.rows(output, headers, [_cells(figure, theirs is not None) for figure in suite.figures])
        for verdict in suite.verdicts:
            output.text(f"{'met' if verdict.met else 'NOT met'}: {verdict.reason}")
    output.text("")
    where = report.machine
    output.note(cell(f"95 % bootstrap intervals; {where.cpu}, {where.logical_cores} cores, {report.made_at}", "dim"))


def _cells(figure: Figure, compared: bool) -> list[str | tuple[str, str]]:
    digits = 0 if figure.metric == "latency_ms" else 3
    found: Sequence[str | tuple[str, str]] = [figure.metric, figure.variant.words(digits)]
    if not compared:
        return list(found)
    gap = figure.difference
    style = "" if gap is None or gap.low <= 0 <= gap.high else "bold"
    return [
        *found,
        figure.against.words(digits) if figure.against is not None else "",
        (gap.words(digits) if gap is not None else "", style),
    ]
