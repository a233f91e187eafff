"""A bench's report for people at a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from warmline.benchmark.words import QUANTITIES, RATIOS, adapters, amount, machine_words, memory_rows, titles, within
from warmline.digests import short

from . import tables
from .output import cell

if TYPE_CHECKING:
    from warmline.benchmark.report import Report

    from .output import Output
    from .tables import Cell

_NONE: Final = "-"


def show(output: Output, report: Report) -> None:
    """Print labels, figures, slowdowns and memory, and on what machine they were taken."""
    if report.partial is not None:
        message = f"PARTIAL: {report.partial.message}; the figures below are of fewer rounds than {report.rounds}"
        output.table(cell(message, "bold yellow"), cell(""))
    _labels(output, report)
    output.text("")
    _figures(output, report)
    output.text("")
    _slowdowns(output, report)
    _memory(output, report)
    output.text("")
    for line in machine_words(report):
        output.table(cell(line, "dim"))
    for warning in report.warnings:
        output.table(cell(f"warning: {warning}", "yellow"))


def _labels(output: Output, report: Report) -> None:
    rows: list[list[Cell]] = []
    for each in report.variants:
        label = each.label
        made = "; ".join((adapters(label) or _NONE, *each.notes))
        rows.append(
            [
                (label.name, "bold"),
                label.kind,
                short(label.identity),
                f"{label.base} {short(label.base_digest)}",
                made,
                f"{label.backend} {label.backend_version}",
            ]
        )
    tables.rows(output, ("variant", "kind", "identity", "base", "adapters", "backend"), rows)


def _figures(output: Output, report: Report) -> None:
    headers = ("median (quartiles)", "runs", *(f"{each.title}, {each.unit}" for each in QUANTITIES))
    rows: list[list[Cell]] = []
    names = titles(report)
    for each in report.variants:
        found = [within(getattr(each.summary, one.name)) if each.summary else _NONE for one in QUANTITIES]
        rows.append([(names[each.label.identity], "bold"), str(len(each.runs)), *found])
    tables.rows(output, headers, rows)


def _slowdowns(output: Output, report: Report) -> None:
    compared = [each for each in report.variants if each.slowdown is not None]
    if not compared:
        return
    rows: list[list[Cell]] = []
    names = titles(report)
    for each in compared:
        found = [within(getattr(each.slowdown, one.name)) for one in RATIOS]
        rows.append([(names[each.label.identity], "bold"), *found])
    tables.rows(output, ("times as long as its base", *(one.title for one in RATIOS)), rows)
    output.text("")


def _memory(output: Output, report: Report) -> None:
    headers, found = memory_rows(report)
    cells: list[list[Cell]] = [
        [(name, "bold"), *(_NONE if one is None else amount(one) for one in values)] for name, values in found
    ]
    tables.rows(output, headers, cells)
