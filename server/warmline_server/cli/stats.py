"""`warmline stats`: what was shown and accepted of each variant, and how long it took. It never leaves this machine."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .options import Json
from .output import Output, cell

if TYPE_CHECKING:
    from warmline_server.stats import Tally


def command(
    reset: Annotated[bool, typer.Option("--reset", help="Forget all that was counted.")] = False, as_json: Json = False
) -> None:
    """Show how often each variant's suggestions were shown and accepted in editors, and how long they took.

    Counted by the language server on this machine, by the variant's name: numbers only, sent nowhere. The editor's
    setting `warmline.stats.enabled` turns it off.
    """
    from warmline.registry import warmline_home

    from warmline_server.stats import forget, load

    from . import tables
    from .amounts import age

    output = Output(as_json)
    home = warmline_home()
    if reset and home.is_dir():
        forget(home)
    variants = sorted(load(home).variants.items(), key=lambda item: -item[1].last)
    if as_json:
        output.json({"variants": [{"variant": name, **_row(tally)} for name, tally in variants]})
        return
    if not variants:
        output.note(cell("Nothing is counted: suggestions in editors are, as soon as there are some."))
        return
    now = time.time()
    rows = []
    for name, tally in variants:
        row = _row(tally)
        share = f"{tally.accepted / tally.shown:.0%}" if tally.shown else ""
        times = [f"{row[key]:.0f} ms" if row[key] is not None else "" for key in ("median_ms", "p95_ms")]
        rows.append([name, str(tally.shown), str(tally.accepted), share, *times, age(max(0.0, now - tally.last))])
    tables.rows(output, ("variant", "shown", "accepted", "share", "median", "95 %", "last"), rows)


def _row(tally: Tally) -> dict[str, Any]:
    median, most = tally.quantile_ms(0.5), tally.quantile_ms(0.95)
    return {
        "shown": tally.shown,
        "accepted": tally.accepted,
        "acceptance": round(tally.accepted / tally.shown, 4) if tally.shown else None,
        "median_ms": None if median is None else round(median, 1),
        "p95_ms": None if most is None else round(most, 1),
        "first": tally.first,
        "last": tally.last,
    }
