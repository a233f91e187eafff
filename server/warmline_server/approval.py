"""What a workspace's variant brings, by digest: what a person approves, in a terminal or in the editor."""

from __future__ import annotations

from dataclasses import dataclass

from warmline.digests import DigestCache
from warmline.errors import ArtifactError
from warmline.variant import ResolvedVariant


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
    cache = digests or DigestCache()
    parts = {"base": resolved.base} | {f"adapters[{index}]": each for index, each in enumerate(resolved.adapters)}
    artifacts = []
    for field, part in parts.items():
        if not part.workspace:
            continue
        digest = cache.digest(part.path)
        if part.digest and part.digest != digest:
            raise ArtifactError(
                f"{part.path}: the file has other content than expected: {digest}, not {part.digest}",
                code="artifact.digest",
                file=resolved.file,
                field=f"{field}.digest",
                remedy="Get the right file, or correct the digest if you meant to change it",
            )
        artifacts.append(Artifact(part.name, digest, str(part.path)))
    return artifacts
