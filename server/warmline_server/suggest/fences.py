"""Markdown fences of a chat-tuned model: the code is what stands within the first pair."""

import re
from collections.abc import Sequence

from warmline_server.suggest.context import Context
from warmline_server.suggest.draft import Cut, Draft
from warmline_server.suggest.prose import is_sentence

_OPENING = re.compile(r"\s*(?:`{3,}|~{3,})[\w+#.-]*\s*\Z")
_GLUED = re.compile(r"\s*`{3,}\s*\Z")
_BLANK_LINES = 4
_PROSE_LINES = 6


def code_start(context: Context, lines: Sequence[str], known: int) -> int | str:
    """The line where the model's code begins, or, as a text, why there is none so far.

    Only the first `known` lines are whole; an answer that is a number and below `known` holds whatever follows.
    """
    first = next((row for row, line in enumerate(lines) if line.strip()), None)
    if first is None or first > _BLANK_LINES:
        return "whitespace"
    if context.prose:
        return first if context.blank else 0
    start: int | None = first
    fenced = _OPENING.match(lines[first]) is not None
    if not fenced and is_sentence(lines[first]):
        start = next((n for n in range(first + 1, min(len(lines), first + _PROSE_LINES)) if _opens(lines[n])), None)
        fenced = True
    if start is None:
        return "prose"
    if fenced:
        if start >= known:
            return "fence"
        start += 1
        while start < len(lines) and not lines[start].strip():
            start += 1
        return start if start < len(lines) else "fence"
    return start if context.blank else 0


def _opens(line: str) -> bool:
    return _OPENING.match(line) is not None


def is_hopeless(context: Context, lines: Sequence[str], known: int) -> bool:
    """Whether the first `known` lines rule out that code follows: only blank lines, or sentence after sentence."""
    whole = lines[:known]
    first = next((row for row, line in enumerate(whole) if line.strip()), known)
    if first > _BLANK_LINES:
        return True
    return known >= first + _PROSE_LINES and code_start(context, whole, known) == "prose"


def ends_at_fence(draft: Draft) -> Cut | None:
    """A fence ends the code, also one that never began, and one glued to the last line of code."""
    if draft.context.prose:
        return None
    glued = _GLUED.search(draft.line)
    if glued:
        return Cut(draft.row, glued.start(), "fence")
    return Cut(draft.row, 0, "fence") if draft.row and _opens(draft.line) else None
