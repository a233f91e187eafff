"""Degenerate repetition over lines: the text is cut where the first repeat begins."""

from warmline_server.suggest.draft import Cut, Draft

_LONGEST_BLOCK = 12
_REACH = 6 * _LONGEST_BLOCK


def _times(block: list[str]) -> int:
    """How often a block of lines may stand before it is a loop. Data has short equal rows; code has no twin blocks."""
    size = sum(len(line.strip()) for line in block)
    if len(block) > 1 and size >= 16:
        return 2
    return 3 if size >= 4 else 6


def repeats_lines(draft: Draft) -> Cut | None:
    lines = [line.rstrip() for line in draft.document_lines[-_REACH:]]
    skipped = draft.row + 1 - len(lines)
    for size in range(1, min(_LONGEST_BLOCK, len(lines) // 2) + 1):
        block = lines[-size:]
        if block == lines[-2 * size : -size] and any(c.isalnum() for line in block for c in line):
            times = _times(block)
            start = len(lines) - times * size
            if start >= 0 and lines[start:] == block * times:
                return Cut(skipped + start + size, 0, "repeats-lines")
    return None
