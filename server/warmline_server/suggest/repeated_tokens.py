"""Degenerate repetition within a line: a small model that writes `0, 0, 0, 0, ...` until its budget ends."""

import re

# Four times, and 48 characters: a row of eight zeros is data, a row of sixteen is a loop. A ruler of one character
# (`# -----`) may be as wide as a wide line.
_LONGEST_UNIT = 32
_LOOP = 48
_RULER = 120


def _pattern() -> re.Pattern[str]:
    parts = []
    for size in range(1, _LONGEST_UNIT + 1):
        name = f"u{size}"
        times = max(4, -(-_LOOP // size)) - 1
        parts.append(rf"(?P<{name}>(?=[\W_]{{0,{size - 1}}}[^\W_]).{{{size}}})(?P={name}){{{times}}}")
    for size in range(1, 5):
        name = f"r{size}"
        parts.append(rf"(?P<{name}>[\W_]{{{size}}})(?P={name}){{{_RULER // size - 1}}}")
    return re.compile("|".join(parts))


_DEGENERATE = _pattern()


def first_degenerate(lines: list[str]) -> int | None:
    """The first line that only repeats itself from some point on; once it does, no further text changes that."""
    for row, line in enumerate(lines):
        if len(line) >= _LOOP and _DEGENERATE.search(line):
            return row
    return None
