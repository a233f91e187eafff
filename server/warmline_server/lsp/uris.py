"""Between document URIs and paths."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit
from urllib.request import url2pathname


def scheme(uri: str) -> str:
    """Give a URI's scheme in lower case, or an empty string."""
    head, colon, _ = uri.partition(":")
    return head.lower() if colon else ""


def to_path(uri: str) -> Path | None:
    """Give the path of a ``file:`` URI; None for another scheme and for what cannot be a path."""
    if scheme(uri) != "file":
        return None
    try:
        parts = urlsplit(uri)
    except ValueError:
        return None
    host = parts.netloc if parts.netloc not in ("", "localhost") else ""
    text = url2pathname(f"//{host}{parts.path}" if host else parts.path)
    # On POSIX url2pathname only unquotes; a NUL could come out of it and no path has one.
    return Path(text) if text and "\x00" not in unquote(text) else None


def to_uri(path: Path) -> str:
    """Give the ``file:`` URI of an absolute path."""
    return path.absolute().as_uri()
