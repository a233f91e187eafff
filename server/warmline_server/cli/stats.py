"""`warmline stats`: what was shown and accepted of each variant, and how long it took. It never leaves this machine."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from .options import Json
from .output import Output, cell


def command(
    reset: Annotated[bool, typer.Option("--reset", help="Forget all that was counted.")] = False, as_json: Json = False
) -> None:
    """Show how often each variant's suggestions were shown and accepted in editors, and how long they took.

    Counted by the language server on this machine, by the variant's name: numbers only, sent nowhere. The editor's
    setting `warmline.stats.enabled` turns it off.
    """
    from warmline.registry import warmline_home

    from warmline_server.stats import forget, load, summary

    from . import tables
    from .amounts import age

    output = Output(as_json)
    home = warmline_home()
    if reset and home.is_dir():
        forget(home)
    variants = summary(load(home))
    if as_json:
        output.json({"variants": variants})
        return
    if not variants:
        output.note(cell("Nothing is counted: suggestions in editors are, as soon as there are some."))
        return
    now = time.time()
    rows = []
    for row in variants:
        share = f"{row['acceptance']:.0%}" if row["acceptance"] is not None else ""
        times = [f"{row[key]:.0f} ms" if row[key] is not None else "" for key in ("median_ms", "p95_ms")]
        counts = (str(row["shown"]), str(row["accepted"]))
        rows.append([row["variant"], *counts, share, *times, age(max(0.0, now - row["last"]))])
    tables.rows(output, ("variant", "shown", "accepted", "share", "median", "95 %", "last"), rows)
