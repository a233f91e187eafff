"""The ring: excerpts of documents that were just edited or viewed, as context for another one of the same folder.

It only grows at its end, since it stands at the beginning of prompts: whatever changes there costs the KV of all that
follows. So an excerpt that is much like one which is there already adds nothing, and when there are too many, a whole
block of the oldest leaves at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from cachetools import LRUCache

from .similarity import contained, similarity

# The same place of a document, somewhat edited; and of two documents, a copy.
_ALIKE: Final = 0.6
_COPIED: Final = 0.9
# What stands near the cursor already, but for the excerpt's name and some lines.
_NEAR: Final = 0.7
_FOLDERS: Final = 64


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Lines of a document, with the name that stands above them; line ends are ``\\n``."""

    uri: str
    text: str


class Ring:
    """Excerpts by workspace folder; what is seen in one folder is never context in another.

    Parameters
    ----------
    size
        Tells how many excerpts a folder has at most; asked at each use, so that a setting takes effect.
    """

    def __init__(self, size: Callable[[], int]) -> None:
        self._size = size
        self._folders: LRUCache[str, list[Excerpt]] = LRUCache(_FOLDERS)

    def add(self, folder: str, excerpt: Excerpt) -> bool:
        """Append an excerpt; False when it is blank or much like one that is there."""
        size = self._size()
        if size < 1 or not excerpt.text.strip():
            return False
        kept = self._folders.setdefault(folder, [])
        for each in kept:
            if similarity(each.text, excerpt.text) >= (_ALIKE if each.uri == excerpt.uri else _COPIED):
                return False
        if len(kept) >= size:
            del kept[: max(1, size // 2, len(kept) - size + 1)]
        kept.append(excerpt)
        return True

    def forget(self, uri: str) -> bool:
        """Drop the excerpts of a document, or of all below a folder; False when there are none."""
        below, found = uri.rstrip("/") + "/", False
        for folder, kept in list(self._folders.items()):
            left = [each for each in kept if each.uri != uri and not each.uri.startswith(below)]
            found |= len(left) < len(kept)
            self._folders[folder] = left
        return found

    def clear(self) -> None:
        """Drop all excerpts: of which documents there may be any is to be asked anew."""
        self._folders.clear()

    def texts(self, folder: str, uri: str, near: str = "") -> tuple[str, ...]:
        """Give a folder's excerpts for a prompt about `uri`, oldest first.

        Its own are left out, since it has them, and copies of what is `near` the cursor: a model that sees the same
        place twice goes on as the other one does.
        """
        if self._size() < 1:
            return ()
        others = (each.text for each in self._folders.get(folder, ()) if each.uri != uri)
        return tuple(text for text in others if contained(text, near) < _NEAR)
