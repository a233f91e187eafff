"""Between document URIs and paths."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import unquote, unquote_to_bytes, urlsplit
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
    quoted = f"//{host}{parts.path}" if host else parts.path
    # On POSIX a name is bytes, UTF-8 or not, and url2pathname would put U+FFFD for those that aren't.
    text = url2pathname(quoted) if os.name == "nt" else os.fsdecode(unquote_to_bytes(quoted))
    return Path(text) if text and "\x00" not in text else None  # no path has a NUL


def name(uri: str) -> str:
    """Give the path by which a URI of any scheme names a document, a file that is not saved yet too; may be empty."""
    try:
        return unquote(urlsplit(uri).path)
    except ValueError:
        return unquote(uri)


def to_uri(path: Path) -> str:
    """Give the ``file:`` URI of an absolute path."""
    return path.absolute().as_uri()
