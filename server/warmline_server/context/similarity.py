"""How alike two texts are, by the lines they share: the same place visited twice is one excerpt."""

from __future__ import annotations


def similarity(one: str, other: str) -> float:
    """Give the share of lines that two texts have in common, from 0 to 1 (Jaccard, blank lines and indents aside)."""
    mine, theirs = _lines(one), _lines(other)
    if not mine or not theirs:
        return 1.0 if mine == theirs else 0.0
    return len(mine & theirs) / len(mine | theirs)


def contained(part: str, whole: str) -> float:
    """Give the share of the lines of `part` that stand in `whole`, from 0 to 1, blank lines and indents aside."""
    lines = _lines(part)
    return len(lines & _lines(whole)) / len(lines) if lines else 1.0


def _lines(text: str) -> set[str]:
    return {line.strip() for line in text.split("\n")} - {""}
