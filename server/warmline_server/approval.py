"""What is approved by digest: what a workspace's variant brings, and what installing approved."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from warmline.digests import DigestCache
from warmline.registry import Store
from warmline.variant import ResolvedAdapter, ResolvedBase, ResolvedVariant, blamed


@dataclass(frozen=True, slots=True)
class Artifact:
    """A file that may be approved; `name` and `file` are for the person, the digest is what counts."""

    name: str
    digest: str
    file: str


def brought(resolved: ResolvedVariant, digests: DigestCache | None = None) -> list[Artifact]:
    """Hash what a variant takes from its workspace.

    Raises
    ------
    ArtifactError
        ``artifact.digest``: a file is not what the variant names; as `digests.open_regular` for one that is not there.
    """
    from warmline.validation import check_digest  # the rules are not loaded where nothing is hashed

    cache = digests or DigestCache()
    parts = {"base": resolved.base} | {f"adapters[{index}]": each for index, each in enumerate(resolved.adapters)}
    artifacts = []
    for field, part in parts.items():
        if not part.workspace:
            continue
        digest = cache.digest(part.path)
        with blamed(resolved, field, part.named_by):
            check_digest(digest, part.digest, str(part.path), recorded=part.digest_recorded)
        artifacts.append(Artifact(part.name, digest, str(part.path)))
    return artifacts


@dataclass(frozen=True, slots=True)
class Installed:
    """A base or adapter of the store, and the store's own variants that name it, as ``backend/name``."""

    kind: str
    name: str
    backend: str
    variants: tuple[str, ...]

    @property
    def used(self) -> str:
        """Say what it is and who goes on using it: the store's variants are the user's own choice."""
        who = f"used by {', '.join(self.variants)}" if self.variants else "used by no variant"
        return f"{self.kind} {self.backend}/{self.name}, {who}"

    @property
    def removal(self) -> str:
        """Say how it is removed: what needs it first."""
        steps = [
            *(f"variant remove {each}" for each in self.variants),
            f"{self.kind} remove {self.backend}/{self.name}",
        ]
        return "; ".join(f"warmline {step}" for step in steps)


def installed_as(store: Store, wanted: Callable[[str], bool]) -> list[Installed]:
    """List what is installed with a digest that is `wanted`; a record that cannot be read is left out."""
    from warmline.store.upkeep import needed_by

    variants = store.list_variants()
    found = []
    for each in store.list_models():
        if each.record is not None and wanted(each.record.digest):
            needed = needed_by("model", each.backend, each.name, variants)
            found.append(Installed("model", each.name, each.backend, tuple(needed)))
    for one in store.list_adapters():
        if one.record is not None and wanted(one.record.digest):
            needed = needed_by("adapter", one.backend, one.name, variants)
            found.append(Installed("adapter", one.name, one.backend, tuple(needed)))
    return found


def taken_back(resolved: ResolvedVariant, approved: Callable[[str], bool]) -> list[str]:
    """List the installed parts of the user's own variant whose approval, which installing gave, was taken back."""
    parts: list[ResolvedBase | ResolvedAdapter] = [resolved.base, *resolved.adapters]
    mine = (part for part in parts if part.named_by == "name" and not part.workspace)
    return [part.name for part in mine if part.digest is not None and not approved(part.digest)]
