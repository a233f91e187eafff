"""A suggestion that goes on with the rest of the cursor's line, which is there already."""

import re

from warmline_server.suggest import brackets
from warmline_server.suggest.draft import Cut, Draft

_PAIRS = "== != <= >= => -> += -= *= /= %= |= &= ^= ~= := :: && || ?? ?. ** // << >> ++ -- .."
_OPERATORS = frozenset(_PAIRS.split())
_ESCAPED = re.compile(r"\\.")
_WORD = re.compile(r"\w")


def _splits(text: str, at: int) -> bool:
    """Whether a word or an operator of `text` goes on over position `at`."""
    if not 0 < at < len(text):
        return False
    left, right = text[at - 1], text[at]
    same_word = (left.isalnum() or left == "_") and (right.isalnum() or right == "_")
    return same_word or left + right in _OPERATORS


def _separable(draft: Draft, column: int) -> bool:
    """Whether what stands from `column` on belongs to the document: it closes no bracket or string of the insertion."""
    here = (draft.row, column)
    kept, removed = draft.line[:column], draft.line[column:]
    walk = draft.walk
    closings = [closing for closing in walk.closings if closing.column >= column]
    if any(closing.opened_at is not None and closing.opened_at < here for closing in closings):
        return False
    if closings and walk.excess is None and brackets.closers_only(removed) and draft.context.line_spare:
        return False  # `print(f(` before `)` waits for one more
    plain = _ESCAPED.sub("", kept)
    return all(plain.count(quote) % 2 == 0 for quote in "\"'`" if quote in removed)


def repeats_rest(draft: Draft) -> Cut | None:
    rest = draft.context.rest
    core = rest.strip()
    line = draft.line.rstrip()
    if not core or not line:
        return None
    if len(core) >= 3 and _WORD.search(core):
        found = line.find(core)
        while found >= 0:
            if not _splits(line, found) and not _splits(line, found + len(core)) and _separable(draft, found):
                gap = rest[: len(rest) - len(core)]
                column = found - len(gap) if gap and line[:found].endswith(gap) else found
                return Cut(draft.row, column, "repeats-suffix")
            found = line.find(core, found + 1)
    for size in range(min(len(rest), len(line)), 0, -1):
        column = len(line) - size
        if not line.endswith(rest[:size]) or not rest[:size].strip():
            continue
        if not _splits(line, column) and not _splits(rest, size) and _separable(draft, column):
            return Cut(draft.row, column, "repeats-suffix")
    return None
