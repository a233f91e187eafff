"""Where the bench of suggestions cuts its holes, and what a person would have open beside them. Seeded."""

from __future__ import annotations

import importlib.util
import random
from pathlib import Path

from hosted import BenchError
from warmline.errors import EvaluationError
from warmline.evaluation.humaneval import humaneval_sources
from warmline.evaluation.source import Cut, Source

STANDARD = "standard library"
_PACKAGES = ("asyncio", "email", "http", "importlib", "json", "logging", "multiprocessing", "unittest", "urllib", "xml")


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
    """Return HumanEval's tasks with their canonical solutions."""
    try:
        return humaneval_sources()
    except EvaluationError as error:
        raise BenchError(str(error)) from None


def beside(hole: Cut, sources: list[Source], count: int, lines: int, seed: int) -> tuple[str, ...]:
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
