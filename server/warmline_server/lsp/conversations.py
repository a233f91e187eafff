"""Conversations of the chat commands: what was said, bounded, the oldest first to go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from cachetools import LRUCache
from warmline.host.wire import ChatTurn

_MOST_CONVERSATIONS: Final = 64
# When something has to go, this share of the bound stays: the KV of what stays then serves several turns more.
_KEPT: Final = 0.75


@dataclass(slots=True)
class Conversation:
    """Finished turns, oldest first: a question, its answer, and so on. `dropped` messages have gone already."""

    turns: tuple[ChatTurn, ...] = ()
    dropped: int = 0


class Conversations:
    """The latest conversations by the names that clients give them."""

    def __init__(self) -> None:
        self._known: LRUCache[str, Conversation] = LRUCache(_MOST_CONVERSATIONS)

    def get(self, name: str) -> Conversation:
        """Give a conversation, begun if it is new."""
        return self._known.setdefault(name, Conversation())

    def forget(self, name: str) -> None:
        """Begin it anew."""
        self._known.pop(name, None)


def bounded(turns: Sequence[ChatTurn], most_messages: int, most_characters: int) -> tuple[ChatTurn, ...]:
    """Leave out the oldest questions with their answers where there are too many; the last message always stays.

    Parameters
    ----------
    turns
        Questions and answers in turn, the last one a question.
    """
    kept = tuple(turns)
    if len(kept) <= most_messages and _characters(kept) <= most_characters:
        return kept
    while len(kept) > 2 and (len(kept) > _KEPT * most_messages or _characters(kept) > _KEPT * most_characters):
        kept = kept[2:]
    return kept


def _characters(turns: Sequence[ChatTurn]) -> int:
    return sum(len(turn.content) for turn in turns)
