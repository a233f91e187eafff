"""What `warmline stats` counts of this session: suggestions shown and accepted, by variant."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Final

from cachetools import LRUCache

from ..completion import Completion
from ..stats import Stats

_DOCUMENTS: Final = 256
# Seconds after which what was counted is written; a crash costs at most what was counted since.
_FLUSH_SECONDS: Final = 30.0


class Counting:
    """Counts while the person allows it; writes now and then, and at the end.

    Parameters
    ----------
    enabled
        Tells whether anything is to be counted.
    log
        Where it is said that the file cannot be read.
    """

    def __init__(self, home: Path, enabled: Callable[[], bool], log: Callable[[str], None]) -> None:
        self._stats = Stats(home)
        self._enabled = enabled
        self._log = log
        self._shown_by: LRUCache[str, str] = LRUCache(_DOCUMENTS)
        self._counted: LRUCache[str, Completion] = LRUCache(_DOCUMENTS)
        self._flushing: asyncio.Task[None] | None = None

    def answered(self, uri: str, variant: str, result: Completion | None) -> None:
        """Count what a document was shown, by the variant that wrote it, if it was decoded for it.

        One that goes on being shown is not another.
        """
        self._shown_by[uri] = variant
        if result is None or not result.text or result.started is None or result is self._counted.get(uri):
            return
        self._counted[uri] = result
        if self._enabled():
            self._stats.shown(variant, result.total_ms)
            self._flush_soon()

    def accepted(self, uri: str) -> None:
        """Count that the suggestion which a document was shown last was accepted."""
        variant = self._shown_by.get(uri)
        if variant is not None and self._enabled():
            self._stats.accepted(variant)
            self._flush_soon()

    async def close(self) -> None:
        """Write what was counted."""
        if self._flushing is not None:
            self._flushing.cancel()
        await self.flush()

    def _flush_soon(self) -> None:
        if self._flushing is None or self._flushing.done():
            self._flushing = asyncio.ensure_future(self._flush_later())

    async def _flush_later(self) -> None:
        await asyncio.sleep(_FLUSH_SECONDS)
        await self.flush()

    async def flush(self) -> None:
        """Write what was counted until now."""
        await asyncio.to_thread(self._stats.flush)
        complaint = self._stats.complaint()
        if complaint:
            self._log(complaint)
