"""A report as one HTML file: nothing is fetched, nothing runs, and every name in it is text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import Final

from .plots import svg
from .report import Measured, Report, Slowdown, Spread, Summary
from .words import QUANTITIES, RATIOS, Quantity, amount, machine_words, memory_rows, number, printable, titles

_Summed = Callable[[Measured], Summary | Slowdown | None]
_CSS: Final = """
:root { color-scheme: light dark;
  --ground: #ffffff; --ink: #1f2328; --faint: #59636e; --line: #d1d9e0; --warn: #9a6700 }
@media (prefers-color-scheme: dark) {
  :root { --ground: #0d1117; --ink: #e6edf3; --faint: #9198a1; --line: #3d444d; --warn: #d29922 }
}
body { background: var(--ground); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto;
  max-width: 60rem; padding: 0 1rem }
h1 { font-size: 1.5rem; margin: 0 } h2 { font-size: 1.1rem; margin: 2rem 0 .5rem }
p { margin: .3rem 0 } .faint { color: var(--faint) } .warn { color: var(--warn); font-weight: 600 }
svg { color: var(--ink); height: auto; max-width: 100% } figure { margin: 1rem 0; overflow-x: auto }
table { border-collapse: collapse; display: block; overflow-x: auto } caption { text-align: left }
th, td { border-bottom: 1px solid var(--line); padding: .25rem .8rem .25rem 0; text-align: right; vertical-align: top;
  white-space: nowrap } th:first-child, td:first-child, .text td, .named :nth-child(2) {
  text-align: left }
td.fold { overflow-wrap: anywhere; white-space: normal } code { font-size: .85em }
""".strip()


def page(report: Report) -> str:
    """Write a report as HTML.

    Raises
    ------
    WarmlineError
        ``bench.plots``: matplotlib is not installed.
    """
    names = ", ".join(titles(report).values())
    warnings = [f"Partial: {report.partial.message}"] if report.partial else []
    warnings += [warning[:1].upper() + warning[1:] for warning in report.warnings]
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{_text('warmline bench: ' + names)}</title><style>{_CSS}</style></head><body>",
        f"<h1>warmline bench</h1><p>{_text(names)}</p>",
        *(f'<p class="warn">{_text(warning)}</p>' for warning in warnings),
        *(f'<p class="faint">{_text(line)}</p>' for line in machine_words(report)),
        f'<figure role="img" aria-label="The tables below, drawn">{svg(report)}</figure>',
        '<p class="faint">A dot is a run, a bar the quartiles, a line the median. Cold: a prompt that was never seen. '
        "Warm: the same prompt and a few tokens more.</p>",
        "<h2>Times as long as its base</h2>",
        "<p>Run by run of the same round; above 1 is slower.</p>",
        _spreads(report, RATIOS, lambda each: each.slowdown),
        "<h2>Figures</h2>",
        _spreads(report, QUANTITIES, lambda each: each.summary),
        "<h2>Memory</h2>",
        _memory(report),
        "<h2>What exactly was measured</h2>",
        *(_label(each) for each in report.variants),
        "</body></html>",
    ]
    return "\n".join(parts) + "\n"


def _spreads(report: Report, quantities: Sequence[Quantity], of: _Summed) -> str:
    """Tabulate every spread whole: a row for each quantity of each variant that has it."""
    rows, names = [], titles(report)
    for quantity in quantities:
        for each in report.variants:
            summed = of(each)
            if summed is not None:
                spread: Spread = getattr(summed, quantity.name)
                values = (spread.median, spread.lower, spread.upper, spread.least, spread.most)
                name = f"{quantity.title}, {quantity.unit}" if quantity.unit else quantity.title
                rows.append([name, names[each.label.identity], *map(number, values), str(spread.count)])
    headers = ("", "variant", "median", "lower quartile", "upper quartile", "least", "most", "runs")
    return _table(headers, rows, "named") if rows else "<p>None.</p>"


def _memory(report: Report) -> str:
    headers, found = memory_rows(report)
    rows = [[name, *("" if value is None else amount(value) for value in values)] for name, values in found]
    note = (
        '<p class="faint">Base and adapters: weights on disk. KV: of the whole context, reserved at once. Snapshot: KV '
        "of this prompt outside of a context. Process: what the system gave it, with everything; at most; and before "
        "the model was loaded. Medians.</p>"
    )
    return _table(headers, rows) + note


def _label(each: Measured) -> str:
    label = each.label
    rows = [
        ("kind", label.kind),
        ("identity", label.identity),
        ("base", f"{label.base} {label.base_digest}"),
        *(
            ("adapter", f"{one.name} {one.digest}, scale {one.scale}, in force {one.effective_scale}")
            for one in label.adapters
        ),
        ("backend", f"{label.backend} {label.backend_version}, {label.threads} threads, context {label.n_ctx}"),
        *(("compared with", one) for one in [each.compared_with] if one),
        *(("note", note) for note in each.notes),
    ]
    cells = "".join(
        f'<tr><td>{_text(name)}</td><td class="fold"><code>{_text(value)}</code></td></tr>' for name, value in rows
    )
    return f'<h3>{_text(label.name)}</h3><table class="text">{cells}</table>'


def _table(headers: Iterable[str], rows: Iterable[Sequence[str]], kind: str = "") -> str:
    head = "".join(f"<th>{_text(header)}</th>" for header in headers)
    body = "".join("<tr>" + "".join(f"<td>{_text(value)}</td>" for value in row) + "</tr>" for row in rows)
    return f'<table class="{kind}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'


def _text(text: str) -> str:
    return escape(printable(text))
