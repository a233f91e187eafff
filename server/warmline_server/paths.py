"""Paths as people read them: from the workspace or the home folder on. Programs get absolute ones."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from warmline.errors import WarmlineError

# What may stand before a path in a sentence: nothing, space, quotes, a bracket, or the = and : of an assignment.
_BEFORE = r"(?<![^\s\"'`(\[=:])"


def short_path(path: str | os.PathLike[str], root: Path | None = None) -> str:
    """Write a path relative to `root` when it is inside, with ``~`` when it is in the home folder, else as it is."""
    text = os.fspath(path)
    if not os.path.isabs(text):
        return text
    for folder, sign in _folders(root):
        if text == folder:
            return sign or "."
        if text.startswith(folder + os.sep):
            return (sign + os.sep if sign else "") + text[len(folder) + 1 :]
    return text


def short_paths(text: str, root: Path | None = None) -> str:
    """Write all paths inside a sentence as `short_path` does."""
    for folder, sign in _folders(root):
        shown = sign + os.sep if sign else ""
        text = shown.join(re.split(_BEFORE + re.escape(folder + os.sep), text))
    return text


def unreadable(error: OSError, where: Path) -> WarmlineError:
    """Make a typed error of what the operating system says of a file or folder; `where`, if it doesn't say of which."""
    from warmline.errors import ConfigError

    path = error.filename
    return ConfigError(
        f"it cannot be accessed: {error.strerror or type(error).__name__}",
        code="config.unreadable",
        file=os.fsdecode(path) if isinstance(path, (str, bytes)) else str(where),
        remedy="Check its permissions, and those of the folders above it",
    )


def _folders(root: Path | None) -> list[tuple[str, str]]:
    """List folders and what stands for each; the file system's top stands for nothing."""
    home = os.path.expanduser("~")
    found = [(str(root), "")] if root is not None else []
    found += [(home, "~")] if os.path.isabs(home) else []
    return [(folder.rstrip(os.sep), sign) for folder, sign in found if folder.rstrip(os.sep)]
