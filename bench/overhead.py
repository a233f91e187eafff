"""What the engine host adds to the model's own time: client round trip minus native time.

    python bench/overhead.py [--requests 200] [--pause-ms 20] [--quick] [--json]

The same warm completion is asked again and again, alternately of the engine host (`RemoteEngine`, a stream on a Unix
socket) and of the same engine inside the bench (`LocalEngine`), with a pause before each request as between keystrokes.
A warm request decodes one token of the prompt, then what it answers. Columns, all at the client, in milliseconds:

- *round trip*: from before the request is encoded until its last event is decoded;
- *native*: what the host spent in llama_decode and in picking tokens for it, by timers in the host;
- *added*: round trip minus native: the judged figure. It holds everything that is Warmline's: both codecs, the channel,
  scheduling, the files' identity check, tokenising, looking up KV, events;
- *channel*: round trip minus the engine's own time for the request (`Done.total_ms`): codecs, the stream,
  hand-offs between threads;
- *local added*: added by `LocalEngine` (round trip minus its native time): the same work without a channel.

The rows: one new token on a short prompt and on a long one, and sixteen on the long one (each an event of its own).
*Message* is the request as it goes over the stream, which knows the variant by a number from the second one on. Also
two calls that compute nothing, over gRPC: *Info* and *Status*.

Target: *added* is under 3 ms at the 95th percentile, in each row.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import clocked_host
from clocked_host import Clock
from figures import Spread, Surroundings, Target
from hosted import (
    ACME,
    BenchError,
    Reply,
    add_context_options,
    ask,
    context_of,
    demo_model,
    hosted,
    prompt_of,
    run_and_show,
    variant,
)
from rich.console import Console
from rich.table import Table
from warmline.host.client import EngineClient
from warmline.host.frames import framed
from warmline.host.local import LocalEngine
from warmline.host.remote import RemoteEngine
from warmline.host.rpc import encode
from warmline.host.wire import Ask, CompletionRequest

LIMIT_MS = 3.0
COLUMNS = ("round trip", "native", "added", "channel", "local added")


class Caller:
    """One of the two engines, and the clock that runs inside it."""

    def __init__(self, engine: EngineClient, clock: Clock) -> None:
        self._engine = engine
        self._clock = clock

    async def answer(self, request: CompletionRequest) -> tuple[Reply, float]:
        """Ask; return the reply and the native milliseconds that it took."""
        before = self._clock.model()
        reply = await ask(self._engine, request)
        return reply, self._clock.model() - before


async def measure(
    host: Caller, local: Caller, request: CompletionRequest, count: int, pause_s: float
) -> dict[str, Spread]:
    """Ask both, in turn, `count` times; return each column's spread."""
    for caller in (host, local):  # prefill, and the state that every warm request finds
        for _ in range(2):
            await caller.answer(request)
    columns: dict[str, list[float]] = {name: [] for name in COLUMNS}
    for number in range(count):
        for caller in (host, local)[:: -1 if number % 2 else 1]:
            await asyncio.sleep(pause_s)
            reply, native = await caller.answer(request)
            if reply.started.reason != "warm":
                raise BenchError(f"a request was not warm: {reply.started.reason}")
            if reply.done.predicted_tokens != request.max_tokens:
                raise BenchError(f"{reply.done.predicted_tokens} tokens were decoded, not {request.max_tokens}")
            if caller is local:
                columns["local added"].append(reply.total_ms - native)
            else:
                figures = (reply.total_ms, native, reply.total_ms - native, reply.total_ms - reply.done.total_ms)
                for name, figure in zip(COLUMNS, figures, strict=False):
                    columns[name].append(figure)
    return {name: Spread.of(values) for name, values in columns.items()}


async def calls(call: Callable[[], Awaitable[Any]], count: int, pause_s: float) -> Spread:
    """Time a call that computes nothing."""
    took = []
    for _ in range(count):
        await asyncio.sleep(pause_s)
        began = time.perf_counter()
        await call()
        took.append((time.perf_counter() - began) * 1000)
    return Spread.of(took)


async def run(options: argparse.Namespace, say: Callable[[str], None]) -> dict[str, Any]:
    surroundings = Surroundings()
    model = (options.model or demo_model()).resolve()
    used = variant(model, (ACME, "1"), n_ctx=options.n_ctx, max_tokens=options.n_predict)
    wanted = ((100, 1), (options.tokens, 1), (options.tokens, options.n_predict))
    rows = []
    gc.freeze()  # as the language server does, so that no search for garbage goes through all that was imported
    inside = Clock()
    clocked_host.install(inside)
    with tempfile.TemporaryDirectory() as home:
        local_engine = LocalEngine(Path(home))
        try:
            async with hosted() as (host, engine):
                remote, local = Caller(engine, host.clock), Caller(local_engine, inside)
                for tokens, new in wanted:
                    say(f"{new} new tokens on {tokens}")
                    request = CompletionRequest(
                        client="bench",
                        document=f"{tokens}",
                        variant=used,
                        prefix=prompt_of(model, tokens),
                        max_tokens=new,
                    )
                    spreads = await measure(remote, local, request, options.requests, options.pause_ms / 1000)
                    rows.append(
                        {
                            "prompt_tokens": tokens,
                            "new_tokens": new,
                            "message_bytes": len(framed(encode(Ask(number=1, complete=request), 1))),
                            **{name.replace(" ", "_"): asdict(spread) for name, spread in spreads.items()},
                        }
                    )
                empty = await empty_calls(engine, options)
        finally:
            await local_engine.close()
    return {
        **context_of(options, model, host.threads),
        "requests": options.requests,
        "pause_ms": options.pause_ms,
        "rows": rows,
        "calls": empty,
        "targets": [
            Target(
                f"added at p95, {row['new_tokens']} new tokens on {row['prompt_tokens']:,}",
                row["added"]["p95"],
                LIMIT_MS,
                "ms",
            ).as_json()
            for row in rows
        ],
        **surroundings.as_json(),
    }


async def empty_calls(engine: RemoteEngine, options: argparse.Namespace) -> dict[str, Any]:
    found = {}
    for name, call in (("Info", engine.info), ("Status", lambda: engine.status("bench"))):
        found[name] = asdict(await calls(call, options.requests, options.pause_ms / 1000))
    return found


def show(report: dict[str, Any], console: Console) -> None:
    table = Table(title=f"Milliseconds, median (p95) of {report['requests']} requests", title_justify="left")
    for name in ("prompt", "new", "message", *COLUMNS):
        table.add_column(name, justify="right", no_wrap=True)
    for row in report["rows"]:
        spreads = [row[name.replace(" ", "_")] for name in COLUMNS]
        table.add_row(
            f"{row['prompt_tokens']:,}",
            str(row["new_tokens"]),
            f"{row['message_bytes']:,} B",
            *(f"{spread['median']:.2f} ({spread['p95']:.2f})" for spread in spreads),
        )
    console.print(table)
    empty = [f"{name} {spread['median']:.2f} ({spread['p95']:.2f})" for name, spread in report["calls"].items()]
    console.print(f"Calls that compute nothing: {', '.join(empty)}", highlight=False)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=200, help="requests of each kind to each engine (200)")
    parser.add_argument("--pause-ms", type=int, default=20, help="milliseconds before each request (20)")
    parser.add_argument("--tokens", type=int, default=1200, help="length of the long prompt (1200)")
    add_context_options(parser)
    options = parser.parse_args(arguments)
    if options.quick:
        options.requests, options.tokens = 5, 200
    return run_and_show(options, run, show)


if __name__ == "__main__":
    sys.exit(main())
