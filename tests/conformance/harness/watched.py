"""A session that remembers which KV it gave away, so that KV that comes back, also from disk, is known by its bytes."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from warmline.backends.base import Abort, Prefill, Sampler, Session, Step
from warmline.identity import Identity

from .world import Lineage

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from warmline.variant import Sampling


@dataclass(frozen=True)
class Origin:
    """Where KV came from."""

    identity: Identity
    tokens: tuple[int, ...]
    lineage: Lineage


class Journal:
    """All KV that sessions gave away, by the digest of its bytes.

    A snapshot file holds no lineage, and the same tokens may have been computed in several ways with other bits. The
    bytes tell which it was; should two ways give the same bytes, either lineage says what will be computed from them.

    Parameters
    ----------
    strict
        Whether KV that comes back under another identity is an error by itself. Off, only logits can betray it.
    """

    def __init__(self, *, strict: bool = True) -> None:
        self.strict = strict
        self._origins: dict[tuple[bytes, str], Origin] = {}
        self._any: dict[bytes, Origin] = {}

    def gave(self, identity: Identity, session: Session, data: bytes) -> None:
        """Note KV that left a session."""
        origin = Origin(identity, tuple(session.tokens), tuple(session.lineage))
        digest = hashlib.blake2b(data, digest_size=16).digest()
        self._origins.setdefault((digest, identity.digest), origin)
        self._any.setdefault(digest, origin)

    def find(self, identity: Identity, data: bytes) -> Origin:
        """Return where KV came from that is to be put into a session of `identity`."""
        digest = hashlib.blake2b(data, digest_size=16).digest()
        origin = self._origins.get((digest, identity.digest)) or self._any.get(digest)
        assert origin is not None, "KV that no session gave away"
        if self.strict:
            assert origin.identity.digest == identity.digest, (
                f"KV of another identity: {identity.difference(origin.identity)}"
            )
        return origin


class Watched:
    """A session (`Session`) under the eyes of a journal."""

    def __init__(self, inner: Session, identity: Identity, journal: Journal, *, moves: bool = False) -> None:
        self.inner = inner
        self._moves = moves
        self.identity = identity
        self._journal = journal

    @property
    def can_save(self) -> bool:
        return self.inner.can_save

    @property
    def estimates_reuse(self) -> bool:
        return self.inner.estimates_reuse

    @property
    def resident(self) -> bool:
        return self.inner.resident

    def resume(self) -> None:
        self.inner.resume()

    @property
    def n_ctx(self) -> int:
        return self.inner.n_ctx

    @property
    def tokens(self) -> Sequence[int]:
        return self.inner.tokens

    @property
    def lineage(self) -> Sequence[Step]:
        return self.inner.lineage

    def prefill(self, prompt: Sequence[int], abort: Abort) -> Prefill:
        return self.inner.prefill(prompt, abort)

    def new_sampler(self, sampling: Sampling, grammar: str | None = None) -> Sampler:
        return self.inner.new_sampler(sampling, grammar)

    def decode(self, token: int, abort: Abort) -> None:
        self.inner.decode(token, abort)

    def logits(self) -> NDArray[np.float32]:
        return self.inner.logits()

    def save(self) -> bytes:
        data = self.inner.save()
        self._journal.gave(self.identity, self.inner, data)
        return data

    def restore(self, tokens: Sequence[int], data: bytes, lineage: Sequence[Step] = ()) -> bool:
        origin = self._journal.find(self.identity, data)
        if self._journal.strict:
            assert tuple(tokens) == origin.tokens, "KV of other tokens"
        calls: Lineage = (*origin.lineage, ("moved", len(origin.tokens))) if self._moves else origin.lineage
        return self.inner.restore(tokens, data, cast("tuple[Step, ...]", calls))

    def close(self) -> None:
        self.inner.close()
