"""Warm KV by exact identity: live contexts, and what leaves them as snapshots in RAM and on disk."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from cachetools import LRUCache

from ..backends.base import Session
from ..identity import Identity
from .disk import DiskSnapshots
from .prefix import common_prefix
from .snapshots import Snapshot, SnapshotStore

DEFAULT_LIVE: Final = 4
_REMEMBERED: Final = 256
# Tokens: less is not worth a copy of the whole KV, nor a restore.
_WORTH_SAVING: Final = 32
_WORTH_RESTORING: Final = 16

Source = Literal["live", "ram", "disk", "none"]


@dataclass(slots=True)
class _Live:
    session: Session
    place: Hashable = None
    pinned: dict[Hashable, Snapshot | None] = field(default_factory=dict)


class ContextPool:
    """At most `max_live` sessions, one an identity, least recently used first out; nothing crosses identities.

    Parameters
    ----------
    max_live
        Number of contexts that stay alive.
    snapshots
        Where KV goes that leaves a context; None for a store of the default size.
    disk
        Where the hottest KV goes when the engine stops, or None.
    """

    def __init__(
        self,
        max_live: int = DEFAULT_LIVE,
        snapshots: SnapshotStore | None = None,
        disk: DiskSnapshots | None = None,
    ) -> None:
        self._max_live = max_live
        self._live: OrderedDict[Identity, _Live] = OrderedDict()
        self._snapshots = SnapshotStore() if snapshots is None else snapshots
        self._disk = disk
        self._evicted: LRUCache[Identity, bool] = LRUCache(_REMEMBERED)
        self.counters: Counter[str] = Counter()

    @property
    def refused(self) -> str | None:
        """Why the latest `warm` could not use a snapshot of the identity that lies on disk; None where it could."""
        return self._disk.refused if self._disk is not None else None

    @property
    def outcomes(self) -> dict[str, int]:
        """What became of KV, by name, since the start; ``rejected:<why>`` are files on disk that were not used."""
        rejected = self._disk.rejected if self._disk is not None else {}
        return {**self.counters, **{f"rejected:{why}": count for why, count in rejected.items()}}

    def __len__(self) -> int:
        return len(self._live)

    @property
    def snapshots(self) -> SnapshotStore:
        """KV in host RAM."""
        return self._snapshots

    def get(self, identity: Identity) -> Session | None:
        """Return the identity's own session and count it as used, or None."""
        live = self._live.get(identity)
        if live is None:
            return None
        self._live.move_to_end(identity)
        return live.session

    def put(self, identity: Identity, make: Callable[[], Session]) -> Session:
        """Make room, then make and keep a session for an identity that has none."""
        if identity in self._live:
            raise ValueError(f"identity {identity} already has a session")
        for oldest in [one for one, live in self._live.items() if not live.pinned]:
            if len(self._live) < self._max_live:
                break
            self._close(oldest)
            self._evicted[oldest] = True
        session = make()
        self._live[identity] = _Live(session)
        return session

    def warm(self, identity: Identity, prompt: Sequence[int], place: Hashable) -> Source:
        """Put the KV nearest to `prompt` into the identity's session, before its prefill; say where it came from.

        `place` is who asks (client and document): KV of another place that the prompt would push out is kept as a
        snapshot, while typing in one place copies nothing.
        """
        live = self._live[identity]
        session = live.session
        shared = common_prefix(session.tokens, prompt)
        found, source = self._nearest(identity, prompt, shared)
        if live.place in live.pinned and live.place != place:
            live.pinned[live.place] = _snapshot(identity, session)
        elif live.place is not None and live.place != place and shared < len(session.tokens):
            self._save(identity, session)
        live.place = place
        if found is not None:
            if session.restore(found.tokens, found.data, found.lineage):
                self.counters[f"restored:{source}"] += 1
                return source
            # The context is empty now: it must not cost the live KV again at the next request.
            self.counters["refused"] += 1
            self._snapshots.discard(found)
            if self._disk is not None:
                self._disk.discard(found)
            return "none"
        return "live" if shared else "none"

    def pin(self, identity: Identity, place: Hashable) -> None:
        """Keep the identity's context alive for a generation of `place` that may be interrupted."""
        self._live[identity].pinned[place] = None

    def unpin(self, identity: Identity, place: Hashable) -> None:
        """End what `pin` began."""
        live = self._live.get(identity)
        if live is not None:
            live.pinned.pop(place, None)

    def retake(self, identity: Identity, place: Hashable) -> Sequence[int] | None:
        """Give a pinned place its KV back after an interruption.

        Returns None when all is in place again, bit for bit; else the tokens whose KV must be computed anew.
        """
        live = self._live[identity]
        if live.place == place:
            return None
        if live.place in live.pinned:
            live.pinned[live.place] = _snapshot(identity, live.session)
        live.place = place
        kept = live.pinned[place]
        if kept is None:
            return None
        if live.session.restore(kept.tokens, kept.data, kept.lineage):
            self.counters["resumed"] += 1
            return None
        if not kept.tokens:
            return None  # nothing was there before, nor is there now
        self.counters["resumed_by_prefill"] += 1
        return kept.tokens

    @property
    def pinned_bases(self) -> set[str]:
        """Digests of the bases that an unfinished generation stands on."""
        return {identity.base for identity, live in self._live.items() if live.pinned}

    def mark_evicted(self, identity: Identity) -> None:
        """Note that the identity's KV is gone although its session is there: another one needed its memory."""
        self._evicted[identity] = True

    def was_evicted(self, identity: Identity) -> bool:
        """Tell whether this identity's KV went to make room, and forget it."""
        return bool(self._evicted.pop(identity, False))

    def drop(self, base: str) -> None:
        """Close every session that stands on a base digest, before its weights go; their KV stays as snapshots."""
        for identity in [one for one in self._live if one.base == base]:
            self._close(identity)

    def to_disk(self, limit: int = 8) -> int:
        """Write the hottest KV to disk, live contexts first; return how many snapshots were written."""
        if self._disk is None:
            return 0
        for identity, live in self._live.items():
            self._save(identity, live.session)
        hottest = list(self._snapshots)[-limit:]
        return sum(self._disk.put(snapshot) for snapshot in hottest)

    def close(self) -> None:
        """Close all sessions and forget all KV in RAM."""
        for live in self._live.values():
            live.session.close()
        self._live.clear()
        self._snapshots.clear()

    def _nearest(self, identity: Identity, prompt: Sequence[int], shared: int) -> tuple[Snapshot | None, Source]:
        found: Snapshot | None = None
        source: Source = "none"
        if self._disk is not None:
            self._disk.refused = None
        best = self._snapshots.best(identity, prompt)
        if best is not None and best[1] >= shared + _WORTH_RESTORING:
            (found, shared), source = best, "ram"
        # What is in RAM may be the beginning that all prompts share, while the disk holds this very prompt.
        if self._disk is not None and shared + _WORTH_RESTORING <= len(prompt):
            read = self._disk.best(identity, prompt, more_than=shared + _WORTH_RESTORING - 1)
            if read is not None:
                self._snapshots.put(read[0])
                return read[0], "disk"
        return found, source

    def _save(self, identity: Identity, session: Session) -> None:
        if not session.can_save:
            self.counters["unsupported"] += bool(session.tokens)
            return
        if len(session.tokens) >= _WORTH_SAVING and not self._snapshots.holds(identity, session.tokens):
            kept = self._snapshots.put(_snapshot(identity, session))
            self.counters["saved" if kept else "too_large"] += 1

    def _close(self, identity: Identity) -> None:
        live = self._live.pop(identity)
        self._save(identity, live.session)
        live.session.close()


def _snapshot(identity: Identity, session: Session) -> Snapshot:
    return Snapshot(identity, tuple(session.tokens), session.save(), tuple(session.lineage))
