"""The ring: texts of documents that were just edited or viewed, as context for another one of the same folder.

Two kinds of text stand in it, in the order in which they came: lines around the place that was looked at, and what a
document declares. It only grows at its end, since it stands at the beginning of prompts: whatever changes there costs
the KV of all that follows. So what is much like something that is there already adds nothing, and when there is too
much of a kind, a whole block of its oldest leaves at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from cachetools import LRUCache

from .declarations import Declaration, bare
from .similarity import contained, similarity

# The same place of a document, somewhat edited; and of two documents, a copy.
_ALIKE: Final = 0.6
_COPIED: Final = 0.9
# What stands near the cursor already, but for the excerpt's name and some lines.
_NEAR: Final = 0.7
_FOLDERS: Final = 64
# No document has more than this share of the room for declarations, and so much of it stays when it is full.
_SHARE: Final = 2


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Lines of a document, with the name that stands above them; line ends are ``\\n``.

    `declares` is what the lines declare where they were collected for that; empty for an excerpt of one place.
    """

    uri: str
    text: str
    declares: frozenset[Declaration] = frozenset()

    @property
    def size(self) -> int:
        """Bytes of the text in UTF-8."""
        return len(self.text.encode("utf-8", "surrogatepass"))


class Ring:
    """Excerpts by workspace folder; what is seen in one folder is never context in another.

    Parameters
    ----------
    size
        Tells how many excerpts of places a folder has at most; asked at each use, so that a setting takes effect.
    room
        Tells how many bytes of declarations it has at most.
    """

    def __init__(self, size: Callable[[], int], room: Callable[[], int] = lambda: 0) -> None:
        self._size = size
        self._room = room
        self._folders: LRUCache[str, list[Excerpt]] = LRUCache(_FOLDERS)

    def add(self, folder: str, excerpt: Excerpt) -> bool:
        """Append an excerpt of a place; False when it is blank or much like one that is there."""
        size = self._size()
        if size < 1 or not excerpt.text.strip():
            return False
        kept = self._folders.setdefault(folder, [])
        places = [each for each in kept if not each.declares]
        for each in places:
            if similarity(each.text, excerpt.text) >= (_ALIKE if each.uri == excerpt.uri else _COPIED):
                return False
        if len(places) >= size:
            self._drop(folder, places[: max(1, size // 2, len(places) - size + 1)])
        self._folders[folder].append(excerpt)
        return True

    def declare(self, folder: str, uri: str, header: str, found: Sequence[Declaration]) -> bool:
        """Append what a document declares, under its name, as far as it is news; False when nothing is.

        What one of its excerpts shows is no news, nor what another document declares alike. A declaration that is there
        but no longer in the document costs all of the document's: what a model is told has to be so.
        """
        room = self._room()
        if room < 1:
            return False
        kept = self._folders.setdefault(folder, [])
        mine = [each for each in kept if each.declares and each.uri == uri]
        known = frozenset[Declaration]().union(*(each.declares for each in mine))
        if not known.issubset(found):
            self._drop(folder, mine)
            mine = []
        shown = {bare(line) for each in kept if each.uri == uri and not each.declares for line in each.text.split("\n")}
        blocks = [each for each in self._folders[folder] if each.declares]
        there = frozenset[Declaration]().union(*(each.declares for each in blocks))
        news = [each for each in found if each not in there and each.line.strip() not in shown]
        block = _block(uri, header, news, room // _SHARE - sum(each.size for each in mine))
        if block is None:
            return False
        if sum(each.size for each in blocks) + block.size > room:
            self._drop(folder, _oldest(blocks, room // _SHARE - block.size))
        self._folders[folder].append(block)
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

    def beside(self, folder: str, uri: str, near: str = "") -> tuple[Excerpt, ...]:
        """Give a folder's excerpts for a prompt about `uri`, oldest first.

        Its own are left out, since it has them, and copies of what is `near` the cursor: a model that sees the same
        place twice goes on as the other one does.
        """
        wanted = {False: self._size() > 0, True: self._room() > 0}
        others = (each for each in self._folders.get(folder, ()) if wanted[bool(each.declares)] and each.uri != uri)
        return tuple(each for each in others if contained(each.text, near) < _NEAR)

    def _drop(self, folder: str, gone: Iterable[Excerpt]) -> None:
        ids = {id(each) for each in gone}
        self._folders[folder] = [each for each in self._folders[folder] if id(each) not in ids]


def _block(uri: str, header: str, news: Iterable[Declaration], room: int) -> Excerpt | None:
    """Write declarations below a name, members below what they belong to; as many as `room` bytes hold."""
    lines, written, parent = [header], set[Declaration](), ""
    room -= len(header.encode()) + 1
    for each in news:
        above = [f"{each.parent}\n"] if each.parent not in ("", parent) else []
        more = [*above, f"{each.line}\n"]
        room -= sum(len(line.encode("utf-8", "surrogatepass")) for line in more)
        if room < 0:
            break
        lines += more
        written.add(each)
        parent = each.parent or each.line
    return Excerpt(uri, "".join([*lines, "\n"]), frozenset(written)) if written else None


def _oldest(blocks: Sequence[Excerpt], room: int) -> list[Excerpt]:
    """Give so many of the oldest that what is left has at most `room` bytes."""
    total, gone = sum(each.size for each in blocks), []
    for each in blocks:
        if total <= room:
            break
        gone.append(each)
        total -= each.size
    return gone
