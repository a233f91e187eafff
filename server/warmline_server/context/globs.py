"""Path patterns as people write them in settings: `*.txt`, `docs/**`, `.env*`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

_PARTS = re.compile(r"/\*\*/|\*\*/|/\*\*|\*\*|\*|\?|\[!?[^\]]+\]|.", re.DOTALL)


@lru_cache(maxsize=512)
def _compiled(pattern: str) -> re.Pattern[str]:
    text = pattern.strip().replace("\\", "/")
    anchored = "/" in text.rstrip("/")
    text = text.strip("/")
    out = []
    for part in _PARTS.findall(text):
        if part == "/**/":
            out.append("/(?:.*/)?")
        elif part == "**/":
            out.append("(?:.*/)?")
        elif part == "/**":
            out.append("/.*")
        elif part == "**":
            out.append(".*")
        elif part == "*":
            out.append("[^/]*")
        elif part == "?":
            out.append("[^/]")
        elif part.startswith("[") and len(part) > 1:
            inner = part[1:-1].replace("\\", r"\\")
            out.append(f"[^{inner[1:]}]" if inner.startswith("!") else f"[{inner}]")
        else:
            out.append(re.escape(part))
    # A pattern that names a folder covers all that is in it, at whatever depth.
    try:
        return re.compile(f"(?:{'' if anchored else '(?:.*/)?'}{''.join(out)})(?:/.*)?", re.IGNORECASE | re.DOTALL)
    except re.error:
        return re.compile(re.escape(text), re.IGNORECASE)


def matches(path: str, patterns: Iterable[str]) -> bool:
    """Tell whether a path (``/`` between its parts) matches one of the patterns, upper and lower case alike.

    A pattern without ``/`` matches a name at any depth, one with ``/`` begins where the path does. ``*`` and ``?`` stay
    within a name, ``**`` crosses folders, and a pattern that matches a folder covers what is in it.
    """
    return any(pattern.strip() and _compiled(pattern).fullmatch(path) for pattern in patterns)
