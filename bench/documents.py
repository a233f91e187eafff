"""What an edit and a look-up cost in a long document: our store and pygls' TextDocument, in the same run.

CPU time of this process, median and worst of the repeats. Run it with the server on the path:

    PYTHONPATH=server python bench/documents.py [--lines 100000] [--repeats 200] [--emoji] [--json]
"""

from __future__ import annotations

import argparse
import gc
import json
import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from importlib.metadata import version

from lsprotocol import types
from pygls.workspace import TextDocument
from rich.console import Console
from rich.table import Table
from warmline_server.lsp.documents import DocumentStore, Snapshot

URI = "file:///bench.py"
Span = tuple[int, int, int, int]


@dataclass(frozen=True)
class Measured:
    """CPU microseconds for one operation."""

    median_us: float
    worst_us: float


@dataclass(frozen=True)
class Row:
    """One operation, ours beside pygls'."""

    operation: str
    warmline: Measured
    pygls: Measured

    @property
    def ratio(self) -> float:
        return self.pygls.median_us / self.warmline.median_us


def python_like(lines: int, emoji: bool) -> str:
    """Make a document of about `lines` lines that looks like Python; one line in ten has an emoji if wanted."""
    body = []
    face = "👩\u200d💻" if emoji else "(sic)"
    for n in range(0, lines, 10):
        body.append(
            f"def handler_{n}(request: Request, *, limit: int = {n % 97}) -> Response:\n"
            f'    """Answer {n}: what comes back is never longer than `limit`. {face}"""\n'
            "    rows = []\n"
            "    for row in request.rows:\n"
            f"        if row.number > {n} and row.kind is not Kind.EMPTY:\n"
            "            rows.append(row.copy(update={'seen': True}))\n"
            "        else:\n"
            f"            log.debug('row %s of {n} left out', row)\n"
            "    return Response(rows[:limit])\n"
            "\n"
        )
    return "".join(body)


def measured(operation: Callable[[int], object], repeats: int, batch: int = 1) -> Measured:
    """Time `operation`, `batch` calls at a time (the clock is coarse beside a look-up)."""
    times = []
    gc.collect()
    for n in range(repeats):
        began = time.process_time_ns()
        for k in range(batch):
            operation(n * batch + k)
        times.append((time.process_time_ns() - began) / batch / 1000)
    return Measured(round(statistics.median(times), 2), round(max(times), 2))


def edits(lines: int) -> dict[str, tuple[Span, str]]:
    """Name the edits; each is applied again and again, so the document grows or shrinks a little."""
    middle = lines // 2
    return {
        "insert a character, top": ((0, 4, 0, 4), "x"),
        "insert a character, middle": ((middle, 4, middle, 4), "x"),
        "insert a character, end": ((lines - 2, 4, lines - 2, 4), "x"),
        "insert a newline, top": ((0, 0, 0, 0), "\n"),
        "insert a newline, middle": ((middle, 0, middle, 0), "\n"),
        "delete a line, top": ((0, 0, 1, 0), ""),
        "delete a line, middle": ((middle, 0, middle + 1, 0), ""),
        "paste 200 lines, middle": ((middle, 0, middle, 0), python_like(200, emoji=False)),
    }


class Pair:
    """The same document in both stores, and the same operations on both. Each takes the number of the repeat."""

    def __init__(self, text: str) -> None:
        self.lines = text.count("\n") + 1
        self.store = DocumentStore("utf-16")
        self.store.open(URI, "python", 0, text)
        self.document = TextDocument(URI, text, language_id="python")

    def snapshot(self) -> Snapshot:
        found = self.store.get(URI)
        assert found is not None
        return found

    # A fresh change and a fresh position for each call, in both: pygls writes clamped numbers into its arguments.

    def edit(self, n: int, span: Span, new: str) -> None:
        self.store.change(URI, n, [change(span, new)])

    def pygls_edit(self, _: int, span: Span, new: str) -> None:
        self.document.apply_change(change(span, new))

    def look_up(self, _: int, line: int) -> None:
        self.snapshot().offset_at(types.Position(line, 9))

    def pygls_look_up(self, _: int, line: int) -> None:
        self.document.offset_at_position(types.Position(line, 9))

    def stride(self, n: int) -> None:
        """Look up an offset in a block where nobody has looked yet."""
        self.look_up(n, n * 701 % self.lines)

    def pygls_stride(self, n: int) -> None:
        self.pygls_look_up(n, n * 701 % self.lines)

    def window(self, _: int) -> None:
        first = self.lines // 2 - 256
        self.snapshot().slice_lines(first, first + 320)

    def pygls_window(self, _: int) -> None:
        first = self.lines // 2 - 256
        "".join(self.document.lines[first : first + 320])

    def keystroke(self, n: int) -> None:
        line = self.lines // 2
        self.edit(n, (line, 3, line, 3), "x")
        self.look_up(n, line)
        self.window(n)

    def pygls_keystroke(self, n: int) -> None:
        line = self.lines // 2
        self.pygls_edit(n, (line, 3, line, 3), "x")
        self.pygls_look_up(n, line)
        self.pygls_window(n)


def change(span: Span, text: str) -> types.TextDocumentContentChangePartial:
    start, end = types.Position(*span[:2]), types.Position(*span[2:])
    return types.TextDocumentContentChangePartial(range=types.Range(start, end), text=text)


def run(text: str, repeats: int, pygls_repeats: int) -> list[Row]:
    rows = []
    for name, (span, new) in edits(text.count("\n") + 1).items():
        pair = Pair(text)
        ours = measured(partial(pair.edit, span=span, new=new), repeats)
        rows.append(Row(name, ours, measured(partial(pair.pygls_edit, span=span, new=new), pygls_repeats)))

    pair = Pair(text)
    ours = measured(pair.stride, min(repeats, max(1, pair.lines // 701)))
    rows.append(Row("offset_at, block not yet indexed", ours, measured(pair.pygls_stride, pygls_repeats)))
    for name, line in (("top", 1), ("middle", pair.lines // 2 + 1), ("end", pair.lines - 9)):
        ours = measured(partial(pair.look_up, line=line), repeats, batch=100)
        rows.append(Row(f"offset_at, {name}", ours, measured(partial(pair.pygls_look_up, line=line), pygls_repeats)))

    ours = measured(pair.window, repeats, batch=20)
    rows.append(Row("window of 320 lines, middle", ours, measured(pair.pygls_window, pygls_repeats)))
    ours = measured(pair.keystroke, repeats)
    rows.append(Row("keystroke: edit, offset_at, window", ours, measured(pair.pygls_keystroke, pygls_repeats)))
    ours = measured(lambda _: pair.store.open(URI, "python", 0, text), 10)
    rows.append(Row("open (pygls splits when used)", ours, measured(lambda _: TextDocument(URI, text), 10)))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, default=100_000, help="lines of the document (100000)")
    parser.add_argument("--repeats", type=int, default=200, help="repeats of each operation of ours (200)")
    parser.add_argument("--pygls-repeats", type=int, default=20, help="repeats of each operation of pygls (20)")
    parser.add_argument("--emoji", action="store_true", help="one line in ten of the document has an emoji")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    rows = run(python_like(options.lines, options.emoji), options.repeats, options.pygls_repeats)
    if options.json:
        about = {
            "lines": options.lines,
            "emoji": options.emoji,
            "pygls": version("pygls"),
            "python": platform.python_version(),
        }
        print(json.dumps({**about, "rows": [{**asdict(row), "ratio": round(row.ratio, 1)} for row in rows]}, indent=2))
        return
    table = Table(title=f"CPU microseconds, {options.lines} lines, pygls {version('pygls')}")
    table.add_column("operation")
    for column in ("warmline median", "worst", "pygls median", "worst", "pygls / warmline"):
        table.add_column(column, justify="right")
    for row in rows:
        ours, theirs = row.warmline, row.pygls
        numbers = (ours.median_us, ours.worst_us, theirs.median_us, theirs.worst_us)
        table.add_row(row.operation, *(f"{number:,.1f}" for number in numbers), f"{row.ratio:,.1f}")
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
