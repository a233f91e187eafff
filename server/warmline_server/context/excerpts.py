"""What of a document becomes context for others: the lines around the place that was looked at, under a name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from warmline.prompts.window import LineSource, normalise

from ..suggest.languages import line_comment

if TYPE_CHECKING:
    from ..lsp.documents import Snapshot

# Lines of a minified file are no help to anybody.
_MAX_CHARACTERS = 8000


def header(path: str, language: str) -> str:
    """Give the line that names a document in a prompt: a comment of its language with its path in the workspace."""
    return f"{line_comment(language) or '#'} {' '.join(path.split())}\n"


def excerpt(snapshot: Snapshot, line: int, count: int, path: str) -> str:
    """Cut `count` lines around a line, each whole, under the document's header; empty where there is nothing to cut.

    The first line is aligned to half of `count`, so that looking around in one place gives the same excerpt.
    """
    lines: LineSource = snapshot
    step = max(1, count // 2)
    first = max(0, (line - step) // step * step)
    text = normalise(lines.slice_lines(first, first + count)).strip("\n")
    if not text.strip() or len(text) > _MAX_CHARACTERS:
        return ""
    return f"{header(path, snapshot.language_id)}{text}\n\n"
