"""How alike two excerpts are, by the lines they share: the same place visited twice is one excerpt."""

from __future__ import annotations


def similarity(one: str, other: str) -> float:
    """Give the share of lines that two texts have in common, from 0 to 1 (Jaccard, blank lines and indents aside)."""
    mine = {line.strip() for line in one.split("\n")} - {""}
    theirs = {line.strip() for line in other.split("\n")} - {""}
    if not mine or not theirs:
        return 1.0 if mine == theirs else 0.0
    return len(mine & theirs) / len(mine | theirs)
