"""Holes in real code: a cursor, what stands around it, and what somebody wrote there. Seeded, so that runs compare."""

from __future__ import annotations

import ast
import hashlib
import os
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ..errors import EvaluationError

_MOST_LINES: Final = 3
_LEAST_CHARACTERS: Final = 8
_LARGEST: Final = 1 << 20
_MOST_FILES: Final = 20_000
_SKIPPED: Final = frozenset({"node_modules", "__pycache__", "site-packages", "venv", "build", "dist", "target"})
_ENDINGS: Final = (
    "c cc cpp cs cxx dart ex exs go h hpp hs java jl js jsx kt lua mjs php pl py pyi rb rs scala sh sql swift ts tsx "
    "zig"
)
#: Endings of files that count as code; nothing else of a folder is read.
CODE: Final = frozenset(f".{ending}" for ending in _ENDINGS.split())


@dataclass(frozen=True, slots=True)
class Source:
    """One file: `folder` is what it has in common with files that a person would have open beside it.

    Holes are cut at or behind the code point `start` only.
    """

    kind: str
    folder: str
    name: str
    text: str
    start: int = 0


@dataclass(frozen=True, slots=True)
class Cut:
    """Text around a cursor, and `wanted`, which stood there."""

    source: Source
    before: str
    wanted: str
    after: str

    @property
    def line(self) -> int:
        """The cursor's line, from 0."""
        return self.before.count("\n")

    @property
    def column(self) -> int:
        """The cursor's column in code points, from 0."""
        return len(self.before) - self.before.rfind("\n") - 1


def sources_of(folder: Path, kind: str = "folder") -> list[Source]:
    """Return the code in a folder, in a fixed order; hidden folders, dependencies and copies of a file are left out.

    Raises
    ------
    EvaluationError
        ``evaluation.folder``: it is none, or holds no code.
    """
    found: list[Source] = []
    seen: set[bytes] = set()
    for path in _files(folder):
        try:
            text = path.read_text("utf-8")
        except (OSError, ValueError):
            continue  # a file that is no text, or not ours to read, is no task
        digest = hashlib.sha256(text.encode()).digest()
        if text.strip() and digest not in seen:
            seen.add(digest)
            name = path.relative_to(folder).as_posix()
            found.append(Source(kind, Path(name).parent.as_posix(), name, text.replace("\r\n", "\n")))
    if not found:
        what = "it holds no code" if folder.is_dir() else "there is no such folder"
        remedy = "Name a folder with source files in it"
        raise EvaluationError(what, code="evaluation.folder", file=str(folder), remedy=remedy)
    return found


def _files(folder: Path) -> Iterator[Path]:
    count = 0
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(each for each in folders if not each.startswith(".") and each not in _SKIPPED)
        for name in sorted(names):
            path = Path(place, name)
            if path.suffix in CODE and path.is_file() and not path.is_symlink() and path.stat().st_size <= _LARGEST:
                count += 1
                if count > _MOST_FILES:
                    return
                yield path


def cut_holes(sources: Sequence[Source], count: int, seed: int) -> list[Cut]:
    """Cut holes, at most one in a file as long as there are enough of them, and none twice.

    Raises
    ------
    EvaluationError
        ``evaluation.folder``: there is less to cut out than that.
    """
    chance = random.Random(seed)
    found: list[Cut] = []
    places: set[tuple[str, int]] = set()
    candidates = {id(source): list(_statements(source)) for source in sources}
    while len(found) < count:
        before = len(found)
        for source in chance.sample(sources, len(sources)):
            free = [each for each in candidates[id(source)] if (source.name, each[0]) not in places]
            if free and len(found) < count:
                first, last = chance.choice(free)
                places.add((source.name, first))
                found.append(_cut(source, first, last, chance))
        if len(found) == before:
            raise EvaluationError(
                f"there are {len(found)} statements to cut out, not {count}",
                code="evaluation.folder",
                remedy="Ask for fewer (--count), or name a folder with more code",
            )
    return found


def _statements(source: Source) -> Iterable[tuple[int, int]]:
    """Yield the first and the last line (from 0) of what may be cut out."""
    first = source.text.count("\n", 0, source.start)
    found = _python(source.text) if source.name.endswith((".py", ".pyi")) else _lines(source.text)
    return sorted({each for each in found if each[0] >= first})


def _python(text: str) -> Iterator[tuple[int, int]]:
    """Yield the short statements inside functions, docstrings left out."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
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


def _lines(text: str) -> Iterator[tuple[int, int]]:
    """Yield single lines inside something: indented, long enough, and no comment."""
    for number, line in enumerate(text.split("\n")):
        body = line.strip()
        if line[:1] in (" ", "\t") and len(body) >= _LEAST_CHARACTERS and not body.startswith(("//", "#", "*", "/*")):
            yield number, number


def _cut(source: Source, first: int, last: int, chance: random.Random) -> Cut:
    """Cut a statement out from its start, or from behind one of its words: as often the one as the other."""
    lines = source.text.split("\n")
    start = len(lines[first]) - len(lines[first].lstrip())
    words = [at + 1 for at in range(start, len(lines[first]) - _LEAST_CHARACTERS) if lines[first][at] in " (=,.["]
    column = chance.choice(words) if words and chance.random() < 0.5 else start
    whole = "\n".join(lines[first : last + 1])
    before = "".join(f"{line}\n" for line in lines[:first]) + whole[:column]
    return Cut(source, before, whole[column:], "".join(f"\n{line}" for line in lines[last + 1 :]))
