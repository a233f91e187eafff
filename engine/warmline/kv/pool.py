"""Live contexts by exact identity: one each, the least recently used leaves first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from cachetools import LRUCache

from ..backends.base import Session
from ..identity import Identity

DEFAULT_LIVE: Final = 4
_REMEMBERED: Final = 256


class ContextPool:
    """At most `max_live` sessions; closing one frees its KV.

    Parameters
    ----------
    max_live
        Number of contexts that stay warm.
    """

    def __init__(self, max_live: int = DEFAULT_LIVE) -> None:
        self._max_live = max_live
        self._live: OrderedDict[Identity, Session] = OrderedDict()
        self._evicted: LRUCache[Identity, bool] = LRUCache(_REMEMBERED)

    def __len__(self) -> int:
        return len(self._live)

    def get(self, identity: Identity) -> Session | None:
        """Return the identity's own session and count it as used, or None."""
        session = self._live.get(identity)
        if session is not None:
            self._live.move_to_end(identity)
        return session

    def put(self, identity: Identity, make: Callable[[], Session]) -> Session:
        """Make room, then make and keep a session for an identity that has none."""
        if identity in self._live:
            raise ValueError(f"identity {identity} already has a session")
        while len(self._live) >= self._max_live:
            oldest, session = self._live.popitem(last=False)
            session.close()
            self._evicted[oldest] = True
        session = self._live[identity] = make()
        return session

    def was_evicted(self, identity: Identity) -> bool:
        """Tell whether this identity's session was closed to make room, and forget it."""
        return bool(self._evicted.pop(identity, False))

    def drop(self, base: str) -> None:
        """Close every session that stands on a base digest, before its weights go."""
        for identity in [one for one in self._live if one.base == base]:
            self._live.pop(identity).close()

    def close(self) -> None:
        """Close all sessions."""
        for session in self._live.values():
            session.close()
        self._live.clear()
