"""KV that left its context, in host RAM: under its exact identity, found by the longest common token prefix."""

from __future__ import annotations

import hashlib
from array import array
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from ..backends.base import Step
from ..identity import Identity
from .prefix import common_prefix

DEFAULT_BUDGET: Final = 512 << 20


@dataclass(frozen=True)
class Snapshot:
    """The KV of some tokens under one identity, as the backend wrote it.

    `lineage` is what a replay needs, where it was recorded.
    """

    identity: Identity
    tokens: tuple[int, ...]
    data: bytes = field(repr=False)
    lineage: tuple[Step, ...] = field(default=(), repr=False, compare=False)

    @property
    def nbytes(self) -> int:
        """Bytes it holds in RAM, tokens included."""
        return len(self.data) + 8 * len(self.tokens)

    @property
    def key(self) -> bytes:
        """Digest of the tokens; equality of digests is always confirmed on the tokens."""
        return token_key(self.tokens)


def token_key(tokens: Sequence[int]) -> bytes:
    """Return sha256 over the tokens as 64-bit integers."""
    return hashlib.sha256(array("q", tokens).tobytes()).digest()


class SnapshotStore:
    """Snapshots within a byte budget, least recently used first out.

    Parameters
    ----------
    budget
        Most bytes of all snapshots together; 0 keeps none.
    """

    def __init__(self, budget: int = DEFAULT_BUDGET) -> None:
        self._budget = budget
        self._used = 0
        self._all: OrderedDict[tuple[Identity, bytes], Snapshot] = OrderedDict()
        self.evictions = 0

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[Snapshot]:
        """Iterate from the least recently to the most recently used."""
        return iter(self._all.values())

    @property
    def nbytes(self) -> int:
        """Bytes in use."""
        return self._used

    def exact(self, identity: Identity, tokens: Sequence[int]) -> Snapshot | None:
        """Return the snapshot of exactly these tokens under this identity, and count that as a use."""
        key = (identity, token_key(tokens))
        found = self._all.get(key)
        if found is None or found.tokens != tuple(tokens):
            return None
        self._all.move_to_end(key)
        return found

    def holds(self, identity: Identity, tokens: Sequence[int]) -> bool:
        """Tell whether `exact` would find one."""
        return self.exact(identity, tokens) is not None

    def put(self, snapshot: Snapshot) -> bool:
        """Keep a snapshot, making room as needed; tell whether it fits the budget at all.

        A snapshot that the new one extends goes: whatever it could serve, the new one serves.
        """
        if snapshot.nbytes > self._budget:
            return False
        for key, other in list(self._all.items()):
            shorter = other.identity == snapshot.identity and len(other.tokens) <= len(snapshot.tokens)
            if shorter and common_prefix(other.tokens, snapshot.tokens) == len(other.tokens):
                self._remove(key)
        self.discard(snapshot)  # should the digest of other tokens collide with its own
        while self._used + snapshot.nbytes > self._budget:
            self._remove(next(iter(self._all)))
            self.evictions += 1
        self._all[snapshot.identity, snapshot.key] = snapshot
        self._used += snapshot.nbytes
        return True

    def best(self, identity: Identity, prompt: Sequence[int]) -> tuple[Snapshot, int] | None:
        """Return the identity's snapshot that shares most leading tokens with `prompt`, and how many, or None."""
        best: tuple[Snapshot, int] | None = None
        for snapshot in self._all.values():
            if snapshot.identity != identity:
                continue
            shared = common_prefix(snapshot.tokens, prompt)
            if shared and (best is None or shared > best[1]):
                best = snapshot, shared
        if best is not None:
            self._all.move_to_end((identity, best[0].key))
        return best

    def discard(self, snapshot: Snapshot) -> None:
        """Forget a snapshot, for example one that the backend refused; no error when it is not there."""
        if (snapshot.identity, snapshot.key) in self._all:
            self._remove((snapshot.identity, snapshot.key))

    def drop(self, base: str) -> int:
        """Forget every snapshot that stands on a base digest; return how many."""
        keys = [key for key in self._all if key[0].base == base]
        for key in keys:
            self._remove(key)
        return len(keys)

    def clear(self) -> None:
        """Forget everything."""
        self._all.clear()
        self._used = 0

    def _remove(self, key: tuple[Identity, bytes]) -> None:
        self._used -= self._all.pop(key).nbytes
