"""Markdown out of data: names and metadata come from files that others made, so nothing in them may act as markup."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Final

# CommonMark: a backslash before any ASCII punctuation makes it a plain character; it also breaks up GFM's autolinks.
_PUNCTUATION: Final = re.compile(r"[!-/:-@\[-`{-~]")
_MAX_LENGTH: Final = 300


def plain(text: str) -> str:
    """Make one line of harmless length: no control, direction-changing or otherwise invisible characters."""
    kept = "".join(" " if c.isspace() else c for c in text if c.isspace() or unicodedata.category(c)[0] != "C")
    kept = " ".join(kept.split())
    return kept if len(kept) <= _MAX_LENGTH else kept[: _MAX_LENGTH - 1] + "…"


def escape(text: str) -> str:
    """Make text that Markdown shows as it is, also in a table."""
    return _PUNCTUATION.sub(r"\\\g<0>", plain(text))


def table(rows: Sequence[tuple[str, str]]) -> str:
    """Make a table of two columns out of data; its header is the first row."""
    head, *body = [f"| {escape(left)} | {escape(right)} |" for left, right in rows]
    return "\n".join([head, "| --- | --- |", *body])


def listing(rows: Sequence[tuple[str, str]]) -> str:
    """Make the same for clients that show plain text only."""
    return "\n".join(f"{plain(left)}: {plain(right)}" for left, right in rows)
