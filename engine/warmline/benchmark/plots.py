"""A report's figures as one SVG, drawn by matplotlib: every run a dot, quartiles a bar, the median a line.

Text, axes and grid have the colour of the page around them, so that it is read on light and dark ground.
"""

from __future__ import annotations

import importlib.util
import io
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from ..errors import WarmlineError
from .report import Kind, Measured, Report, Spread
from .words import QUANTITIES, RATIOS, memory_of, number, printable, titles

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Stands for the page's own colour until the SVG is written.
_INK: Final = "#010203"
_COLOURS: Final[dict[Kind, str]] = {"base": "#8b949e", "dynamic": "#3b82f6", "merged": "#d97706"}
_LONGEST: Final = 32  # characters of a name
_KINDS_OF_MEMORY: Final = {"base": "#8b949e", "adapters": "#3b82f6", "KV": "#10b981", "snapshot": "#a855f7"}
_STYLE: Final[dict[Any, Any]] = {
    "text.parse_math": False,  # a name is no formula, whatever dollars are in it
    "svg.fonttype": "none",
    "svg.hashsalt": "warmline",
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    **dict.fromkeys(
        ("text.color", "axes.labelcolor", "axes.edgecolor", "axes.titlecolor", "xtick.color", "ytick.color"), _INK
    ),
}
_METADATA: Final = re.compile(r"<metadata>.*?</metadata>", re.DOTALL)


def check_package() -> None:
    """Matplotlib is installed; else ``bench.plots``. Nothing is loaded."""
    if importlib.util.find_spec("matplotlib") is None:
        raise WarmlineError(
            "drawing a report needs the package matplotlib",
            code="bench.plots",
            remedy="Install it: pip install 'warmline[report]'; --output FILE writes the same figures as JSON without",
        )


def svg(report: Report) -> str:
    """Draw a report of at least one run; return an ``<svg>`` element without metadata or references.

    Raises
    ------
    WarmlineError
        ``bench.plots``.
    """
    check_package()
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    found = [each for each in report.variants if each.summary is not None]
    names = [titles(report)[each.label.identity] for each in found]
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(9.2, 4 * (0.24 * len(found) + 0.85)), layout="constrained")
        grid = figure.add_gridspec(4, 2)
        for at, quantity in enumerate(QUANTITIES):
            axes = figure.add_subplot(grid[at // 2, at % 2])
            axes.set_title(f"{quantity.title}, {quantity.unit}")
            axes.set_xlabel("more is better" if quantity.unit == "tokens/s" else "less is better", fontsize=8)
            _rows(axes, names if at % 2 == 0 else [""] * len(found))
            for row, each in enumerate(found):
                values = [getattr(run, quantity.name) for run in each.runs]
                _spread(axes, row, values, getattr(each.summary, quantity.name), _COLOURS[each.label.kind])
            axes.set_xlim(left=0)
        _ratios(figure.add_subplot(grid[2, 1]), found)
        _memory(figure.add_subplot(grid[3, :]), found, names)
        FigureCanvasSVG(figure)
        out = io.StringIO()
        figure.savefig(out, format="svg", transparent=True, metadata={"Date": None})
    text = out.getvalue()
    return _METADATA.sub("", text[text.index("<svg") :]).replace(_INK, "currentColor").strip()


def _rows(axes: Axes, names: Sequence[str]) -> None:
    """Give each name a row, the first on top."""
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.set_yticks(range(len(names)), [_short(name) for name in names])
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color=_INK, alpha=0.15, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.margins(x=0.2)


def _short(name: str, most: int = _LONGEST) -> str:
    """Cut a name in its middle, so that room is left for the drawing; the tables have all of it."""
    name = printable(name)
    return name if len(name) <= most else f"{name[: most // 2 - 1]}…{name[-(most // 2) :]}"


def _spread(axes: Axes, row: float, values: Sequence[float], spread: Spread, colour: str, unit: str = "") -> None:
    axes.barh(row, spread.upper - spread.lower, 0.48, left=spread.lower, color=colour, alpha=0.45)
    axes.plot(values, [row] * len(values), "o", color=colour, markersize=3, alpha=0.8, clip_on=False)
    axes.plot([spread.median] * 2, [row - 0.28, row + 0.28], color=colour, linewidth=2.2)
    words, beside = f"{number(spread.median)}{unit}", (spread.most, row)
    axes.annotate(words, beside, (6, 0), textcoords="offset points", va="center", fontsize=8)


def _ratios(axes: Axes, found: Sequence[Measured]) -> None:
    """How many times as long as its base: prefill and decode of each variant that has one."""
    rows = [
        (each, one, getattr(each.slowdown, one.name))
        for each in found
        for one in RATIOS
        if each.slowdown and one.name in ("prefill", "decode")
    ]
    if not rows:
        axes.set_axis_off()
        return
    axes.set_title("times as long as its base")
    axes.set_xlabel("above 1 is slower", fontsize=8)
    _rows(axes, [f"{_short(each.label.name, 20)}, {one.title}" for each, one, _ in rows])
    axes.axvline(1, color=_INK, linewidth=1, alpha=0.6)
    for row, (each, _, spread) in enumerate(rows):
        _spread(axes, row, [spread.least, spread.most], spread, _COLOURS[each.label.kind], "x")


def _memory(axes: Axes, found: Sequence[Measured], names: Sequence[str]) -> None:
    """Bytes by kind behind each other, and what the process really had."""
    axes.set_title("memory, MB")
    _rows(axes, names)
    handles: dict[str, Any] = {}
    for row, each in enumerate(found):
        sizes = dict(memory_of(each))
        left = 0.0
        for kind, colour in _KINDS_OF_MEMORY.items():
            size = (sizes[kind] or 0) / 1e6
            handles[kind] = axes.barh(row, size, 0.5, left=left, color=colour, alpha=0.75)
            left += size
        for kind, mark in (("process", "D"), ("at most", "|")):
            if sizes[kind] is not None:
                (drawn,) = axes.plot((sizes[kind] or 0) / 1e6, row, mark, color=_INK, markersize=6, linestyle="none")
                handles[kind] = drawn
    axes.set_xlim(left=0)
    words = {"KV": "KV (whole context)", "process": "process, in all", "at most": "process, at most"}
    axes.legend(
        handles.values(),
        [words.get(kind, kind) for kind in handles],
        loc="upper left",
        bbox_to_anchor=(0, -0.2),
        ncols=len(handles),
        frameon=False,
        fontsize=8,
    )
