"""Path patterns as people write them in settings: `*.txt`, `docs/**`, `.env*`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

_PARTS: Final = re.compile(r"(?<![^/])(?:\*\*+/)+|\*\*+|\*|\?|\[!?[^\]]+\]|.", re.DOTALL)
_FOLDERS: Final = "(?:.*?/)??"
_ANYTHING: Final = ".*?"
_IN_NAME: Final = "[^/]*?"


@lru_cache(maxsize=512)
def _compiled(pattern: str) -> re.Pattern[str]:
    text = pattern.strip().replace("\\", "/")
    anchored = "/" in text.rstrip("/")
    parts = [_regex(part) for part in _PARTS.findall(text.strip("/"))]
    # A pattern that names a folder covers all that is in it, at whatever depth.
    parts = [*([] if anchored else [_FOLDERS]), *parts, "(?:/.*)?"]
    try:
        return re.compile(_first_fit(parts), re.IGNORECASE | re.DOTALL)
    except re.error:
        return re.compile(re.escape(text), re.IGNORECASE)


def _regex(part: str) -> str:
    """Translate one part of a pattern."""
    if part.startswith("**"):
        return _FOLDERS if part.endswith("/") else _ANYTHING
    if part in ("*", "?"):
        return _IN_NAME if part == "*" else "[^/]"
    if part.startswith("[") and len(part) > 1:
        inner = part[1:-1].replace("\\", r"\\")
        return "(?!/)" + (f"[^{inner[1:]}]" if inner.startswith("!") else f"[{inner}]")
    return re.escape(part)


def _first_fit(parts: list[str]) -> str:
    """Join parts so that a wildcard is tried again only as long as no other one of its kind has followed it.

    Where what stands between two wildcards fits first, it may stay: whatever a later place would leave to the second
    one, it takes from the first place too. Without that rule a path is tried in every division among the wildcards,
    which for a dozen of them takes hours.
    """
    done, run = [""], ""
    for part in parts:
        if part in (_FOLDERS, _ANYTHING):
            done = [f"{done[0]}(?>{''.join(done[1:])}{run})", part]
            run = ""
        elif part == _IN_NAME:
            done.append(f"(?>{run})")
            run = part
        else:
            run += part
    return "".join(done) + run


def matches(path: str, patterns: Iterable[str]) -> bool:
    """Tell whether a path (``/`` between its parts) matches one of the patterns, upper and lower case alike.

    A pattern without ``/`` matches a name at any depth, one with ``/`` begins where the path does. ``*`` and ``?`` stay
    within a name, ``**`` crosses folders, and a pattern that matches a folder covers what is in it.
    """
    return any(pattern.strip() and _compiled(pattern).fullmatch(path) for pattern in patterns)
