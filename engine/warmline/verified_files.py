"""What verifying a variant needs of each backend's kind of files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Protocol

from .backends.base import BaseFacts, ContextConfig
from .capacity import Capacity
from .variant import Profile, ResolvedAdapter, ResolvedBase

# Called with a digest as soon as it is known; raises where these bytes are not to be looked at any further.
Admit = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class KnownAdapter:
    """An adapter whose bytes are known and fit the base.

    Parameters
    ----------
    path
        The weights.
    digests
        Of the weights, then of whatever else says how they act.
    nbytes
        Of the weights alone.
    factor
        What B·A is multiplied by at scale 1, exactly (``alpha / rank``).
    native_factor
        What of it the native call has to be told.
    zero_pairs
        Targets whose product is zero.
    """

    path: Path
    digests: tuple[str, ...]
    rank: int
    alpha: float | None
    nbytes: int
    factor: Fraction
    native_factor: Fraction | int
    zero_pairs: tuple[str, ...] = ()


class VariantFiles(Protocol):
    """The files of variants of one backend; errors are `ArtifactError`, ``artifact.*``, and those of `admit`."""

    def paths(self, artifact: ResolvedBase | ResolvedAdapter) -> list[Path]:
        """Return all files that are hashed for an artifact."""

    def known(self, artifact: ResolvedBase | ResolvedAdapter) -> tuple[str, ...] | None:
        """Return an artifact's digests, its own first, if its files are provably those hashed before; else None."""

    def hash(self, path: Path) -> None:
        """Hash one of `paths`, if it is of the right kind and not in the cache."""

    def base(self, base: ResolvedBase, admit: Admit) -> str:
        """Hash and check a base; return its digest."""

    def adapter(self, spec: ResolvedAdapter, base_digest: str, admit: Admit) -> KnownAdapter:
        """Hash an adapter, and check it against a base that was checked before."""

    def claimed(self, base_digest: str) -> frozenset[str]:
        """Return what a base that was checked before says of itself that it was made of."""

    def context(self, profile: Profile, facts: BaseFacts) -> ContextConfig:
        """Return how the profile's context is made; raises BackendError for what the backend has not."""

    def capacity(
        self, base_digest: str, adapter_bytes: int, profile: Profile, facts: BaseFacts, context: ContextConfig
    ) -> Capacity:
        """Work out the memory of a variant on a base that was checked before."""
