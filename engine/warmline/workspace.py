"""A workspace: a folder with a `.warmline` folder in it, and how it is found."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from .variant import WorkspaceFile

WORKSPACE_FOLDER: Final = ".warmline"
WORKSPACE_FILE: Final = "config.json"


@dataclass(frozen=True, slots=True)
class Workspace:
    """A folder with a `.warmline` folder in it; `file` is its config file."""

    root: Path
    file: Path

    def load(self) -> WorkspaceFile:
        """Read the workspace file; errors as in `variant.load_file`."""
        from .variant import WorkspaceFile, load_file  # finding a workspace needs none of the models

        return load_file(self.file, WorkspaceFile)


def find_workspace(start: Path) -> Workspace | None:
    """Look for `.warmline/config.json` in `start` (a folder, or a file that need not exist) and upward.

    A store that somebody keeps in ``~/.warmline`` is none: its own `config.json` holds settings.
    """
    start = Path(os.path.abspath(start))
    given = os.environ.get("WARMLINE_HOME")
    store = os.path.realpath(os.path.expanduser(given)) if given else None
    for folder in (start, *start.parents):
        file = folder / WORKSPACE_FOLDER / WORKSPACE_FILE
        if os.path.lexists(file) and (store is None or os.path.realpath(file.parent) != store):
            return Workspace(folder, file)
    return None
