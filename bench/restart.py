"""The first suggestion after the engine host was restarted: with KV on disk, and without.

    python bench/restart.py [--rounds 5] [--tokens 1200] [--quick] [--json]

Each round ends the host (politely: it writes the hottest KV to disk), removes the snapshots, and asks for a suggestion:
*cold*. Then it ends the host again, leaves the snapshots in place, and asks the same: *warm*. So the two are asked in
turn, by the client that the faces use, which starts the host because none runs. Both find the base's digest in the
store's cache and the model file in the page cache: a first start ever is slower in both.

The clock runs at the client, from before it looks for a host until the last piece of the suggestion. Where the time
goes is told by timers in the host (`clocked_host.py`):

- *start*: until the host answers its first call: Python and its imports, the lease, the socket;
- *import*, *libraries*: importing llama.cpp, and hashing its shared libraries (their digest is identity);
- *verify*: opening, hashing and checking base and adapter; *vocabulary*: reading the base's without its weights;
- *load*, *probe*, *context*: the base's weights, the proof that the adapter changes something (once, and then kept on
  disk), the context;
- *disk*, *restore*: reading and checking a snapshot, giving it to the context;
- *tokenize*, *decode*: the prompt into tokens; prefill, decode and sampling; *other*: what is left, and the channel.

Target: the warm suggestion takes at most 0.25 of the cold one's time. Times are wall-clock milliseconds, medians.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from clocked_host import STAGES
from figures import Spread, Surroundings, Target
from hosted import (
    ACME,
    BenchError,
    Host,
    add_context_options,
    ask,
    context_of,
    demo_model,
    prompt_of,
    run_and_show,
    variant,
)
from rich.console import Console
from rich.table import Table
from warmline.errors import WarmlineError
from warmline.host.wire import CompletionRequest

LIMIT = 0.25
_TOGETHER = {"digest": "verify", "sample": "decode", "save": "other"}
PARTS = ("start", *(stage for stage in STAGES if stage not in _TOGETHER), "other")


@dataclass(frozen=True)
class First:
    """The first suggestion of a fresh host. `first_ms` and `total_ms` begin before it is started."""

    first_ms: float
    total_ms: float
    parts: dict[str, float]
    reason: str
    prompt_tokens: int
    reused_tokens: int
    text: str


async def first_suggestion(host: Host, request: CompletionRequest) -> First:
    """Ask while no host runs."""
    if await host.running():
        raise BenchError("a host runs already")
    engine = host.engine()
    try:
        began = time.perf_counter()
        await engine.info()
        start = (time.perf_counter() - began) * 1000
        reply = await ask(engine, request)
    finally:
        await engine.close()
    parts = dict.fromkeys(PARTS, 0.0)
    for stage, spent in host.clock.read().items():
        if stage in STAGES:
            parts[_TOGETHER.get(stage, stage)] += spent
    total = start + reply.total_ms
    parts["start"] = start
    parts["other"] += total - sum(parts.values())
    started = reply.started
    return First(
        start + reply.first_ms,
        total,
        parts,
        started.reason,
        started.prompt_tokens,
        started.reused_tokens,
        reply.done.text,
    )


def side(firsts: list[First]) -> dict[str, Any]:
    """Summarize one side."""
    return {
        "first_ms": asdict(Spread.of([one.first_ms for one in firsts])),
        "total_ms": asdict(Spread.of([one.total_ms for one in firsts])),
        "parts_ms": {part: Spread.of([one.parts[part] for one in firsts]).median for part in PARTS},
        "reasons": sorted({one.reason for one in firsts}),
        "prompt_tokens": firsts[0].prompt_tokens,
        "reused_tokens": min(one.reused_tokens for one in firsts),
    }


async def run(options: argparse.Namespace, say: Callable[[str], None]) -> dict[str, Any]:
    surroundings = Surroundings()
    model = (options.model or demo_model()).resolve()
    request = CompletionRequest(
        client="bench",
        document="restart",
        variant=variant(model, (ACME, "1"), n_ctx=options.n_ctx, max_tokens=options.n_predict),
        prefix=prompt_of(model, options.tokens),
    )
    host = Host()
    stops, sizes, cold, warm = [], [], [], []
    try:
        say("once, so that digests are cached")
        await first_suggestion(host, request)
        for number in range(options.rounds):
            say(f"round {number + 1} of {options.rounds}")
            host.stop()
            host.snapshots.purge()
            cold.append(await first_suggestion(host, request))
            stops.append(host.stop())
            sizes.append(sum(entry.nbytes for entry in host.snapshots.entries()))
            warm.append(await first_suggestion(host, request))
    except WarmlineError as error:
        raise BenchError(f"{error}\n{host.last_words()}") from error
    finally:
        host.close()
    if any(one.reused_tokens for one in cold):
        raise BenchError("a cold suggestion reused KV")
    if any(one.reused_tokens < one.prompt_tokens - 1 for one in warm):
        raise BenchError(f"a restarted host did not find its KV: {[one.reason for one in warm]}")
    sides = {"cold": side(cold), "warm": side(warm)}
    ratios = {
        name: round(sides["warm"][name]["median"] / sides["cold"][name]["median"], 3)
        for name in ("first_ms", "total_ms")
    }
    return {
        **context_of(options, model, host.threads),
        "adapter": "acme-style",
        "rounds": options.rounds,
        "sides": sides,
        "ratio": ratios,
        "same_text": sum(a.text == b.text for a, b in zip(cold, warm, strict=True)),
        "stop_ms": asdict(Spread.of(stops)),
        "snapshot_bytes": max(sizes),
        "targets": [Target("first suggestion, warm / cold", ratios["total_ms"], LIMIT).as_json()],
        **surroundings.as_json(),
    }


def show(report: dict[str, Any], console: Console) -> None:
    cold, warm = report["sides"]["cold"], report["sides"]["warm"]
    table = Table(title=f"Milliseconds, medians of {report['rounds']} rounds", title_justify="left")
    for name in ("", "cold", "warm", "ratio"):
        table.add_column(name, justify="right" if name else "left", no_wrap=True)
    for name, measure in (("first token", "first_ms"), ("suggestion", "total_ms")):
        values = [f"{one[measure]['median']:,.0f} ({one[measure]['p95']:,.0f})" for one in (cold, warm)]
        table.add_row(f"{name} (p95)", *values, f"{report['ratio'][measure]:.3f}", end_section=measure == "total_ms")
    for part in PARTS:
        table.add_row(part, *(f"{one['parts_ms'][part]:,.1f}" for one in (cold, warm)), "")
    console.print(table)
    console.print(
        f"{cold['prompt_tokens']} tokens, {warm['reused_tokens']} reused ({', '.join(warm['reasons'])}); the host "
        f"takes {report['stop_ms']['median']:.0f} ms to leave and writes {report['snapshot_bytes'] / 1e6:.1f} MB; "
        f"same text in {report['same_text']} of {report['rounds']} rounds",
        highlight=False,
    )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="restarts of each kind (5)")
    parser.add_argument("--tokens", type=int, default=1200, help="length of the prompt (1200)")
    add_context_options(parser)
    options = parser.parse_args(arguments)
    if options.quick:
        options.rounds, options.tokens = 1, 200
    return run_and_show(options, run, show)


if __name__ == "__main__":
    sys.exit(main())
