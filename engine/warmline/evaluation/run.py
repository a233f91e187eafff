"""One evaluation: every task to every side in turn, scored at once, resumable."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from ..errors import EvaluationError, WarmlineError
from .metrics import compare
from .partial import Partial
from .reading import Suite
from .rows import Row, Scores
from .tasks import AnyTask, Hole, Infill, Reason, Smoke, Style, ToolUse

VARIANT: Final = "variant"
AGAINST: Final = "against"


@dataclass(frozen=True, slots=True)
class Reply:
    """What a side answered.

    Attributes
    ----------
    text
        What a person would be shown; None where that is nothing.
    identity
        Digest of the exact variant that answered.
    ms
        Milliseconds from the question to the answer.
    well_formed
        Whether it had the form that was asked for: a whole tool call or answer, a thought that is closed.
    tool, arguments
        The call, where it is one.
    note
        Why it is what it is, for whoever reads single rows.
    """

    text: str | None
    identity: str
    ms: float
    well_formed: bool = True
    tool: str | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""


class Side(Protocol):
    """One of the two that are compared. Nothing that it answered before helps it to answer."""

    @property
    def identity(self) -> str:
        """Digest of the exact variant, as it was when the evaluation began."""

    async def ask(self, task: AnyTask) -> Reply:
        """Answer a task as the product would; raises what the engine raises."""


#: Tells whether a solution passes its tests; it may take seconds, and blocks.
Tester = Callable[[Infill, str], tuple[bool, str]]


async def measure(
    suite: Suite,
    sides: Mapping[str, Side],
    partial: Partial,
    *,
    tester: Tester | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[Row]:
    """Ask all sides all tasks; what `partial` holds is not asked again.

    Parameters
    ----------
    sides
        By the name that rows carry. For every other task they are asked in reverse order, so that neither has the
        warmer machine.
    tester
        Runs a solution's tests; needed for tasks that have some.
    progress
        Called with the answers that are there and all that there will be.

    Raises
    ------
    EvaluationError
        ``evaluation.changed``: a side is not the variant that it was; ``evaluation.stopped``: it cannot answer any
        more; ``evaluation.run_code``: there are tests and no `tester`. What was measured is kept.
    """
    total, done = len(suite.tasks) * len(sides), 0
    rows: list[Row] = []
    for number, task in enumerate(suite.tasks):
        order = list(sides)[:: 1 if number % 2 == 0 else -1]
        for name in order:
            row = partial.rows.get((name, task.id))
            if row is None:
                reply = await _asked(sides[name], task, done, total)
                scores, note = await _score(task, reply, tester)
                row = Row(side=name, task=task.id, scores=scores, text=reply.text, note=note)
                partial.add(row)
            rows.append(row)
            done += 1
            progress(done, total)
    return rows


async def _asked(side: Side, task: AnyTask, done: int, total: int) -> Reply:
    try:
        reply = await side.ask(task)
    except WarmlineError as error:
        raise EvaluationError(
            f"after {done} of {total} answers: {error.message}",
            code="evaluation.stopped",
            file=error.file,
            field=error.field,
            remedy=f"{error.remedy or 'Mend it'}; then run the same command, which goes on from there",
        ) from error
    if reply.identity != side.identity:
        raise EvaluationError(
            f"after {done} of {total} answers the variant changed: it was {side.identity}, and is {reply.identity}",
            code="evaluation.changed",
            remedy="Leave its files alone while it is evaluated; the same command starts anew for what it is now",
        )
    return reply


async def _score(task: AnyTask, reply: Reply, tester: Tester | None) -> tuple[Scores, str]:
    scores: Scores
    note = reply.note
    if isinstance(task, Infill):
        scores = compare(reply.text, task.wanted)
        passed = False
        if reply.text:
            passed, note = await asyncio.to_thread(_tested, tester, task, reply.text)
        scores["pass_at_1"] = float(passed)
    elif isinstance(task, Hole):
        scores = compare(reply.text, task.wanted)
    elif isinstance(task, Style):
        scores = compare(reply.text, task.hole.wanted)
    elif isinstance(task, Smoke):
        scores = {"pass_at_1": float(task.expect.holds(reply.text or ""))}
    elif isinstance(task, ToolUse):
        scores = {"format_validity": float(reply.well_formed), "pass_at_1": float(_right_call(task, reply))}
    else:
        assert isinstance(task, Reason)
        answer = reply.text or ""
        passed = reply.well_formed and task.expect.holds(answer)
        scores = {"format_validity": float(reply.well_formed), "pass_at_1": float(passed)}
    scores["latency_ms"] = round(reply.ms, 3)
    return scores, note


def _tested(tester: Tester | None, task: Infill, text: str) -> tuple[bool, str]:
    if tester is None:
        raise EvaluationError(
            "the suite runs code that a model wrote, which is not allowed",
            code="evaluation.run_code",
            field="--run-code",
            remedy="Read docs/evaluation.md on what confines it, then add --run-code",
        )
    return tester(task, text)


def _right_call(task: ToolUse, reply: Reply) -> bool:
    if not reply.well_formed:
        return False
    if task.expect is None:
        return reply.tool is None and bool(reply.text)
    given = reply.arguments
    return reply.tool == task.expect.tool and all(
        key in given and given[key] == value for key, value in task.expect.arguments.items()
    )
