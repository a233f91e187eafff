"""How good suggestions are: holes in real code, filled by three variants of one base.

    python bench/suggest.py [--holes 100] [--seed 1] [--lines 32] [--context N] [--header] [--floor P] [--json]

Half of the holes are statements in modules of the standard library, half in the canonical solutions of HumanEval's
tasks; each is cut out from its start or from behind one of its words, up to its end. Every variant gets the same
holes through what an editor uses (`completion.complete`: window, prompt, decode, filters), on an engine of its own:

- *base*: SmolLM2-135M-Instruct, which knows no fill-in-the-middle: it sees what stands before the cursor;
- *prefix only*: the example adapter `fim-python` with `fim.order: prefix-only`;
- *fim*: the same adapter with its fill-in-the-middle format, so that it sees what follows as well.

Figures: *exact*: the share of all holes whose first line is exactly what stood there; *edit*: the similarity of the
first line to it (difflib's ratio, 0 where nothing is shown); *kept*: of what is shown, the share of characters that a
person would keep, from its start up to the first that is not what stood there; *shown*: the share of holes with a
suggestion; *ms*: from the question to the answer, with nothing of the prompt warm. The model gets `--lines` lines
before the cursor and a quarter of them behind it; an editor's window has 256, most of it warm while a person types.
`--context N` gives N excerpts of other files of the folder, `--header` names the file in the prompt, `--floor P` hides
suggestions of a lower mean token probability.

Target: *fim* has more exact first lines than *prefix only*.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from figures import Spread, Surroundings, Target
from holes import beside, humaneval, standard_library
from hosted import FIM, add_context_options, context_of, demo_model, run_and_show
from hosted import variant as make_variant
from rich.console import Console
from rich.table import Table
from warmline.backends.base import default_threads
from warmline.evaluation.metrics import compare
from warmline.evaluation.source import Cut, cut_holes
from warmline.host.local import LocalEngine
from warmline.prompts.fim import FimProfile, FimTokens
from warmline.prompts.window import WindowLimits
from warmline.variant import ResolvedVariant
from warmline_server.completion import Completion, complete
from warmline_server.context.excerpts import header
from warmline_server.lsp.documents import DocumentStore

BASE, PREFIX_ONLY, WITH_FIM = "base", "prefix only", "fim"
_TOKENS = FimTokens(prefix="<issue_start>", suffix="<issue_comment>", middle="<issue_closed>")
_STOPS = (0, 2)


def variants(options: argparse.Namespace) -> dict[str, ResolvedVariant]:
    """Return the three variants by name."""
    model = (options.model or demo_model()).resolve()
    base = make_variant(model, n_ctx=options.n_ctx, max_tokens=options.n_predict)
    adapted = make_variant(model, (FIM, "1"), n_ctx=options.n_ctx, max_tokens=options.n_predict)

    def asked(fim: FimProfile) -> ResolvedVariant:
        return adapted.model_copy(update={"profile": adapted.profile.model_copy(update={"fim": fim})})

    return {
        BASE: base,
        PREFIX_ONLY: asked(FimProfile(order="prefix-only", stops=_STOPS)),
        WITH_FIM: asked(FimProfile(order="suffix-first", tokens=_TOKENS, stops=_STOPS)),
    }


@dataclass(frozen=True)
class Judged:
    """One hole's suggestion against what stood there."""

    kind: str
    shown: bool
    exact: bool
    edit: float
    kept: float
    ms: float
    reason: str
    probability: float | None


def judge(hole: Cut, result: Completion) -> Judged:
    """Compare a suggestion with what stood there."""
    scores = compare(result.text, hole.wanted)
    return Judged(
        kind=hole.source.kind,
        shown=bool(scores["shown"]),
        exact=bool(scores["first_line_exact"]),
        edit=scores["edit_similarity"],
        kept=scores.get("kept_rate", 0.0),
        ms=result.total_ms,
        reason=result.reason,
        probability=result.mean_probability,
    )


def summary(judged: list[Judged]) -> dict[str, Any]:
    """Return the figures of some holes."""
    shown = [each for each in judged if each.shown]
    return {
        "holes": len(judged),
        "exact": round(statistics.mean(each.exact for each in judged), 3),
        "edit": round(statistics.mean(each.edit for each in judged), 3),
        "kept": round(statistics.mean(each.kept for each in shown), 3) if shown else 0.0,
        "shown": round(len(shown) / len(judged), 3),
        "ms": asdict(Spread.of([each.ms for each in judged])),
    }


async def run(options: argparse.Namespace, say: Callable[[str], None]) -> dict[str, Any]:
    surroundings = Surroundings()
    sources = {"standard library": standard_library(), "HumanEval": humaneval()}
    half = options.holes // 2
    cut = [
        *cut_holes(sources["standard library"], options.holes - half, options.seed),
        *cut_holes(sources["HumanEval"], half, options.seed),
    ]
    rows, every = [], {}
    with tempfile.TemporaryDirectory() as home:
        engine = LocalEngine(Path(home))
        try:
            for name, variant in variants(options).items():
                say(f"{name}: {len(cut)} holes")
                judged = []
                for number, hole in enumerate(cut):
                    judged.append(judge(hole, await _fill(engine, variant, hole, number, options, sources)))
                every[name] = [asdict(each) for each in judged]
                rows.append({"variant": name, "of": "all", **summary(judged)})
                for kind in sources:
                    some = [each for each in judged if each.kind == kind]
                    if some:
                        rows.append({"variant": name, "of": kind, **summary(some)})
        finally:
            await engine.close()
    exact = {row["variant"]: row["exact"] for row in rows if row["of"] == "all"}
    missing = Target(
        "exact first lines of prefix only per one of fim", _ratio(exact[PREFIX_ONLY], exact[WITH_FIM]), 0.99
    )
    return {
        **context_of(options, (options.model or demo_model()).resolve(), default_threads()),
        **{name: getattr(options, name) for name in ("seed", "lines", "context", "header", "floor")},
        "rows": rows,
        "holes": every,
        "targets": [missing.as_json()],
        **surroundings.as_json(),
    }


def _ratio(one: float, other: float) -> float:
    return round(one / other, 3) if other else float("inf")


async def _fill(
    engine: LocalEngine,
    variant: ResolvedVariant,
    hole: Cut,
    number: int,
    options: argparse.Namespace,
    sources: dict[str, Any],
) -> Completion:
    document = DocumentStore().open(hole.source.name, "python", 1, hole.before + hole.after)
    texts = beside(hole, sources[hole.source.kind], options.context, options.context_lines, options.seed)
    return await complete(
        engine,
        variant,
        document,
        hole.line,
        hole.column,
        client="bench",
        document=f"{number}",
        language="python",
        path=hole.source.name,
        limits=WindowLimits(prefix_lines=options.lines, suffix_lines=options.lines // 4, step=options.lines // 4),
        context=texts,
        header=header(hole.source.name, "python") if options.header or texts else "",
        min_probability=options.floor or 1e-9,  # so that the probabilities are told
    )


def show(report: dict[str, Any], console: Console) -> None:
    table = Table(title=f"Holes of seed {report['seed']}", title_justify="left")
    for name in ("variant", "of", "holes", "exact", "edit", "kept", "shown", "ms", "p95"):
        table.add_column(name, justify="left" if name in ("variant", "of") else "right", no_wrap=True)
    for row in report["rows"]:
        table.add_row(
            row["variant"],
            row["of"],
            str(row["holes"]),
            *(f"{row[name]:.3f}" for name in ("exact", "edit", "kept", "shown")),
            f"{row['ms']['median']:,.0f}",
            f"{row['ms']['p95']:,.0f}",
        )
    console.print(table)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--holes", type=int, default=100, help="holes, half of them in HumanEval (100)")
    parser.add_argument("--seed", type=int, default=1, help="which holes (1)")
    parser.add_argument("--lines", type=int, default=32, help="lines before the cursor that the model gets (32)")
    parser.add_argument("--context", type=int, default=0, help="excerpts of other files in the prompt (0)")
    parser.add_argument("--context-lines", type=int, default=32, help="lines of one excerpt (32)")
    parser.add_argument("--header", action="store_true", help="name the file in the prompt")
    parser.add_argument("--floor", type=float, default=0.0, help="least mean probability of a token (0)")
    add_context_options(parser, n_predict=32)
    options = parser.parse_args(arguments)
    if options.quick:
        options.holes, options.lines = 4, 16
    return run_and_show(options, run, show, strict=not options.quick)


if __name__ == "__main__":
    sys.exit(main())
