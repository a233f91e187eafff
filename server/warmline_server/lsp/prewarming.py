"""Prefilling what is likely asked next while nobody waits: of a document just opened, and after an accepted suggestion.

A guess costs nothing but idle time, since the engine drops it for whatever is asked. Only the latest guess counts: an
editor that opens twenty documents at once gets the last one made ready.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from cachetools import LRUCache
from lsprotocol import types
from warmline.prompts.window import WindowLimits

from .cursor import Cursor, cursor_at
from .documents import Snapshot

# Seconds that a guess waits: where the editor itself asks at once, there is nothing to guess.
DELAY: Final = 0.1
_DOCUMENTS: Final = 256


class Prewarmer:
    """Decides what to prefill.

    Parameters
    ----------
    snapshot
        Gives an open document's present state.
    send
        Prefills at a cursor; never raises but for cancellation.
    """

    def __init__(self, snapshot: Callable[[str], Snapshot | None], send: Callable[[Cursor], Awaitable[None]]) -> None:
        self._snapshot = snapshot
        self._send = send
        self._last: LRUCache[str, types.Position] = LRUCache(_DOCUMENTS)
        self._unasked = ""
        self._guess: tuple[str, asyncio.Task[None]] | None = None

    @property
    def unasked(self) -> str:
        """URI of the document that was opened last, while nobody has asked about it; else empty."""
        return self._unasked

    def opened(self, uri: str) -> None:
        """A document was opened; `ready` is to follow when its variant can answer."""
        self._unasked = uri

    def ready(self, uri: str) -> None:
        """The variant of a document that was opened is loaded: prefill where the cursor was last, if it isn't there."""
        if uri == self._unasked:
            self._soon(uri)

    def moved(self, uri: str, position: types.Position) -> None:
        """The cursor is where the next request is likely: a suggestion was accepted, or the document got the focus."""
        self._last[uri] = position
        self._soon(uri)

    def asked(self, cursor: Cursor) -> None:
        """A request came: what it needs is prefilled now, and a guess about the document is out of date."""
        uri = cursor.snapshot.uri
        self._last[uri] = cursor.snapshot.position_at(cursor.offset)
        self.closed(uri)

    def closed(self, uri: str) -> None:
        """Drop what is guessed about a document; its last position is kept for when it is opened again."""
        if uri == self._unasked:
            self._unasked = ""
        if self._guess is not None and self._guess[0] == uri:
            self._guess[1].cancel()
            self._guess = None

    def close(self) -> None:
        """Stop guessing."""
        if self._guess is not None:
            self._guess[1].cancel()

    def _soon(self, uri: str) -> None:
        self.close()
        self._guess = (uri, asyncio.ensure_future(self._later(uri)))

    async def _later(self, uri: str) -> None:
        await asyncio.sleep(DELAY)
        snapshot = self._snapshot(uri)
        if snapshot is not None:
            await self._send(cursor_at(snapshot, self._last.get(uri) or _somewhere(snapshot)))


def _somewhere(snapshot: Snapshot) -> types.Position:
    """Give the best position without knowing any: the last whose window begins with the document.

    Where the prefix comes first in the prompt, a request further up finds all that it shares with this one prefilled.
    """
    line = min(snapshot.line_count, WindowLimits().prefix_lines) - 1
    return types.Position(line, snapshot.units(snapshot.line(line)))
