"""Where tools may work: inside a session's folders, links followed, and never in files that hold secrets."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ..context.secrets import is_secret, leads_to_secret

# A change in here runs code, or changes what answers, without anybody being asked.
_UNTOUCHED: Final = frozenset({".git", ".hg", ".svn", ".warmline"})


class Outside(Exception):
    """A path that tools may not use; the message says why, for the model."""


@dataclass(frozen=True, slots=True)
class Roots:
    """A session's folders: its own, then the additional ones, each absolute."""

    cwd: Path
    additional: tuple[Path, ...] = ()

    def inside(self, path: str) -> Path:
        """Give the real place of a path, which may not exist yet; relative paths begin in the session's own folder.

        Raises
        ------
        Outside
            It leads out of the folders, also by a link; or it is one that holds secrets.
        """
        if not path or "\x00" in path or len(path) > 4096:
            raise Outside("that is no path")
        real = Path(os.path.realpath(self.cwd / path))
        if not self._below(real):
            raise Outside(f"{path} lies outside of the session's folders")
        if self.secret(real) or is_secret(Path(path).as_posix()):
            raise Outside(f"{path} may hold secrets, which no model is shown")
        return real

    def writable(self, path: str) -> Path:
        """As `inside`, for a path that is changed; what configures version control and Warmline is not."""
        real = self.inside(path)
        if any(not _UNTOUCHED.isdisjoint(part) for part in self._below(real)):
            raise Outside(f"{path} belongs to version control or to Warmline, which no tool changes")
        return real

    def _below(self, real: Path) -> list[tuple[str, ...]]:
        """Give a path's parts below each folder that it lies in."""
        roots = [os.path.realpath(root) for root in (self.cwd, *self.additional)]
        return [real.relative_to(root).parts for root in roots if real.is_relative_to(root)]

    def secret(self, real: Path) -> bool:
        """Tell whether a file's name, or another one of the same file, says that it holds secrets."""
        return leads_to_secret(real)

    def shown(self, path: Path) -> str:
        """Write a path relative to the session's own folder where it lies inside, else as it is."""
        own = os.path.realpath(self.cwd)
        return str(path.relative_to(own)) if path.is_relative_to(own) else str(path)
