"""A storm of keystrokes: thirty a second for twenty seconds, each with a request that the next one cancels.

    python bench/storm.py [--seconds 20] [--rate 30] [--cold] [--quick] [--json]

Real `warmline lsp` over its stdio, started as an editor starts it, on an engine host of its own. The document is a
module of the standard library; what is typed are its own next characters. Each keystroke sends the edit, cancels the
request before it if that has no answer yet (as VS Code does), and asks for an inline completion. After the last one
nothing is sent: its answer counts. Before the storm one request is answered, so that the KV is there; with `--cold` the
storm begins on a cold engine instead.

What must hold:

- *never two decodes at once*: the host counts the native decodes that run at one time, from inside;
- *no queue growth*: the gauge of waiting jobs, sampled four times a second, is never above 1 (the request that waits
  for the cancelled one to stop), or 2 with `--cold` (while the base is loaded, what loads the workspace's variant for
  the status bar waits too: one job a workspace, which no keystroke repeats);
- *the last answer is right*: it belongs to the final text and cursor, and its text is that of a fresh process and
  context that replays the very batches which the storm left behind, and then decodes greedily. (The batch size picks
  the kernel, so a cold request in one piece may differ; whether it does, is reported.)
- *no keystroke stays unanswered*: each request ends with a suggestion, null, or LSP's error for cancelled requests.

Also: how many keystrokes got a suggestion, how long one waits for it, and the longest time without any; CPU time of the
host, the language server and the bench as editor; native decodes, aborted ones and tokens. Exit code 1 when one of the
four does not hold.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from figures import Spread, Surroundings, Target
from hosted import (
    ACME,
    BenchError,
    Host,
    add_context_options,
    context_of,
    cpu_seconds,
    demo_model,
    gauges,
    hosted,
    run_and_show,
    variant,
)
from keystrokes import Lines, Typing, typing_into
from rich.console import Console
from warmline.backends.base import AdapterOnDisk, ContextConfig
from warmline.backends.llama import LlamaBackend
from warmline.digests import DigestCache
from warmline.host.remote import RemoteEngine
from warmline.prompts.window import window
from warmline_server.completion import complete
from warmline_server.lsp.framing import frame
from warmline_server.suggest.context import Context
from warmline_server.suggest.pipeline import suggest

_CANCELLED = -32800  # RequestCancelled in LSP
_ANSWER_SECONDS = 120.0
_SAMPLE_SECONDS = 0.25
# Nothing spares the engine a key: no wait for the next one, nothing kept, nothing decoded ahead.
EACH_KEY = {"speculate": False, "maxDebounceMs": 0, "reuse": 0, "lines": "several", "contextExcerpts": 0}


class Editor:
    """A language client on the server's pipes, which never waits for an answer unless it is told to."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self._pending: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._sent = 0
        self._reading = asyncio.ensure_future(self._read())

    @classmethod
    async def start(cls, root: Path) -> Editor:
        """Start `warmline lsp` on a workspace."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "warmline_server", "lsp"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            cwd=root,
            limit=1 << 24,
        )
        editor = cls(process)
        folder = {"uri": root.as_uri(), "name": root.name}
        general = {"positionEncodings": ["utf-32"]}
        parameters = {
            "processId": os.getpid(),
            "rootUri": root.as_uri(),
            "workspaceFolders": [folder],
            "capabilities": {"general": general},
            "initializationOptions": {"suggest": EACH_KEY},
        }
        answer = await editor.request("initialize", parameters)
        if answer["result"]["capabilities"].get("positionEncoding") != "utf-32":
            raise BenchError("the server counts positions in another encoding")
        editor.notify("initialized", {})
        return editor

    def notify(self, method: str, parameters: object) -> None:
        self._send({"method": method, "params": parameters})

    def request(self, method: str, parameters: object) -> asyncio.Future[dict[str, Any]]:
        """Send a request now; the future gives the whole answer."""
        self._sent += 1
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        future.number = self._sent  # type: ignore[attr-defined]
        self._pending[self._sent] = future
        self._send({"id": self._sent, "method": method, "params": parameters})
        return future

    def cancel(self, future: asyncio.Future[dict[str, Any]]) -> None:
        self.notify("$/cancelRequest", {"id": future.number})  # type: ignore[attr-defined]

    async def stop(self) -> None:
        with suppress(ConnectionError, asyncio.TimeoutError, BenchError):
            await asyncio.wait_for(self.request("shutdown", None), 20)
            self.notify("exit", None)
            await asyncio.wait_for(self.process.wait(), 20)
        if self.process.returncode is None:
            self.process.kill()
            await self.process.wait()
        self._reading.cancel()

    def _send(self, content: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(frame(json.dumps({"jsonrpc": "2.0", **content}).encode()))

    async def _read(self) -> None:
        stream = self.process.stdout
        assert stream is not None
        with suppress(asyncio.IncompleteReadError):
            while True:
                headers = await stream.readuntil(b"\r\n\r\n")
                length = next(
                    int(line.partition(b":")[2])
                    for line in headers.lower().splitlines()
                    if line.startswith(b"content-length")
                )
                message = json.loads(await stream.readexactly(length))
                if "method" in message:
                    if "id" in message:
                        self._send({"id": message["id"], "result": None})
                elif (future := self._pending.pop(message["id"], None)) is not None and not future.done():
                    future.set_result(message)
        for future in self._pending.values():
            if not future.done():
                future.set_exception(BenchError("the language server left"))


class Document:
    """An open document with a cursor, which types and asks."""

    def __init__(self, editor: Editor, uri: str, typing: Typing) -> None:
        self._editor = editor
        self._uri = uri
        self._typing = typing
        self._version = 1
        self._typed = 0
        # A line end behind the cursor: amid a line nothing is suggested unasked.
        self._tail = "\n" + typing.tail
        text = self.before + self._tail
        item = {"uri": uri, "languageId": "python", "version": 1, "text": text}
        editor.notify("textDocument/didOpen", {"textDocument": item})

    @property
    def before(self) -> str:
        """The text before the cursor."""
        return self._typing.head + "".join(self._typing.keys[: self._typed])

    @property
    def lines(self) -> Lines:
        return Lines.of(self.before + self._tail)

    @property
    def cursor(self) -> tuple[int, int]:
        """Line and column, in code points."""
        before = self.before
        return before.count("\n"), len(before) - before.rfind("\n") - 1

    def type(self) -> None:
        """Type the next key, as one incremental change."""
        line, column = self.cursor
        place = {"line": line, "character": column}
        key = self._typing.keys[self._typed]
        self._typed += 1
        self._version += 1
        self._editor.notify(
            "textDocument/didChange",
            {
                "textDocument": {"uri": self._uri, "version": self._version},
                "contentChanges": [{"range": {"start": place, "end": place}, "text": key}],
            },
        )

    def ask(self) -> asyncio.Future[dict[str, Any]]:
        """Ask for ghost text, as an editor does by itself after a keystroke."""
        line, column = self.cursor
        return self._editor.request(
            "textDocument/inlineCompletion",
            {
                "textDocument": {"uri": self._uri},
                "position": {"line": line, "character": column},
                "context": {"triggerKind": 2},
            },
        )


@dataclass
class Storm:
    """What came of it."""

    answers: Counter[str] = field(default_factory=Counter)
    waits_ms: list[float] = field(default_factory=list)
    shown_at: list[float] = field(default_factory=list)
    late_ms: list[float] = field(default_factory=list)
    queued: list[int] = field(default_factory=list)
    last: dict[str, Any] = field(default_factory=dict)
    last_ms: float = 0.0
    seconds: float = 0.0


async def rage(editor: Editor, document: Document, keys: int, rate: float) -> Storm:
    """Type `keys` keys at `rate` a second, and wait for the last answer."""
    storm = Storm()
    loop = asyncio.get_running_loop()
    began = loop.time()
    everyone: list[asyncio.Future[dict[str, Any]]] = []
    pending: asyncio.Future[dict[str, Any]] | None = None
    for number in range(keys):
        due = began + number / rate
        await asyncio.sleep(max(0.0, due - loop.time()))
        storm.late_ms.append((loop.time() - due) * 1000)
        document.type()
        if pending is not None and not pending.done():
            editor.cancel(pending)
        pending = document.ask()
        everyone.append(pending)
        asked = loop.time()
        pending.add_done_callback(partial(_note, storm, asked))
    assert pending is not None
    storm.last = await asyncio.wait_for(pending, _ANSWER_SECONDS)
    storm.last_ms = (loop.time() - asked) * 1000
    storm.seconds = loop.time() - began
    _done, unanswered = await asyncio.wait(everyone, timeout=10)
    storm.answers["none at all"] = len(unanswered)
    storm.shown_at = [began, *storm.shown_at, began + storm.seconds]
    return storm


def _note(storm: Storm, asked: float, future: asyncio.Future[dict[str, Any]]) -> None:
    if future.cancelled() or future.exception() is not None:
        return
    answer, now = future.result(), asyncio.get_running_loop().time()
    if "error" in answer:
        code = answer["error"]["code"]
        storm.answers["cancelled" if code == _CANCELLED else f"error {code}"] += 1
    elif answer["result"]:
        storm.answers["suggestion"] += 1
        storm.waits_ms.append((now - asked) * 1000)
        storm.shown_at.append(now)
    else:
        storm.answers["null"] += 1


async def sample(engine: RemoteEngine, storm_queued: list[int]) -> None:
    """Read the gauge of waiting jobs until cancelled."""
    while True:
        storm_queued.append(int(gauges(await engine.metrics())["queued"]))
        await asyncio.sleep(_SAMPLE_SECONDS)


# -- the last answer -------------------------------------------------------------------------------------------------


def replayed(host: Host, model: Path, prompt_tokens: int, n_ctx: int) -> tuple[str, bool]:
    """Replay the context that the host recorded; return its greedy text after the prompt, and whether it agreed.

    Agreed means: each token that the host decoded after the prompt is the replay's own next choice.
    """
    recorded = [json.loads(line) for line in host.recorded()]
    if len(recorded) != 1:
        raise BenchError(f"the host recorded {len(recorded)} contexts, not one")
    tokens, lineage = recorded[0]["tokens"], recorded[0]["lineage"]
    digests = DigestCache()
    backend = LlamaBackend(digests)
    try:
        handle = backend.load(model, digests.digest(model))
        adapter = AdapterOnDisk(ACME.parent.name, ACME, digests.digest(ACME), 1.0)
        session = handle.open_session([adapter], ContextConfig(n_ctx=n_ctx, record=True, threads=host.threads))
        agreed = True
        last_keep = max((place for place, step in enumerate(lineage) if step[0] == "keep"), default=-1)
        for place, (kind, what) in enumerate(lineage):
            if place > last_keep and kind == "decode" and len(session.tokens) >= prompt_tokens:
                agreed &= what == [int(session.logits().argmax())]
            session.replay([(kind, what if kind == "keep" else tuple(what))])
        if list(session.tokens) != tokens:
            raise BenchError("the replay did not end with the host's tokens")
        after = tokens[prompt_tokens:]
        # The host picks a token before it decodes it: the last pick is in no KV.
        if (pick := int(session.logits().argmax())) not in handle.facts.end_of_generation:
            after = [*after, pick]
        return b"".join(map(handle.piece, after)).decode("utf-8", "ignore"), agreed
    finally:
        backend.close()


def shown_text(document: Document, raw: str, *, ran_out: bool) -> str | None:
    """Filter a raw text as the language server does."""
    view = window(document.lines, *document.cursor)
    whole_lines = raw[: raw.rfind("\n") + 1]
    context = Context(view.prefix, view.suffix, "python", ())
    return suggest(context, whole_lines if ran_out and whole_lines.strip() else raw, multiline=True).text


def answered_text(document: Document, answer: dict[str, Any]) -> str | None:
    """Return what an answer would insert at the cursor; BenchError when it belongs to another text or cursor."""
    if "error" in answer:
        raise BenchError(f"the last request failed: {answer['error']}")
    if not answer["result"]:
        return None
    [item] = answer["result"]
    line, column = document.cursor
    start, end = item["range"]["start"], item["range"]["end"]
    typed = document.before[len(document.before) - column :][start["character"] :]
    if (start["line"], end["line"], end["character"]) != (line, line, column):
        raise BenchError(f"the last answer belongs to {item['range']}, the cursor is at {line}:{column}")
    if not item["insertText"].startswith(typed):
        raise BenchError("the last answer belongs to another text")
    return str(item["insertText"][len(typed) :])


# -- the run ---------------------------------------------------------------------------------------------------------


def workspace(host: Host, model: Path, options: argparse.Namespace) -> Path:
    """Write a variant into the host's store and a workspace that uses it."""
    file = host.home / "variants" / "llama" / "storm.json"
    file.parent.mkdir(parents=True)
    content = {
        "name": "storm",
        "base": {"path": str(model)},
        "adapters": [{"name": ACME.parent.name, "path": str(ACME)}],
        "profile": {"n_ctx": options.n_ctx, "max_tokens": options.n_predict},
    }
    file.write_text(json.dumps(content))
    root = host.folder / "workspace"
    (root / ".warmline").mkdir(parents=True)
    (root / ".warmline" / "config.json").write_text(json.dumps({"variant": "storm"}))
    return root


async def run(options: argparse.Namespace, say: Callable[[str], None]) -> dict[str, Any]:
    surroundings = Surroundings()
    model = (options.model or demo_model()).resolve()
    keys = max(1, round(options.seconds * options.rate))
    async with hosted(record=True) as (host, engine):
        root = workspace(host, model, options)
        editor = await Editor.start(root)
        try:
            typing = typing_into(options.module, keys)
            typing = replace(typing, head="".join(typing.head.splitlines(keepends=True)[-options.lines :]))
            document = Document(editor, (root / "typed.py").as_uri(), typing)
            if not options.cold:
                say("warming up")
                await asyncio.wait_for(document.ask(), _ANSWER_SECONDS)
            say(f"{keys} keystrokes")
            cpu = {
                "host": -host.cpu_seconds(),
                "server": -cpu_seconds(editor.process.pid),
                "editor": -time.process_time(),
            }
            clock_before = host.clock.read()
            queued: list[int] = []
            sampling = asyncio.ensure_future(sample(engine, queued))
            storm = await rage(editor, document, keys, options.rate)
            sampling.cancel()
            storm.queued = queued
            cpu["host"] += host.cpu_seconds()
            cpu["server"] += cpu_seconds(editor.process.pid)
            cpu["editor"] += time.process_time()
            work = {name: value - clock_before[name] for name, value in host.clock.read().items()}
            work["decodes_at_once"] = host.clock.read()["decodes_at_once"]
            metrics, last = await engine.metrics(), (await engine.status()).last
        finally:
            await editor.stop()
        if last is None:
            raise BenchError("the engine knows no last request")
        host.stop()
        say("replaying")
        raw, agreed = replayed(host, model, last.prompt_tokens, options.n_ctx)
        answered = answered_text(document, storm.last)
        expected = shown_text(document, raw, ran_out=last.outcome in ("length", "deadline"))
        fresh = await fresh_text(host, model, document, options)
    gaps = [later - earlier for earlier, later in zip(storm.shown_at, storm.shown_at[1:], strict=False)]
    right = agreed and answered == expected
    return {
        **context_of(options, model, host.threads),
        "keys": keys,
        "rate": options.rate,
        "cold": options.cold,
        "seconds": round(storm.seconds, 2),
        "keys_late_ms": asdict(Spread.of(storm.late_ms)),
        "prompt_tokens": last.prompt_tokens,
        "answers": dict(storm.answers),
        "suggestion_ms": asdict(Spread.of(storm.waits_ms)) if storm.waits_ms else None,
        "longest_without_s": round(max(gaps), 2),
        "last_ms": round(storm.last_ms, 1),
        "queued": {"samples": len(storm.queued), "most": max(storm.queued), "at_the_end": storm.queued[-1]},
        "outcomes": gauges(metrics, "warmline_requests_total"),
        "decodes": int(work["decodes"]),
        "decodes_at_once": int(work["decodes_at_once"]),
        "decodes_aborted": int(work["decodes_aborted"]),
        "decoded_tokens": int(work["decoded_tokens"]),
        "decode_s": round(work["decode"] / 1000, 2),
        "cpu_s": {name: round(value, 2) for name, value in cpu.items()},
        "last": {
            "text": answered,
            "right": right,
            "same_choices": agreed,
            "expected": expected,
            "replayed_raw": raw,
            "same_as_fresh_cold": answered == fresh,
        },
        "targets": [
            target.as_json()
            for target in (
                Target("native decodes at once", work["decodes_at_once"], 1),
                Target("jobs that wait", max(storm.queued), 2 if options.cold else 1),
                Target("wrong last answers", int(not right), 0),
                Target("keystrokes without an answer", storm.answers["none at all"], 0),
            )
        ],
        **surroundings.as_json(),
    }


async def fresh_text(host: Host, model: Path, document: Document, options: argparse.Namespace) -> str | None:
    """Ask a fresh, cold host for what the last request asked for."""
    host.snapshots.purge()
    engine = host.engine()
    try:
        used = variant(model, (ACME, "1"), n_ctx=options.n_ctx, max_tokens=options.n_predict)
        found = await complete(
            *(engine, used, document.lines, *document.cursor), client="fresh", document="fresh", language="python"
        )
        return found.text
    finally:
        await engine.close()


def show(report: dict[str, Any], console: Console) -> None:
    answers = ", ".join(f"{count} {name}" for name, count in report["answers"].items() if count)
    spread, late = report["suggestion_ms"], report["keys_late_ms"]
    waits = f"after {spread['median']:.0f} ms (p95 {spread['p95']:.0f})" if spread else "never"
    cpu, last = report["cpu_s"], report["last"]
    for line in (
        f"{report['keys']} keystrokes in {report['seconds']} s, {report['rate']:g} a second "
        f"({'cold' if report['cold'] else 'warm'} at the start; sent {late['median']:.1f} ms late, "
        f"p95 {late['p95']:.1f}); prompt of {report['prompt_tokens']:,} tokens at the end",
        f"Answers: {answers}; suggestions came {waits}; at most {report['longest_without_s']} s without one; "
        f"the last after {report['last_ms']:.0f} ms",
        f"Engine: {report['decodes']:,} native decodes, {report['decodes_aborted']:,} of them aborted, "
        f"{report['decoded_tokens']:,} tokens, {report['decode_s']} s; requests that reached a decode: "
        + ", ".join(f"{int(count)} {name}" for name, count in report["outcomes"].items()),
        f"Waiting jobs: at most {report['queued']['most']} in {report['queued']['samples']} samples, "
        f"{report['queued']['at_the_end']} at the end",
        f"CPU: host {cpu['host']} s, language server {cpu['server']} s, editor (this bench) {cpu['editor']} s",
        f"Last answer {last['text']!r} (raw: {last['replayed_raw']!r}): "
        + ("that of a replay" if last["right"] else f"a replay gives {last['expected']!r}")
        + ("; a cold request gives the same" if last["same_as_fresh_cold"] else "; a cold request gives another"),
    ):
        console.print(line, highlight=False, markup=False)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20, help="how long it lasts (20)")
    parser.add_argument("--rate", type=float, default=30, help="keystrokes a second (30)")
    parser.add_argument("--module", default="argparse", help="whose source is typed (argparse)")
    parser.add_argument("--lines", type=int, default=100_000, help="at most so many lines before the cursor (all)")
    parser.add_argument("--cold", action="store_true", help="do not answer a request before")
    add_context_options(parser, n_predict=24)
    options = parser.parse_args(arguments)
    if options.quick:
        options.seconds, options.lines = 2, 20
    return run_and_show(options, run, show, strict=True)


if __name__ == "__main__":
    sys.exit(main())
