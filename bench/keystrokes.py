"""The first part of `typing.py`, at the engine: the same keystrokes to Warmline and to llama-server.

Compared
    One run types the real next characters of standard-library modules, one keystroke at a time, from some line after
    60 % of each file (Enter brings the indentation along, as editors do). Each keystroke asks both sides for a
    completion of the same text, one right after the other, and which one goes first alternates: what else the machine
    does hits both. Both have the same GGUF, threads, context size and number of new tokens, decode greedily and keep
    their KV between requests. llama-server is the same llama.cpp commit (`llama_server.py`), with one slot, its log
    turned down, and no samplers but the greedy one.

    With `--engine host`, which is what users get, Warmline is the engine host, a process of its own like llama-server;
    with `--engine local` its engine runs inside the bench. Its clock runs from before the request is built until
    `complete` has delivered the first piece of text, and the last event, to the caller's loop: the channel to the
    host, validation, scheduling, identity check, tokenising, window, KV, decode, thread hand-offs. llama-server's clock
    runs in its HTTP client, from before the JSON body is built until the first streamed event with text, and the last
    one, has been read. It closes the connection after each stream (though it promises to keep it alive), so the client
    connects anew before each request, while the clock stands still.

Not compared
    What an editor adds on either side (the language server's protocol, a plugin's own work), suggestion filters and
    cutting the window out of the document: llama-server gets the text that Warmline's window chose, so it profits from
    a window that does not move with each line. No suffix: SmolLM2 knows no fill-in-the-middle. One client: nothing is
    superseded or cancelled. The first request in a file is cold on both sides and reported apart.

Also reported
    CPU time: of either server's process and of its client apart (`--engine local`: all of it is the client's). *Outside
    the model*: what is left of Warmline's latency without its native decodes and its sampling, by the timers of
    `clocked_host.py`, and of llama-server's without the prompt and decode times that it reports itself (they include
    its sampling). So tokenising the prompt is part of it on both sides; Warmline's share of that is named. Texts are
    compared too: they may differ where the two split a prompt into other batches, since the batch size picks the
    kernel. llama-server has its own default batch size; with --same-batches it gets Warmline's, and then all texts must
    be equal. Unequal numbers of prompt tokens are an error always.

Times are wall-clock milliseconds; a ratio is warmline / llama-server, of the medians.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import re
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import clocked_host
from clocked_host import Clock
from figures import Spread, Surroundings
from hosted import (
    BenchError,
    add_context_options,
    ask,
    context_of,
    demo_model,
    hosted,
    source_text,
    variant,
)
from llama_server import HOST, Server, running_server
from rich.console import Console
from rich.table import Table
from warmline.backends.base import ContextConfig, default_threads
from warmline.host.client import EngineClient
from warmline.host.local import LocalEngine
from warmline.host.wire import CompletionRequest
from warmline.prompts.window import window
from warmline.variant import ResolvedVariant

MODULES = ("textwrap", "configparser", "difflib", "argparse", "tarfile")


# -- what is typed ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Lines:
    """A document as `warmline.prompts.window` reads it."""

    lines: tuple[str, ...]

    @classmethod
    def of(cls, text: str) -> Lines:
        # Not str.splitlines: it splits at form feeds too, and the standard library has some.
        *whole, last = text.split("\n")
        return cls((*(line + "\n" for line in whole), last))

    @property
    def line_count(self) -> int:
        return len(self.lines)

    def slice_lines(self, first: int, last: int) -> str:
        return "".join(self.lines[first:last])


@dataclass(frozen=True)
class Typing:
    """A file with a cursor, and the keystrokes to come."""

    name: str
    head: str
    keys: tuple[str, ...]
    tail: str

    def prompts(self) -> Iterator[str]:
        """Yield the text before the cursor, as the window cuts it: before the first key, then after each."""
        for count in range(len(self.keys) + 1):
            before = self.head + "".join(self.keys[:count])
            document = Lines.of(before + self.tail)
            yield window(document, before.count("\n"), len(before) - before.rfind("\n") - 1).prefix


def typing_into(module: str, keys: int) -> Typing:
    """Put the cursor at the start of the first function's body after 60 % of a module, and type what stands there."""
    source = source_text(module)
    body = re.compile(r"^[ \t]+def .*:\n[ \t]+", re.MULTILINE).search(source, source.find("\n", len(source) * 6 // 10))
    if body is None:
        raise BenchError(f"`{module}` has no function after 60 % of its source")
    strokes = re.compile(r"\n+[ \t]*|.").findall(source, body.end())[:keys]
    return Typing(module, source[: body.end()], tuple(strokes), source[body.end() + len("".join(strokes)) :])


# -- what is measured ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Answer:
    """One completion: milliseconds, tokens and text. `outside` is the time that is not the model's.

    `tokenize_ms` is a part of `outside`; None where nobody can tell.
    """

    first_ms: float
    total_ms: float
    outside_first_ms: float
    outside_total_ms: float
    prompt_tokens: int
    reused_tokens: int
    text: str
    tokenize_ms: float | None = None


class Warmline:
    """An engine, in its host or in this process, asked as the faces ask it.

    Parameters
    ----------
    clock
        Runs where the engine runs.
    host_cpu
        CPU seconds of the host so far; None when the engine is in this process.
    """

    def __init__(
        self,
        engine: EngineClient,
        used: ResolvedVariant,
        clock: Clock,
        host_cpu: Callable[[], float] | None = None,
    ) -> None:
        self._engine = engine
        self._variant = used
        self._clock = clock
        self._host_cpu = host_cpu
        self._host_cpu_at_start = 0.0
        self.client_cpu_s = 0.0

    @property
    def host_cpu_s(self) -> float | None:
        return None if self._host_cpu is None else self._host_cpu() - self._host_cpu_at_start

    def start_counting(self) -> None:
        """Begin to count CPU time."""
        self.client_cpu_s = 0.0
        self._host_cpu_at_start = self._host_cpu() if self._host_cpu is not None else 0.0

    async def answer(self, document: str, prefix: str) -> Answer:
        cpu, before = time.process_time(), self._clock.read()
        spent = self._clock.model()
        at_first = spent

        def on_first() -> None:
            nonlocal at_first
            at_first = self._clock.model()

        request = CompletionRequest(client="bench", document=document, variant=self._variant, prefix=prefix)
        reply = await ask(self._engine, request, on_first)
        self.client_cpu_s += time.process_time() - cpu
        return Answer(
            reply.first_ms,
            reply.total_ms,
            reply.first_ms - (at_first - spent),
            reply.total_ms - (self._clock.model() - spent),
            reply.started.prompt_tokens,
            reply.started.reused_tokens,
            reply.done.text,
            self._clock.read()["tokenize"] - before["tokenize"],
        )


@contextlib.asynccontextmanager
async def engine_of(options: argparse.Namespace, used: ResolvedVariant) -> AsyncIterator[Warmline]:
    """Give Warmline as `--engine` asks for it."""
    if options.engine == "host":
        async with hosted(threads=options.threads) as (host, engine):
            yield Warmline(engine, used, host.clock, host.cpu_seconds)
        return
    clock = Clock()
    clocked_host.install(clock, threads=options.threads)
    with tempfile.TemporaryDirectory() as home:
        local = LocalEngine(Path(home))
        try:
            yield Warmline(local, used, clock)
        finally:
            await local.close()


class LlamaServer:
    """A client of llama-server; its connection is open before a request's clock starts."""

    def __init__(self, server: Server, n_predict: int) -> None:
        self._server = server
        self._n_predict = n_predict
        self._cpu_at_start = server.cpu_seconds()
        self.client_cpu_s = 0.0

    @property
    def cpu_s(self) -> float:
        return self._server.cpu_seconds() - self._cpu_at_start

    def properties(self) -> dict[str, Any]:
        with self._connected() as connection:
            connection.request("GET", "/props")
            found: dict[str, Any] = json.loads(connection.getresponse().read())
            return found

    @contextlib.contextmanager
    def _connected(self) -> Iterator[http.client.HTTPConnection]:
        with contextlib.closing(http.client.HTTPConnection(HOST, self._server.port, timeout=600)) as connection:
            connection.connect()
            yield connection

    def answer(self, prefix: str, **more: Any) -> Answer:
        """Complete; `more` are further fields of llama-server's request."""
        try:
            with self._connected() as connection:
                return self._answer(connection, prefix, more)
        except (http.client.HTTPException, OSError) as error:
            words = "\n".join(self._server.log.read_text(errors="replace").splitlines()[-5:])
            raise BenchError(f"llama-server broke off ({type(error).__name__}); its last words:\n{words}") from error

    def _answer(self, connection: http.client.HTTPConnection, prefix: str, more: dict[str, Any]) -> Answer:
        cpu, began = time.process_time(), time.perf_counter()
        body = {
            "prompt": prefix,
            "n_predict": self._n_predict,
            "temperature": 0,
            "samplers": ["temperature"],
            "cache_prompt": True,
            "stream": True,
            **more,
        }
        connection.request("POST", "/completion", json.dumps(body), {"Content-Type": "application/json"})
        response = connection.getresponse()
        if response.status != 200:
            raise BenchError(f"llama-server answers {response.status}: {response.read(500)!r}")
        received, read, first, texts = b"", 0, 0.0, []
        last: dict[str, Any] = {}
        while not last.get("stop"):
            piece = response.read1(65536)
            if not piece:
                raise BenchError(f"llama-server ends its answer early: {received[-500:]!r}")
            received += piece
            while (end := received.find(b"\n\n", read)) >= 0:
                event, read = received[read:end], end + 2
                if not event.startswith(b"data: "):
                    continue  # a comment, which keeps the connection alive in a long prefill
                last = json.loads(event.removeprefix(b"data: "))
                texts.append(last["content"])
                if not first and (last["content"] or last["stop"]):
                    first = time.perf_counter() - began
        total = time.perf_counter() - began
        response.read()
        self.client_cpu_s += time.process_time() - cpu
        first, total, timings = first * 1000, total * 1000, last["timings"]
        return Answer(
            first,
            total,
            first - timings["prompt_ms"],
            total - timings["prompt_ms"] - timings["predicted_ms"],
            timings["cache_n"] + timings["prompt_n"],
            timings["cache_n"],
            "".join(texts),
        )


@dataclass
class FileRun:
    """The answers of both sides in one file; the first pair is the cold one."""

    name: str
    pairs: list[tuple[Answer, Answer]] = field(default_factory=list)


@dataclass(frozen=True)
class Side:
    """One side's figures over the warm keystrokes."""

    first_ms: Spread
    total_ms: Spread
    outside_first_ms: Spread
    outside_total_ms: Spread
    reused: float
    tokenize_ms: Spread | None

    @classmethod
    def of(cls, answers: list[Answer]) -> Side:
        tokenizing = [answer.tokenize_ms for answer in answers if answer.tokenize_ms is not None]
        return cls(
            Spread.of([answer.first_ms for answer in answers]),
            Spread.of([answer.total_ms for answer in answers]),
            Spread.of([answer.outside_first_ms for answer in answers]),
            Spread.of([answer.outside_total_ms for answer in answers]),
            round(sum(a.reused_tokens for a in answers) / sum(a.prompt_tokens for a in answers), 4),
            Spread.of(tokenizing) if tokenizing else None,
        )


@dataclass(frozen=True)
class Row:
    """One file, or all of them."""

    name: str
    keys: int
    prompt_tokens: int
    warmline: Side
    llama_server: Side
    first_ratio: float
    total_ratio: float
    equal_texts: float
    cold_first_ms: tuple[float, float] | None = None
    cold_equal: bool | None = None

    @classmethod
    def of(cls, name: str, pairs: list[tuple[Answer, Answer]], cold: tuple[Answer, Answer] | None) -> Row:
        ours, theirs = Side.of([a for a, _ in pairs]), Side.of([b for _, b in pairs])
        return cls(
            name,
            len(pairs),
            max(a.prompt_tokens for a, _ in pairs),
            ours,
            theirs,
            round(ours.first_ms.median / theirs.first_ms.median, 3),
            round(ours.total_ms.median / theirs.total_ms.median, 3),
            round(sum(a.text == b.text for a, b in pairs) / len(pairs), 3),
            (round(cold[0].first_ms, 1), round(cold[1].first_ms, 1)) if cold else None,
            cold[0].text == cold[1].text if cold else None,
        )


async def type_into(document: Typing, ours: Warmline, theirs: LlamaServer) -> FileRun:
    """Send every state of a document to both sides, in turn."""
    run = FileRun(document.name)
    for number, prefix in enumerate(document.prompts()):
        if number % 2:
            theirs_answer = theirs.answer(prefix)
            our_answer = await ours.answer(document.name, prefix)
        else:
            our_answer = await ours.answer(document.name, prefix)
            theirs_answer = theirs.answer(prefix)
        if our_answer.prompt_tokens != theirs_answer.prompt_tokens:
            raise BenchError(
                f"{document.name}, key {number}: the prompts differ, {our_answer.prompt_tokens} and "
                f"{theirs_answer.prompt_tokens} tokens; a larger --n-ctx leaves them uncut"
            )
        run.pairs.append((our_answer, theirs_answer))
    return run


# -- the run ---------------------------------------------------------------------------------------------------------


async def run(options: argparse.Namespace, say: Callable[[str], None]) -> dict[str, Any]:
    model = (options.model or demo_model()).resolve()
    documents = [typing_into(module, options.keys) for module in MODULES[: options.files]]
    extra = ["--log-verbosity", "2"]
    if options.adapter is not None:
        extra += ["--lora", str(options.adapter)]
    if options.same_batches:
        batch = str(ContextConfig(n_ctx=options.n_ctx).n_batch)
        extra += ["--batch-size", batch, "--ubatch-size", batch]
    surroundings = Surroundings()
    used = variant(
        model,
        *([] if options.adapter is None else [(options.adapter.resolve(), "1")]),
        n_ctx=options.n_ctx,
        max_tokens=options.n_predict,
    )
    with running_server(model, threads=options.threads, n_ctx=options.n_ctx, extra=tuple(extra)) as server:
        async with engine_of(options, used) as ours:
            theirs = LlamaServer(server, options.n_predict)
            # Loading is nobody's latency here.
            await ours.answer("warm-up", "import os\n")
            theirs.answer("import os\n")
            build = theirs.properties().get("build_info", "")
            ours.start_counting()
            theirs.client_cpu_s, cpu_before = 0.0, theirs.cpu_s
            runs = []
            for document in documents:
                say(f"typing {len(document.keys)} keys into {document.name}")
                runs.append(await type_into(document, ours, theirs))
            cpu = {
                "warmline_host_s": None if ours.host_cpu_s is None else round(ours.host_cpu_s, 2),
                "warmline_client_s": round(ours.client_cpu_s, 2),
                "llama_server_s": round(theirs.cpu_s - cpu_before, 2),
                "llama_server_client_s": round(theirs.client_cpu_s, 2),
            }
    rows = [Row.of(one.name, one.pairs[1:], one.pairs[0]) for one in runs]
    rows.append(Row.of("all", [pair for one in runs for pair in one.pairs[1:]], None))
    return {
        **context_of(options, model, options.threads),
        "engine": options.engine,
        "adapter": options.adapter and options.adapter.name,
        "same_batches": options.same_batches,
        "llama_server": build,
        **surroundings.as_json(),
        "targets": [],
        "cpu": cpu,
        "rows": [asdict(row) for row in rows],
    }


def show(report: dict[str, Any], console: Console) -> None:
    table = Table(title="Milliseconds, median (p95): warmline | llama-server", title_justify="left")
    table.add_column("file", no_wrap=True)
    for name in ("tokens", "first token", "", "ratio", "whole answer", "", "ratio", "reused %", "same text %", "cold"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in report["rows"]:
        ours, theirs, cells = row["warmline"], row["llama_server"], [row["name"], f"{row['prompt_tokens']:,}"]
        for measure, ratio in (("first_ms", "first_ratio"), ("total_ms", "total_ratio")):
            cells += [f"{side[measure]['median']:.1f} ({side[measure]['p95']:.1f})" for side in (ours, theirs)]
            cells.append(f"{row[ratio]:.2f}")
        cells += [f"{100 * ours['reused']:.1f} | {100 * theirs['reused']:.1f}", f"{100 * row['equal_texts']:.0f}"]
        cold = row["cold_first_ms"]
        cells.append(f"{cold[0]:,.0f} | {cold[1]:,.0f}{'' if row['cold_equal'] else ' other text'}" if cold else "")
        table.add_row(*cells)
    console.print(table)
    whole, cpu = report["rows"][-1], report["cpu"]
    outside = [
        f"{name} {side['outside_first_ms']['median']:.2f} and {side['outside_total_ms']['median']:.2f} ms"
        for name, side in (("warmline", whole["warmline"]), ("llama-server", whole["llama_server"]))
    ]
    console.print(
        f"Outside the model, until the first token and in all: {'; '.join(outside)} "
        f"(warmline tokenises for {whole['warmline']['tokenize_ms']['median']:.2f} ms)",
        highlight=False,
    )
    host = "" if cpu["warmline_host_s"] is None else f"host {cpu['warmline_host_s']} s, "
    console.print(
        f"CPU: warmline {host}client {cpu['warmline_client_s']} s; llama-server {cpu['llama_server_s']} s, its client "
        f"{cpu['llama_server_client_s']} s",
        highlight=False,
    )
    console.print(f"Engine {report['engine']}, adapter {report['adapter'] or 'none'}", highlight=False)


def options_from(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="typing.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--files", type=int, default=len(MODULES), help=f"how many files, at most {len(MODULES)} (all)")
    parser.add_argument("--keys", type=int, default=100, help="keystrokes in each (100)")
    parser.add_argument(
        "--engine", choices=("host", "local"), default="host", help="where Warmline's engine runs (host)"
    )
    parser.add_argument(
        "--threads", type=int, default=default_threads(), help="of either side (the engine's own choice)"
    )
    parser.add_argument("--adapter", type=Path, help="GGUF of a LoRA, at scale 1 on both sides (none)")
    parser.add_argument("--same-batches", action="store_true", help="llama-server prefills in Warmline's batch size")
    add_context_options(parser)
    options = parser.parse_args(arguments)
    if options.quick:
        options.files, options.keys = 1, 10
    if not 1 <= options.files <= len(MODULES) or min(options.keys, options.threads, options.n_predict) < 1:
        parser.error(f"--files is 1 to {len(MODULES)}; --keys, --threads and --n-predict are at least 1")
    return options
