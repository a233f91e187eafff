"""What a bench found: models of its JSON, and the statistics in them. Paths are no part of it, nor is any text."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict

from ..errors import WarmlineError
from ..host.wire import ErrorInfo

SCHEMA: Final = 1
Kind = Literal["base", "dynamic", "merged"]


class Part(BaseModel):
    """Base of all parts of a report: immutable, unknown fields refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, ser_json_inf_nan="null")


class Spread(Part):
    """Some values of one quantity: median, the quartiles around it, the smallest, the largest, and how many."""

    median: float
    lower: float
    upper: float
    least: float
    most: float
    count: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Describe at least one value; quartiles are interpolated between those that were seen."""
        lower, median, upper = (
            statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else [values[0]] * 3
        )
        return cls(median=median, lower=lower, upper=upper, least=min(values), most=max(values), count=len(values))


class AdapterLabel(Part):
    """An adapter at work: its content, and its scales as exact decimals (`identity.AdapterIdentity`)."""

    name: str
    digest: str
    scale: str
    effective_scale: str


class Label(Part):
    """Which exact variant was measured. `merged_from` is the record's word for a merged model, else None.

    `backend` is the library's name and `backend_version` what it says of itself; `threads` and `n_ctx` are those in
    force.
    """

    name: str
    kind: Kind
    identity: str
    base: str
    base_digest: str
    merged_from: str | None
    adapters: tuple[AdapterLabel, ...]
    backend: str
    backend_version: str
    threads: int
    n_ctx: int


class Memory(Part):
    """Bytes by kind; None where it cannot be told.

    Parameters
    ----------
    base, adapters
        Weights, as on disk; what a library makes of them may be larger.
    kv
        KV of the whole context, which is reserved at once.
    snapshot
        KV of this prompt outside of a context, as it is kept for a document that somebody comes back to.
    resident_before, resident_after, resident_peak
        Of the process: with the native library and without a model; at the end of a run; at most. What else it does
        not free counts too, so these are what the system really gave.
    """

    base: int
    adapters: int
    kv: int | None
    snapshot: int | None
    resident_before: int | None
    resident_after: int | None
    resident_peak: int | None


class Run(Part):
    """One measurement, in a process that began with nothing: times in milliseconds, rates in tokens a second.

    `cold_reused` is 0, or the run would have been refused; `warm_reused` is how much of the longer prompt was there,
    estimated from below where the library does not tell.
    """

    round: int
    load_ms: float
    cold_first_ms: float
    prefill_tokens_per_s: float
    warm_first_ms: float
    decode_tokens_per_s: float
    cold_reused: int
    warm_prompt: int
    warm_reused: int
    memory: Memory


class Summary(Part):
    """All runs of a variant, by quantity."""

    load_ms: Spread
    cold_first_ms: Spread
    prefill_tokens_per_s: Spread
    warm_first_ms: Spread
    decode_tokens_per_s: Spread


class Slowdown(Part):
    """How many times as long as its base a variant takes, run by run of the same round: above 1 is slower."""

    load: Spread
    cold_first: Spread
    prefill: Spread
    warm_first: Spread
    decode: Spread


class Measured(Part):
    """One variant: what it is, its runs, and beside its base (`compared_with` is that one's identity)."""

    label: Label
    compared_with: str | None
    runs: tuple[Run, ...]
    summary: Summary | None
    slowdown: Slowdown | None
    notes: tuple[str, ...] = ()


class Machine(Part):
    """Where it ran; memory in bytes, load averages over one minute. None and empty where the system does not say."""

    cpu: str
    architecture: str
    physical_cores: int
    logical_cores: int
    memory: int | None
    memory_available: int | None
    system: str
    python: str
    warmline: str
    load_at_start: float | None
    load_at_end: float | None


class Report(Part):
    """A whole bench. `partial` says why it ended before its last round, and is None otherwise."""

    schema_version: int = SCHEMA
    kind: Literal["warmline.bench"] = "warmline.bench"
    created: str
    machine: Machine
    rounds: int
    prompt_tokens: int
    decode_tokens: int
    variants: tuple[Measured, ...]
    warnings: tuple[str, ...] = ()
    partial: ErrorInfo | None = None


def measured(
    label: Label, runs: Sequence[Run], base: tuple[Label, Sequence[Run]] | None, notes: Sequence[str]
) -> Measured:
    """Sum up a variant's runs, beside those of its base if it has one."""
    return Measured(
        label=label,
        compared_with=base[0].identity if base else None,
        runs=tuple(runs),
        summary=_summary(runs),
        slowdown=_slowdown(runs, base[1]) if base else None,
        notes=tuple(notes),
    )


def _summary(runs: Sequence[Run]) -> Summary | None:
    if not runs:
        return None
    return Summary(**{name: Spread.of([getattr(run, name) for run in runs]) for name in Summary.model_fields})


def _slowdown(runs: Sequence[Run], base: Sequence[Run]) -> Slowdown | None:
    beside = {run.round: run for run in base}
    pairs = [(run, beside[run.round]) for run in runs if run.round in beside]
    if not pairs:
        return None

    def ratio(seconds: Callable[[Run], float]) -> Spread:
        return Spread.of([seconds(run) / seconds(other) for run, other in pairs])

    return Slowdown(
        load=ratio(lambda run: run.load_ms),
        cold_first=ratio(lambda run: run.cold_first_ms),
        prefill=ratio(lambda run: 1 / run.prefill_tokens_per_s),
        warm_first=ratio(lambda run: run.warm_first_ms),
        decode=ratio(lambda run: 1 / run.decode_tokens_per_s),
    )


def error_info(error: WarmlineError) -> ErrorInfo:
    """Write an error into a report, without the path of its file."""
    return ErrorInfo(code=error.code, message=error.message, field=error.field, remedy=error.remedy)
