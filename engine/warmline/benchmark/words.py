"""How a report's figures are written, for the terminal and for the page alike."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from ..digests import short
from .report import Label, Measured, Memory, Report, Spread


class Quantity(NamedTuple):
    """A field of `Summary` or `Slowdown`, and what people call it."""

    name: str
    title: str
    unit: str = ""


QUANTITIES: Final = (
    Quantity("prefill_tokens_per_s", "prefill", "tokens/s"),
    Quantity("decode_tokens_per_s", "decode", "tokens/s"),
    Quantity("cold_first_ms", "first token cold", "ms"),
    Quantity("warm_first_ms", "first token warm", "ms"),
    Quantity("load_ms", "load", "ms"),
)
RATIOS: Final = (
    Quantity("prefill", "prefill"),
    Quantity("decode", "decode"),
    Quantity("cold_first", "first token cold"),
    Quantity("warm_first", "first token warm"),
    Quantity("load", "load"),
)
_MEMORY: Final[tuple[tuple[str, Callable[[Memory], int | None]], ...]] = (
    ("base", lambda memory: memory.base),
    ("adapters", lambda memory: memory.adapters),
    ("KV", lambda memory: memory.kv),
    ("snapshot", lambda memory: memory.snapshot),
    ("process", lambda memory: memory.resident_after),
    ("at most", lambda memory: memory.resident_peak),
    ("before", lambda memory: memory.resident_before),
)


def printable(text: str) -> str:
    """Write what cannot be seen, or turns the reading direction, as escapes: a base's name is a file's."""
    return "".join(each if each.isprintable() else f"\\u{ord(each):04x}" for each in text)


def number(value: float) -> str:
    """Write a number with three significant digits, or all digits before the point."""
    size = abs(value)
    digits = 0 if size >= 100 else 1 if size >= 10 else 2
    return f"{value:,.{digits}f}"


def within(spread: Spread) -> str:
    """Write a median and its quartiles: ``243 (240-246)``."""
    return f"{number(spread.median)} ({number(spread.lower)}-{number(spread.upper)})"


def amount(nbytes: float) -> str:
    """Write bytes in MB (10^6), as the page's plot has them."""
    return f"{number(nbytes / 1e6)} MB"


def adapters(label: Label) -> str:
    """Write what acts on the base, each with its digest and scale: ``acme-style 12ab34cd56ef @ 1``."""
    return " + ".join(f"{each.name} {short(each.digest)} @ {each.scale}" for each in label.adapters)


def titles(report: Report) -> dict[str, str]:
    """Name each variant of a report, by its identity, where there is room for few words; no two names are alike."""
    labels = [each.label for each in report.variants]
    several = len({label.backend for label in labels}) > 1
    named = {
        label.identity: f"{label.name} ({label.kind}{', ' + label.backend if several else ''})" for label in labels
    }
    counts = Counter(named.values())
    return {identity: name if counts[name] == 1 else f"{name} {short(identity, 6)}" for identity, name in named.items()}


def memory_of(measured: Measured) -> list[tuple[str, int | None]]:
    """Return bytes by kind, medians over the runs; empty without a run."""
    return [(name, _median([of(run.memory) for run in measured.runs])) for name, of in _MEMORY] if measured.runs else []


def memory_rows(report: Report) -> tuple[tuple[str, ...], list[tuple[str, list[int | None]]]]:
    """Return the headers of a table of memory, and a row for each variant that ran."""
    headers = ("memory", *(name for name, _ in _MEMORY))
    names = titles(report)
    rows = [
        (names[each.label.identity], [value for _, value in memory_of(each)]) for each in report.variants if each.runs
    ]
    return headers, rows


def machine_words(report: Report) -> list[str]:
    """Say on what it ran, and what was done there."""
    ran_on = report.machine
    memory = f"{ran_on.memory / 1e9:.1f} GB memory" if ran_on.memory else "memory unknown"
    free = f", {ran_on.memory_available / 1e9:.1f} GB free" if ran_on.memory_available else ""
    cores = f"{ran_on.physical_cores} physical, {ran_on.logical_cores} logical cores"
    threads = sorted({each.label.threads for each in report.variants})
    used = f"{' or '.join(map(str, threads))} thread{'' if threads == [1] else 's'} used"
    loads = f"load {ran_on.load_at_start} to {ran_on.load_at_end}"
    return [
        f"{ran_on.cpu} ({ran_on.architecture}), {cores}, {used}, {memory}{free}, {loads}",
        f"{ran_on.system}, Python {ran_on.python}, Warmline {ran_on.warmline}, {report.created}",
        f"{report.rounds} rounds in turn, {report.prompt_tokens} tokens read, {report.decode_tokens} written; "
        "each run in a process of its own, files in the system's cache",
    ]


def _median(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return round(statistics.median(known)) if len(known) == len(values) else None
