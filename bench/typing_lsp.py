"""How long a person waits for the next suggestion after each key: `warmline lsp`, and llama-server asked at each key.

    python bench/typing_lsp.py [--files 5] [--keys 60] [--pause 0.1] [--json]

The second part of `typing.py`, whose first is the engine under each key; this is what is built on it. The same real
characters are typed into the same standard-library modules. Warmline's side is a real `warmline lsp` over stdio with
its engine host: each key is a `didChange` and an automatic request for ghost text, timed until its answer is read.
llama-server's side is what a plugin without a memory of its own does: one request a key over HTTP for the text before
the cursor, timed until its last event is read, without protocol, filters or edits. Both decode greedily, at most as
many tokens as the other, from the same model on as many threads. The next key comes `--pause` seconds after an answer;
the two sides type one after the other, since Warmline goes on working in the pauses.

What makes the difference, besides the engine: what is left of a suggestion after it was typed along is there without a
decode, and a decode ends when what is shown cannot change any more (the end of a block, of the wanted lines). So an
answer of Warmline may be shorter; how much of what came next each side said is told too: the share of keys after which
what is shown begins with the next three characters that the module has.

Target: at most 0.8 x of llama-server, for the mean over all keys but the first of each file.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from figures import Spread, Surroundings, Target
from hosted import add_context_options, context_of, demo_model, run_and_show
from keystrokes import MODULES, LlamaServer, Typing, typing_into
from llama_server import running_server
from rich.console import Console
from rich.table import Table
from storm_lsp import editor, ghost
from warmline.backends.base import default_threads

LIMIT = 0.8
PAUSE = 0.1
_AHEAD = 3


@dataclass(frozen=True)
class Side:
    """Milliseconds until an answer; `at_once` and `right` are shares of the keys."""

    mean_ms: float
    ms: Spread
    at_once: float
    right: float

    @classmethod
    def of(cls, answers: list[tuple[float, str]], following: list[str]) -> Side:
        times = [ms for ms, _ in answers]
        right = [text.startswith(real[:_AHEAD]) for (_, text), real in zip(answers, following, strict=True)]
        return cls(
            round(sum(times) / len(times), 2),
            Spread.of(times),
            round(sum(ms < 10 for ms in times) / len(times), 3),
            round(sum(right) / len(right), 3),
        )


def following(document: Typing) -> list[str]:
    """Give what the module has behind the cursor after each key."""
    return ["".join(document.keys[count:]) + document.tail for count in range(1, len(document.keys) + 1)]


async def by_warmline(document: Typing, options: argparse.Namespace, folder: Path) -> list[tuple[float, str]]:
    """Type into a language server of its own; the first request, which is cold, is not in the list."""
    text, answers = document.head, []
    async with editor(folder, max_tokens=options.n_predict, n_ctx=options.n_ctx) as one:
        uri = (folder / "ws" / f"{document.name}.py").as_uri()
        # The line that is typed ends at the cursor, as a new one does: what the module still has of it is left out.
        whole = text + document.tail[document.tail.find("\n") :]
        opened = {"uri": uri, "languageId": "python", "version": 1, "text": whole}
        one.notify("textDocument/didOpen", {"textDocument": opened})
        line, column = text.count("\n"), len(text) - text.rfind("\n") - 1
        await ghost(one, uri, line, column, automatic=False)
        for version, key in enumerate(document.keys, start=2):
            await asyncio.sleep(options.pause)
            at = {"line": line, "character": column}
            change = {"range": {"start": at, "end": at}, "text": key}
            text += key
            line, column = text.count("\n"), len(text) - text.rfind("\n") - 1
            began = time.perf_counter()
            identified = {"uri": uri, "version": version}
            one.notify("textDocument/didChange", {"textDocument": identified, "contentChanges": [change]})
            answer = await ghost(one, uri, line, column, automatic=True)
            answers.append(((time.perf_counter() - began) * 1000, _ahead(answer, column)))
    return answers


def _ahead(answer: Any, column: int) -> str:
    """Give what an answer shows behind the cursor: its range begins before that."""
    if not answer:
        return ""
    text: str = answer[0]["insertText"]
    return text[column - answer[0]["range"]["start"]["character"] :]


async def by_llama_server(document: Typing, server: LlamaServer, pause: float) -> list[tuple[float, str]]:
    """Ask for the same states of the document."""
    answers = []
    for number, prefix in enumerate(document.prompts()):
        if number:
            await asyncio.sleep(pause)
        answer = server.answer(prefix)
        answers.append((answer.total_ms, answer.text))
    return answers[1:]


async def run(options: argparse.Namespace, say: Callable[[str], None]) -> dict[str, Any]:
    """Type into each file on both sides, alternating who is first."""
    model = (options.model or demo_model()).resolve()
    surroundings, threads = Surroundings(), default_threads()
    documents = [typing_into(module, options.keys) for module in MODULES[: options.files]]
    ours: list[tuple[float, str]] = []
    theirs: list[tuple[float, str]] = []
    with (
        running_server(model, threads=threads, n_ctx=options.n_ctx, extra=("--log-verbosity", "2")) as server,
        tempfile.TemporaryDirectory(prefix="wl-typing-") as folder,
    ):
        peer = LlamaServer(server, options.n_predict)
        build = peer.properties().get("build_info", "")
        for number, document in enumerate(documents):
            say(f"typing {len(document.keys)} keys into {document.name}")
            if number % 2:
                theirs += await by_llama_server(document, peer, options.pause)
            ours += await by_warmline(document, options, Path(folder, document.name))
            if not number % 2:
                theirs += await by_llama_server(document, peer, options.pause)
    real = [text for document in documents for text in following(document)]
    sides = {"warmline": Side.of(ours, real), "peer": Side.of(theirs, real)}
    ratio = round(sides["warmline"].mean_ms / sides["peer"].mean_ms, 3)
    return {
        **context_of(options, model, threads),
        **{name: asdict(side) for name, side in sides.items()},
        "keys": len(ours),
        "ratio": ratio,
        "targets": [Target("wait for a suggestion, warmline / llama-server", ratio, LIMIT).as_json()],
        "llama_server": build,
        **surroundings.as_json(),
    }


def show(report: dict[str, Any], console: Console) -> None:
    """Print the figures."""
    table = Table(title=f"Wait for the suggestion after each of {report['keys']} keys, milliseconds")
    for column in ("", "mean", "median", "p95", "within 10 ms", "next 3 characters right"):
        table.add_column(column, justify="right" if column else "left")
    for name, side in (("warmline", report["warmline"]), ("llama-server", report["peer"])):
        times = (f"{each:.1f}" for each in (side["mean_ms"], side["ms"]["median"], side["ms"]["p95"]))
        table.add_row(name, *times, f"{side['at_once']:.0%}", f"{side['right']:.0%}")
    console.print(table)


def options_from(arguments: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=len(MODULES), help=f"how many files, at most {len(MODULES)} (all)")
    parser.add_argument("--keys", type=int, default=60, help="keystrokes in each (60)")
    parser.add_argument("--pause", type=float, default=PAUSE, help="seconds from an answer to the next key (0.1)")
    add_context_options(parser)
    options = parser.parse_args(arguments)
    if options.quick:
        options.files, options.keys = 1, 8
    if options.model is not None or not 1 <= options.files <= len(MODULES) or options.keys < 1:
        parser.error(f"--files is 1 to {len(MODULES)}, --keys at least 1; the model is the demo's")
    return options


if __name__ == "__main__":
    sys.exit(run_and_show(options_from(None), run, show))
