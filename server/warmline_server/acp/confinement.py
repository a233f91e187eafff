"""Where tools may work: inside a session's folders, links followed, and never in files that hold secrets."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ..characters import escape, escape_invisible, whole
from ..context.secrets import HardLinks, is_secret, leads_to_secret

# A change in here runs code, or changes what answers, without anybody being asked.
_UNTOUCHED: Final = frozenset({".git", ".hg", ".svn", ".warmline"})
# A byte of a name that is not UTF-8, as Python has it in text.
_BYTE: Final = re.compile("[\udc80-\udcff]")


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
            It leads out of the folders, also by a link; it is one that holds secrets; or its name is not UTF-8.
        """
        if not path or "\x00" in path or len(path) > 4096:
            raise Outside("that is no path")
        told = printable(path)
        try:
            real = Path(os.path.realpath(self.cwd / path))
        except UnicodeError:  # a half character that is not one of a name's bytes
            raise Outside(f"{told} is no path") from None
        if not self._below(real):
            raise Outside(f"{told} lies outside of the session's folders")
        if self.secret(real) or is_secret(Path(path).as_posix()):
            raise Outside(f"{told} may hold secrets, which no model is shown")
        if whole(str(real)) != str(real):
            raise Outside(f"{told} has a name that is not UTF-8, in which no client can be told of it")
        return real

    def writable(self, path: str) -> Path:
        """As `inside`, for a path that is changed; what configures version control and Warmline is not."""
        real = self.inside(path)
        if any(not _UNTOUCHED.isdisjoint(map(_plain, parts)) for parts in self._below(real)):
            raise Outside(f"{printable(path)} belongs to version control or to Warmline, which no tool changes")
        return real

    def _below(self, real: Path) -> list[tuple[str, ...]]:
        """Give a path's parts below each folder that it lies in."""
        roots = [os.path.realpath(root) for root in (self.cwd, *self.additional)]
        return [real.relative_to(root).parts for root in roots if real.is_relative_to(root)]

    def secret(self, real: Path, links: HardLinks | None = None) -> bool:
        """Tell whether a file's name, or another one of the same file, says that it holds secrets; see `HardLinks`."""
        return leads_to_secret(real, links=links)

    def shown(self, path: Path) -> str:
        """Write a path relative to the session's own folder where it lies inside, else whole; always in one line."""
        own = os.path.realpath(self.cwd)
        return printable(str(path.relative_to(own) if path.is_relative_to(own) else path))


def printable(name: str) -> str:
    r"""Write a name or a path in one line, with nothing that cannot be seen; a byte that is not UTF-8 as ``\xe9``."""
    return escape_invisible(_BYTE.sub(lambda match: escape(chr(ord(match[0]) - 0xDC00)), name))


def _plain(name: str) -> str:
    """Give a name as the least particular file systems compare it."""
    return name.rstrip(". ").casefold()
