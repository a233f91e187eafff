"""Contexts without memory: each request begins with an empty one.

The batch size picks the CPU's kernels and moves logits, so an answer depends on how much of its prompt was there. What
is asked cold says the same whatever was asked before it, also where an interrupted evaluation goes on.
"""

from __future__ import annotations

from ..backends.base import Session
from ..identity import Identity
from ..kv.pool import ContextPool
from ..kv.snapshots import SnapshotStore


class ColdPool(ContextPool):
    """A pool that gives no session a second time, and keeps no KV."""

    def __init__(self) -> None:
        super().__init__(max_live=1, snapshots=SnapshotStore(0))

    def get(self, identity: Identity) -> Session | None:
        """Close the identity's session, unless a generation that was interrupted goes on in it, and return None."""
        live = self._live.get(identity)
        if live is not None and live.pinned:
            return live.session
        if live is not None:
            self._close(identity)
        return None
