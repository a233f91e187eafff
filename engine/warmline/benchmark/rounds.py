"""The whole bench: every variant is checked first, then all of them take turns, in another order each round."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from ..errors import WarmlineError
from . import machine
from .job import Answer, Job
from .process import ask
from .report import Label, Measured, Report, Run, error_info, measured
from .subjects import Subject

# Called with what is done next, how much is done, and of how much.
Told = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Settings:
    """How much is measured: rounds, tokens of the prompt, and tokens written behind it."""

    rounds: int = 5
    prompt_tokens: int = 512
    decode_tokens: int = 64


@dataclass
class _Side:
    subject: Subject
    label: Label
    base: str | None = None
    runs: list[Run] = field(default_factory=list)


def bench(
    subjects: Sequence[Subject],
    settings: Settings,
    home: Path,
    told: Told,
    *,
    warnings: Sequence[str] = (),
    worker: Callable[[Job], Answer] = ask,
) -> Report:
    """Measure all subjects; two that are one identity are measured once.

    Parameters
    ----------
    told
        Called before each job.
    warnings
        What the report says beside its own.
    worker
        Does one job in a process of its own.

    Returns
    -------
    Report
        Partial, and saying why, where it was interrupted (``bench.interrupted``) or a job failed after the first run.

    Raises
    ------
    WarmlineError
        A variant cannot be used; nothing is measured then. Or the very first run failed.
    KeyboardInterrupt
        Before the first run was done.
    """
    ran_on = machine.describe()
    total = len(subjects) * (settings.rounds + 1)

    def job(task: str, subject: Subject, number: int = 0) -> Answer:
        return worker(
            Job.model_validate(
                {
                    "task": task,
                    "variant": subject.variant,
                    "home": home,
                    "prompt_tokens": settings.prompt_tokens,
                    "decode_tokens": settings.decode_tokens,
                    "round": number,
                }
            )
        )

    sides: dict[str, _Side] = {}
    identities = []
    for done, subject in enumerate(subjects):
        told(f"checking {subject.variant.name}", done, total)
        label = job("check", subject).label
        assert label is not None  # else the worker had told an error
        identities.append(label.identity)
        sides.setdefault(label.identity, _Side(subject, label))
    for identity, subject in zip(identities, subjects, strict=True):
        base = None if subject.base is None else identities[subject.base]
        if base is not None and base != identity:
            sides[identity].base = base

    order = list(sides.values())
    total = len(subjects) + len(order) * settings.rounds
    partial: WarmlineError | None = None
    try:
        for number in range(settings.rounds):
            first = number % len(order)
            for turn, side in enumerate(order[first:] + order[:first]):
                done = len(subjects) + number * len(order) + turn
                told(f"{side.label.name}, round {number + 1} of {settings.rounds}", done, total)
                run = job("measure", side.subject, number).run
                assert run is not None
                side.runs.append(run)
    except KeyboardInterrupt:
        partial = WarmlineError("interrupted", code="bench.interrupted", remedy="Run it again for all rounds")
        if not any(side.runs for side in order):
            raise
    except WarmlineError as error:
        if not any(side.runs for side in order):
            raise
        partial = error
    return Report(
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        machine=(ran_on := ran_on.model_copy(update={"load_at_end": machine.load()})),
        rounds=settings.rounds,
        prompt_tokens=settings.prompt_tokens,
        decode_tokens=settings.decode_tokens,
        variants=tuple(_measured(side, sides) for side in order),
        warnings=(*warnings, *_busy(ran_on.load_at_start, ran_on.load_at_end, order)),
        partial=error_info(partial) if partial else None,
    )


def _measured(side: _Side, sides: dict[str, _Side]) -> Measured:
    base = sides[side.base] if side.base else None
    return measured(side.label, side.runs, (base.label, base.runs) if base else None, side.subject.notes)


def _busy(at_start: float | None, at_end: float | None, order: Sequence[_Side]) -> tuple[str, ...]:
    words = machine.busy(at_start, at_end, max(side.label.threads for side in order))
    return (words,) if words else ()
