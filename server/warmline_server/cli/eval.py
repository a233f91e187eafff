"""`warmline eval`: what a variant is worth on suites of tasks, beside its base."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .options import Json, variant_names
from .output import Output, cell

if TYPE_CHECKING:
    from warmline.variant import ResolvedVariant

    from .evaluating import Plan

BASE, PREFIX_ONLY, NOTHING = "base", "prefix-only", "nothing"


def command(
    variant: Annotated[str, typer.Argument(help="Its name, or backend/name.", autocompletion=variant_names)],
    suite: Annotated[
        list[str] | None,
        typer.Option("--suite", metavar="NAME|FILE", help="One that comes with Warmline, or a .jsonl; repeatable."),
    ] = None,
    folder: Annotated[Path | None, typer.Option(help="The code that `holes` are cut from.")] = None,
    against: Annotated[
        str,
        typer.Option(help="What it is compared with: base, prefix-only (itself without the suffix), nothing, or NAME."),
    ] = BASE,
    count: Annotated[int | None, typer.Option(min=1, max=10_000, help="How many tasks.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, max=2**32 - 1, help="In place of the suite's.")] = None,
    run_code: Annotated[
        bool, typer.Option("--run-code", help="Let code that the model wrote run, in a sandbox (humaneval-infill).")
    ] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="Do not go on from an interrupted run.")] = False,
    as_json: Json = False,
) -> None:
    """Ask a variant and its base the tasks of suites, and say what each figure is, with its interval.

    Suites: holes, humaneval-infill, style, smoke, tools, reasoning, or files of your own (docs/evaluation.md). What
    was asked before does not matter to an answer, and the engine of your editor is not used. An interrupted run is
    gone on with by the same command.
    """
    import asyncio

    from warmline.evaluation.reading import load_suite
    from warmline.registry import warmline_home

    from . import evaluating
    from .selection import select
    from .session import asking_for_approval

    output = Output(as_json)
    if not suite:
        raise typer.BadParameter("name a suite: --suite NAME")
    suites = tuple(load_suite(name, folder=folder, count=count, seed=seed) for name in suite)
    if folder is not None and all(each.header.kind != "holes" for each in suites):
        raise typer.BadParameter("--folder is what `holes` are cut from, and no such suite is named")
    selection = select(Path.cwd(), variant)
    plan = evaluating.Plan(selection.variant, opponent(selection.variant, against), suites, run_code, fresh)
    check_code(plan)
    with asking_for_approval(selection.workspace, variant):
        report, _, partials = asyncio.run(evaluating.evaluate(output, warmline_home(), plan))
    for partial in partials:
        partial.remove()
    if as_json:
        output.json(report.model_dump(mode="json"))
    else:
        evaluating.show(output, report)
        if plan.against is None and against == BASE:
            output.note(cell("It has no adapters, so there is no base to compare it with.", "dim"))


def opponent(variant: ResolvedVariant, against: str) -> ResolvedVariant | None:
    """Return what a variant is compared with; errors as `select` for a variant's name."""
    from warmline.evaluation.against import base_of, prefix_only

    from .selection import select

    if against == NOTHING:
        return None
    if against == BASE:
        return base_of(variant)
    return prefix_only(variant) if against == PREFIX_ONLY else select(Path.cwd(), against).variant


def check_code(plan: Plan) -> None:
    """Refuse before anything is loaded what would be refused at the first answer."""
    from warmline.errors import EvaluationError

    for suite in plan.suites:
        if suite.header.kind == "humaneval-infill" and not plan.run_code:
            raise EvaluationError(
                f"the suite `{suite.header.name}` runs code that a model wrote, which is not allowed",
                code="evaluation.run_code",
                field="--run-code",
                remedy="Read docs/evaluation.md on what confines it, then add --run-code",
            )
