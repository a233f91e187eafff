"""The oracle: the logits of every answer equal, bit for bit, those of a fresh context that replays the same calls."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from warmline.identity import Identity

from .world import Lineage

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class MismatchError(AssertionError):
    """An answer's logits are not those of its replay: its KV is not what its identity and calls give."""


def fingerprint(logits: NDArray[np.float32]) -> str:
    """Return a digest of the bits."""
    return hashlib.blake2b(logits.tobytes(), digest_size=16).hexdigest()


def tokens_of(lineage: Iterable[Sequence[object]]) -> tuple[int, ...]:
    """Return the tokens that are in the KV when these calls are done."""
    tokens: list[int] = []
    for kind, what in lineage:
        if kind == "moved":
            assert what == len(tokens)
        elif kind == "keep":
            assert isinstance(what, int) and what <= len(tokens)
            del tokens[what:]
        else:
            assert isinstance(what, tuple)
            tokens += what
    return tuple(tokens)


class Oracle:
    """Replays lineages, and remembers by lineage what came out.

    Parameters
    ----------
    replay
        See `World.replay`.
    samples
        How many answers to keep for `World.elsewhere`, chosen at random with a fixed seed from all that were checked.
    """

    def __init__(
        self, replay: Callable[[Identity, Lineage], Iterator[NDArray[np.float32]]], *, samples: int = 0
    ) -> None:
        self._replay = replay
        self._known: dict[bytes, str] = {}
        self._wanted = samples
        self._rng = random.Random(0)
        self.samples: list[tuple[Identity, Lineage, str]] = []
        self.checked = 0
        self.replayed = 0

    def check(self, identity: Identity, lineage: Lineage, found: str) -> None:
        """Compare the fingerprint of an answer's logits with that of a replay.

        Raises
        ------
        MismatchError
            They differ.
        """
        keys = _keys(identity, lineage)
        if keys[-1] not in self._known:
            self.replayed += 1
            outcomes = self._replay(identity, lineage)
            for key, step in zip(keys, lineage, strict=True):
                if step[0] == "decode":
                    self._known[key] = fingerprint(next(outcomes))
            assert next(outcomes, None) is None
        self._sample(identity, lineage, found)
        self.checked += 1
        if self._known[keys[-1]] != found:
            raise MismatchError(f"other logits than a fresh context gives for {_shape(lineage)} under {identity}")

    def _sample(self, identity: Identity, lineage: Lineage, found: str) -> None:
        if len(self.samples) < self._wanted:
            self.samples.append((identity, lineage, found))
        elif self._wanted and (at := self._rng.randrange(self.checked + 1)) < self._wanted:
            self.samples[at] = identity, lineage, found


def _keys(identity: Identity, lineage: Lineage) -> list[bytes]:
    """Return a key for what each call leaves behind: a digest of it and all before it."""
    keys, key = [], identity.digest.encode()
    for step in lineage:
        key = hashlib.blake2b(key + repr(step).encode(), digest_size=16).digest()
        keys.append(key)
    return keys


def _shape(lineage: Lineage) -> str:
    return " ".join(f"decode {len(what)}" if isinstance(what, tuple) else f"{kind} {what}" for kind, what in lineage)
