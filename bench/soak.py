"""Two thousand completions with switches and cancels on one engine host: does its memory grow?

    python bench/soak.py [--count 2000] [--seed 0] [--quick] [--json]

Five variants of one base take turns at random: the base alone, acme-style, fim-python, acme-style at scale 0.5, and
both adapters at once. That is one more than the host keeps contexts for, so that contexts are closed, saved to RAM and
restored all the time. Three documents are typed in, some characters at a time, and begun anew after a while. Three in
ten completions are given up: before the first token, after it, or by a newer request for the same document.

The host's resident memory is read after each completion. KV in RAM is bounded by a budget and fills up to it, which is
no leak: so its bytes are listed beside, and the engine's own gauges of contexts and bases.

Target: resident memory (VmRSS) never grows by 5 % over what it was after the first 200 completions (10 % of `--count`).
Linux only: memory is read from /proc. Prompts are short (some 200 tokens), so that the run takes minutes.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from figures import Spread, Surroundings, Target
from hosted import (
    ACME,
    FIM,
    BenchError,
    Host,
    add_context_options,
    context_of,
    demo_model,
    gauges,
    hosted,
    prompt_of,
    run_and_show,
    variant,
)
from rich.console import Console
from rich.table import Table
from warmline.host.remote import RemoteEngine
from warmline.host.wire import CompletionRequest, Delta, Done
from warmline.variant import ResolvedVariant

LIMIT_PERCENT = 5.0
_DOCUMENTS = ("textwrap", "configparser", "difflib")
_GIVEN_UP = 0.3
_POINTS = 20
# Characters typed in a document before it is begun anew.
_SPAN = 120


@dataclass(frozen=True)
class Point:
    """The host's memory after so many completions, in bytes, and what the engine says that it holds."""

    completions: int
    seconds: float
    rss: int
    anonymous: int
    snapshot_bytes: int
    snapshots: int
    contexts: int


class Typist:
    """The documents, as they stand."""

    def __init__(self, texts: dict[str, str], chance: random.Random) -> None:
        self._texts = texts
        self._chance = chance
        self._typed = dict.fromkeys(texts, 0)

    def next(self) -> tuple[str, str]:
        """Type some characters into one document; return its name and the text before the cursor."""
        name = self._chance.choice(list(self._texts))
        typed = self._typed[name] + self._chance.randint(1, 6)
        self._typed[name] = typed if typed <= _SPAN else 0
        text = self._texts[name]
        return name, text[: len(text) - _SPAN + self._typed[name]]


async def complete(engine: RemoteEngine, request: CompletionRequest, leave: str) -> str:
    """Complete, or give up ``early`` (before anything comes) or when it has ``started``; say how it ended."""
    events = engine.complete(request)
    try:
        if leave == "early":
            waiting = asyncio.ensure_future(anext(events))
            await asyncio.sleep(0.005)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            return "given up early"
        async for event in events:
            if isinstance(event, Delta) and leave == "started":
                return "given up after the first text"
            if isinstance(event, Done):
                return event.outcome.value
    finally:
        await events.aclose()  # type: ignore[attr-defined]  # an async generator
    raise BenchError("a completion ended without an end")


async def superseded(engine: RemoteEngine, request: CompletionRequest, newer: CompletionRequest) -> tuple[str, str]:
    """Let a newer request for the same document take a request's place."""
    older = asyncio.ensure_future(complete(engine, request, "never"))
    await asyncio.sleep(0.005)
    ends = await asyncio.gather(complete(engine, newer, "never"), older)
    return ends[0], ends[1]


async def run(options: argparse.Namespace, say: Callable[[str], None]) -> dict[str, Any]:
    surroundings = Surroundings()
    model = (options.model or demo_model()).resolve()
    sizes = {"n_ctx": options.n_ctx, "max_tokens": options.n_predict}
    variants = [
        variant(model, name="base", **sizes),
        variant(model, (ACME, "1"), name="acme", **sizes),
        variant(model, (FIM, "1"), name="fim", **sizes),
        variant(model, (ACME, "0.5"), name="acme-half", **sizes),
        variant(model, (ACME, "1"), (FIM, "1"), name="both", **sizes),
    ]
    chance = random.Random(options.seed)
    typist = Typist({name: prompt_of(model, options.tokens, name) for name in _DOCUMENTS}, chance)
    ends: Counter[str] = Counter()
    took: list[float] = []
    rss: list[int] = []
    curve: list[Point] = []
    base = max(1, options.count // 10)
    async with hosted() as (host, engine):
        began = time.perf_counter()
        while len(rss) < options.count:
            used, asked = chance.choice(variants), time.perf_counter()
            leave = chance.choice(("early", "started", "newer")) if chance.random() < _GIVEN_UP else "never"
            if leave == "newer":
                ends.update(await superseded(engine, _request(typist, used), _request(typist, used)))
            else:
                ends[await complete(engine, _request(typist, used), leave)] += 1
            if leave == "never":
                took.append((time.perf_counter() - asked) * 1000)
            rss.append(host.memory()["rss"])
            if len(rss) % max(1, options.count // _POINTS) == 0 or len(rss) == base:
                curve.append(await point(host, engine, len(rss), time.perf_counter() - began))
                say(f"{len(rss)} of {options.count}: {rss[-1] / 1e6:.1f} MB")
        metrics = await engine.metrics()
        cpu = host.cpu_seconds()
        # A host that lost its count of what runs would not be at rest now.
        if gauges(metrics)["queued"] or (await engine.status()).state.value != "ready":
            raise BenchError(f"the host is not at rest: {await engine.status()}")
        work = host.clock.read()
    after = rss[base - 1]
    growth = round(100 * (max(rss[base - 1 :]) / after - 1), 2)
    return {
        **context_of(options, model, host.threads),
        "count": options.count,
        "seed": options.seed,
        "seconds": round(time.perf_counter() - began, 1),
        "ends": dict(ends),
        "whole_ms": asdict(Spread.of(took)),
        "rss_after_first": after,
        "counted_from": base,
        "most_rss": max(rss[base - 1 :]),
        "last_rss": rss[-1],
        "growth_percent": growth,
        "growth_without_snapshots_percent": _without_snapshots(curve, base),
        "curve": [asdict(one) for one in curve],
        "kv": gauges(metrics, "warmline_kv_moves_total"),
        "reuse": gauges(metrics, "warmline_reuse_total"),
        "decodes_at_once": int(work["decodes_at_once"]),
        "cpu_s": round(cpu, 1),
        "targets": [Target(f"growth of RSS after {base} completions", growth, LIMIT_PERCENT, "%").as_json()],
        **surroundings.as_json(),
    }


def _request(typist: Typist, used: ResolvedVariant) -> CompletionRequest:
    document, prefix = typist.next()
    return CompletionRequest(client="bench", document=document, variant=used, prefix=prefix)


async def point(host: Host, engine: RemoteEngine, completions: int, seconds: float) -> Point:
    """Read the memory and the gauges."""
    now, memory = gauges(await engine.metrics()), host.memory()
    return Point(
        completions,
        round(seconds, 1),
        memory["rss"],
        memory["anonymous"],
        int(now["snapshot_bytes"]),
        int(now["snapshots"]),
        int(now["contexts"]),
    )


def _without_snapshots(curve: list[Point], base: int) -> float:
    counted = [one.rss - one.snapshot_bytes for one in curve if one.completions >= base]
    return round(100 * (max(counted) / counted[0] - 1), 2)


def show(report: dict[str, Any], console: Console) -> None:
    table = Table(title="The host's memory, in MB", title_justify="left")
    for name in ("completions", "seconds", "RSS", "", "anonymous", "KV snapshots", "number", "contexts"):
        table.add_column(name, justify="right", no_wrap=True)
    for one in report["curve"]:
        change = 100 * (one["rss"] / report["rss_after_first"] - 1)
        table.add_row(
            f"{one['completions']:,}",
            f"{one['seconds']:.0f}",
            f"{one['rss'] / 1e6:.1f}",
            f"{change:+.1f} %" if one["completions"] >= report["counted_from"] else "",
            f"{one['anonymous'] / 1e6:.1f}",
            f"{one['snapshot_bytes'] / 1e6:.1f}",
            str(one["snapshots"]),
            str(one["contexts"]),
        )
    console.print(table)
    whole = report["whole_ms"]
    for line in (
        "Ends: " + ", ".join(f"{count:,} {name}" for name, count in report["ends"].items()),
        f"Whole completions {whole['median']:.0f} ms (p95 {whole['p95']:.0f}); {report['seconds']:.0f} s in all, "
        f"{report['cpu_s']:.0f} s CPU of the host; at most {report['decodes_at_once']} native decode at once",
        "KV: " + ", ".join(f"{count:,.0f} {name}" for name, count in report["kv"].items()),
        "Reuse: " + ", ".join(f"{count:,.0f} {name.partition(',')[2]}" for name, count in report["reuse"].items()),
        f"Growth without KV snapshots: {report['growth_without_snapshots_percent']:+.1f} %",
    ):
        console.print(line, highlight=False, markup=False)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=2000, help="completions (2000)")
    parser.add_argument("--seed", type=int, default=0, help="of what is chosen at random (0)")
    parser.add_argument("--tokens", type=int, default=220, help="length of the longest prompt (220)")
    add_context_options(parser, n_ctx=1024, n_predict=8)
    options = parser.parse_args(arguments)
    if options.quick:
        options.count, options.tokens = 20, 80
    if options.count < 1:
        parser.error("--count is at least 1")
    return run_and_show(options, run, show)


if __name__ == "__main__":
    sys.exit(main())
