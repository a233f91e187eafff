"""Switching the adapter and back, A -> B -> A, on one prompt: Warmline's host beside llama-server, in one run.

    python bench/llama_server.py build       # the peer, once
    python bench/switch.py [--rounds 5] [--tokens 1200] [--quick] [--json]

A is the example adapter acme-style, B is fim-python, both at scale 1 on the same base; the prompt is the same for both
(B without its fill-in-the-middle profile). Before the rounds each side has answered A and B once. A round asks for A
(nothing switched: the floor), for B, and for A again, which is what is judged: the first token after the switch back.
The sides take turns, and who begins alternates. All have the same GGUF, adapters, threads, n_ctx, prompt and number of
new tokens, and decode greedily:

- *warmline*: the engine host, asked by `RemoteEngine` as the language server asks it; the clock runs at the client;
- *llama-server*: the same llama.cpp commit, started with both adapters (`--lora` twice), asked with the per-request
  field `lora`; one slot, as an editor has one document; the clock runs at its HTTP client;
- *llama-server, slot per adapter*: what a client could do that knows the trick: two slots of n_ctx each, and `id_slot`
  in each request, so that each adapter keeps a slot. Not judged; it says what the switch costs when nobody forgets KV.

*restored from RAM*: four more variants (acme-style at other scales) push A's context out of the host, which keeps four;
A's KV comes back from its snapshot. Not judged either. A's text must be the same before and after all this, or the
bench fails: KV of another adapter would show there.

Target: warmline's first token after the switch back takes at most 0.02 of llama-server's. Times are wall-clock
milliseconds; ratios are of medians. llama-server's batch size is its own default: texts may differ between the sides.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from figures import Spread, Surroundings, Target
from hosted import (
    ACME,
    FIM,
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
from keystrokes import LlamaServer
from llama_server import running_server
from rich.console import Console
from rich.table import Table
from warmline.host.remote import RemoteEngine
from warmline.host.wire import CompletionRequest
from warmline.variant import ResolvedVariant

LIMIT = 0.02
STEPS = ("A", "B", "A again")
_OTHER_SCALES = ("0.25", "0.5", "0.75", "1.5")


@dataclass(frozen=True)
class Answer:
    """Milliseconds until the first token, tokens and text."""

    first_ms: float
    prompt_tokens: int
    reused_tokens: int
    text: str


class Side(Protocol):
    """Whoever answers with one of the two adapters."""

    name: str

    async def answer(self, adapter: str) -> Answer: ...


class Host:
    """Warmline's host; each adapter is a variant."""

    name = "warmline"

    def __init__(self, engine: RemoteEngine, variants: dict[str, ResolvedVariant], prompt: str) -> None:
        self._engine = engine
        self._variants = variants
        self._prompt = prompt

    async def answer(self, adapter: str) -> Answer:
        reply = await self.ask(self._variants[adapter], self._prompt)
        return Answer(reply.first_ms, reply.started.prompt_tokens, reply.started.reused_tokens, reply.done.text)

    async def ask(self, used: ResolvedVariant, prompt: str) -> Reply:
        return await ask(
            self._engine, CompletionRequest(client="bench", document="switch", variant=used, prefix=prompt)
        )


class Peer:
    """llama-server, with one slot or with one for each adapter."""

    def __init__(self, name: str, server: LlamaServer, prompt: str, *, slot_each: bool) -> None:
        self.name = name
        self._server = server
        self._prompt = prompt
        self._slot_each = slot_each

    async def answer(self, adapter: str) -> Answer:
        wanted = "AB".index(adapter)
        more: dict[str, Any] = {"lora": [{"id": number, "scale": float(number == wanted)} for number in range(2)]}
        if self._slot_each:
            more["id_slot"] = wanted
        got = self._server.answer(self._prompt, **more)
        return Answer(got.first_ms, got.prompt_tokens, got.reused_tokens, got.text)


async def switch(sides: list[Side], rounds: int, say: Callable[[str], None]) -> dict[str, list[tuple[Answer, ...]]]:
    """Run the rounds; return each side's, with the answers of `STEPS`."""
    for side in sides:
        say(f"first answers of {side.name}")
        # The second A leaves the KV of both as the rounds will find it.
        for adapter in "ABA":
            await side.answer(adapter)
    found: dict[str, list[tuple[Answer, ...]]] = {side.name: [] for side in sides}
    for number in range(rounds):
        say(f"round {number + 1} of {rounds}")
        for side in sides[:: -1 if number % 2 else 1]:
            found[side.name].append(tuple([await side.answer(step[0]) for step in STEPS]))
    return found


async def restored(host: Host, model_variants: list[ResolvedVariant], rounds: int) -> list[Answer]:
    """Push A's context out, and ask A again."""
    answers = []
    for number in range(rounds):
        for used in model_variants:
            await host.ask(used, f"import os\n# {number}\n")
        answers.append(await host.answer("A"))
    return answers


def row(name: str, rounds: list[tuple[Answer, ...]]) -> dict[str, Any]:
    """Summarize one side: each step's first token, and how much of the last was reused."""
    return {
        "name": name,
        "first_ms": {
            step: asdict(Spread.of([one[place].first_ms for one in rounds])) for place, step in enumerate(STEPS)
        },
        "prompt_tokens": rounds[0][2].prompt_tokens,
        "reused": {
            step: round(sum(one[place].reused_tokens / one[place].prompt_tokens for one in rounds) / len(rounds), 4)
            for place, step in enumerate(STEPS)
        },
    }


async def run(options: argparse.Namespace, say: Callable[[str], None]) -> dict[str, Any]:
    surroundings = Surroundings()
    model = (options.model or demo_model()).resolve()
    prompt = prompt_of(model, options.tokens)
    sizes = {"n_ctx": options.n_ctx, "max_tokens": options.n_predict}
    variants = {"A": variant(model, (ACME, "1"), **sizes), "B": variant(model, (FIM, "1"), **sizes)}
    loras = ("--lora", str(ACME), "--lora", str(FIM), "--log-verbosity", "2")
    async with hosted() as (host, engine):
        settings = {"threads": host.threads, "n_ctx": options.n_ctx, "extra": loras}
        with running_server(model, **settings) as one, running_server(model, slots=2, **settings) as two:
            peers = [LlamaServer(server, options.n_predict) for server in (one, two)]
            ours = Host(engine, variants, prompt)
            sides: list[Side] = [
                ours,
                Peer("llama-server", peers[0], prompt, slot_each=False),
                Peer("llama-server, slot per adapter", peers[1], prompt, slot_each=True),
            ]
            build = peers[0].properties().get("build_info", "")
            found = await switch(sides, options.rounds, say)
            say("pushing A out")
            others = [variant(model, (ACME, scale), **sizes) for scale in _OTHER_SCALES]
            back = await restored(ours, others, options.rounds)
    judge(found, back)
    rows = [row(name, rounds) for name, rounds in found.items()]
    ratio = round(rows[0]["first_ms"][STEPS[2]]["median"] / rows[1]["first_ms"][STEPS[2]]["median"], 4)
    return {
        **context_of(options, model, host.threads),
        "llama_server": build,
        "rounds": options.rounds,
        "rows": rows,
        "restored_from_ram": {
            "first_ms": asdict(Spread.of([answer.first_ms for answer in back])),
            "reused_tokens": min(answer.reused_tokens for answer in back),
        },
        "ratio": ratio,
        "targets": [Target("first token after the switch back, warmline / llama-server", ratio, LIMIT).as_json()],
        **surroundings.as_json(),
    }


def judge(found: dict[str, list[tuple[Answer, ...]]], back: list[Answer]) -> None:
    """Refuse figures of unequal work, and KV that was not the adapter's own."""
    tokens = {answer.prompt_tokens for rounds in found.values() for one in rounds for answer in one}
    if len(tokens) != 1:
        raise BenchError(f"the sides had prompts of {sorted(tokens)} tokens")
    ours = found[Host.name]
    texts = {one[place].text for one in ours for place in (0, 2)} | {answer.text for answer in back}
    if len(texts) != 1:
        raise BenchError(f"the same adapter and the same KV gave {len(texts)} texts: {sorted(texts)}")
    if texts & {one[1].text for one in ours}:
        raise BenchError("A and B gave one text: nothing was switched")


def show(report: dict[str, Any], console: Console) -> None:
    table = Table(
        title=f"First token in milliseconds, median (p95) of {report['rounds']} rounds; tokens reused",
        title_justify="left",
    )
    table.add_column("side", no_wrap=True)
    for name in STEPS:
        table.add_column(name, justify="right", no_wrap=True)
        table.add_column("", justify="right", no_wrap=True)
    for one in report["rows"]:
        cells = []
        for step in STEPS:
            spread = one["first_ms"][step]
            cells += [f"{spread['median']:,.1f} ({spread['p95']:,.1f})", f"{100 * one['reused'][step]:.1f} %"]
        table.add_row(one["name"], *cells)
    console.print(table)
    back = report["restored_from_ram"]
    console.print(
        f"A's context pushed out and restored from RAM: {back['first_ms']['median']:.1f} ms "
        f"(p95 {back['first_ms']['p95']:.1f}), {back['reused_tokens']:,} of "
        f"{report['rows'][0]['prompt_tokens']:,} tokens reused",
        highlight=False,
    )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="rounds of A, B, A (5)")
    parser.add_argument("--tokens", type=int, default=1200, help="length of the prompt (1200)")
    add_context_options(parser)
    options = parser.parse_args(arguments)
    if options.quick:
        options.rounds, options.tokens = 1, 150
    return run_and_show(options, run, show)


if __name__ == "__main__":
    sys.exit(main())
