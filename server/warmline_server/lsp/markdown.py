"""Markdown out of data: names and metadata come from files that others made, so nothing in them may act as markup.

Only what could act is escaped, so that the source stays readable where an editor shows just that.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from ..characters import escape_invisible

# CommonMark: a backslash before any ASCII punctuation makes it a plain character. In a line these can act: code,
# emphasis, links, HTML, entities, tables, strikethrough, formulas, and an underscore but for one inside a word.
_ACTIVE: Final = re.compile(r"[\\`*\[\]<>&|~$]|(?<![^\W_])_|_(?![^\W_])")
# GFM makes links of bare addresses; an escape inside breaks them up.
_ADDRESS: Final = re.compile(r"(?<=:)/(?=/)|(?<=www)\.|@|(?<=mailto):|(?<=xmpp):", re.IGNORECASE)
# At the start of a line: headings, lists, quotes, rules, underlines.
_START: Final = re.compile(r"\A(?:([#+=-])|(\d{1,9})([.)]))")
_MAX_LENGTH: Final = 300
_MAX_LABEL: Final = 16
_WORD: Final = re.compile(r"[\w+#-]{1,32}\Z")
_BACKTICKS: Final = re.compile(r"`+")


def plain(text: str) -> str:
    """Make one line of harmless length; control, direction-changing and otherwise invisible characters as escapes."""
    kept = escape_invisible(" ".join(text.split()))
    return kept if len(kept) <= _MAX_LENGTH else kept[: _MAX_LENGTH - 1] + "…"


def escape(text: str) -> str:
    """Make text that Markdown shows as it is, also in a table."""
    # The two expressions match no common character, so the second leaves the first's escapes alone.
    kept = _ADDRESS.sub(r"\\\g<0>", _ACTIVE.sub(r"\\\g<0>", plain(text)))
    return _START.sub(lambda match: f"\\{match[1]}" if match[1] else f"{match[2]}\\{match[3]}", kept)


def table(rows: Sequence[tuple[str, str]]) -> str:
    """Make a table of two columns out of data; its header is the first row."""
    head, *body = [f"| {escape(left)} | {escape(right)} |" for left, right in rows]
    return "\n".join([head, "| --- | --- |", *body])


def listing(rows: Sequence[tuple[str, str]]) -> str:
    """Make the same for clients that show plain text only: labels in a column, values beside them."""
    labels = [plain(left) for left, _ in rows]
    width = min(max(map(len, labels), default=0), _MAX_LABEL)
    return "\n".join(f"{label:<{width}}  {plain(right)}" for label, (_, right) in zip(labels, rows, strict=True))


def fenced(code: str, language: str) -> str:
    """Make a code block; its fence is longer than any run of backticks in the code."""
    longest = max((len(run) for run in _BACKTICKS.findall(code)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language if _WORD.match(language) else ''}\n{code}\n{fence}"
