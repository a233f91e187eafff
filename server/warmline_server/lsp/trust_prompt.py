"""`window/showMessageRequest` for trust: what a workspace brings, by name and digest, and whether it may be loaded.

What is approved are the digests that the person was shown, never whatever lies there afterwards.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lsprotocol import types
from warmline.digests import DigestCache, short
from warmline.trust import TrustStore
from warmline.variant import ResolvedVariant

from ..approval import Artifact, brought
from ..paths import short_path

if TYPE_CHECKING:
    from .outlet import Outlet

APPROVE: Final = "Approve"
NOT_NOW: Final = "Not now"
_ANSWERS: Final = (APPROVE, NOT_NOW)


class TrustPrompt:
    """Asks the person at the editor; on its own only once for the same bytes."""

    def __init__(self, home: Path, outlet: Outlet) -> None:
        self._store = TrustStore(home / "trust.json")
        self._digests = DigestCache(home / "cache" / "digests.json")
        self._outlet = outlet
        self._asked: set[frozenset[str]] = set()

    async def offer(self, variant: ResolvedVariant, root: Path | None, *, unasked: bool) -> list[Artifact]:
        """Ask about what the variant brings and was not approved; return what was approved now.

        Parameters
        ----------
        unasked
            Nobody asked for the question, so it comes only once.

        Raises
        ------
        WarmlineError
            As `approval.brought` and `TrustStore.add`.
        """
        artifacts = await asyncio.to_thread(self._unapproved, variant)
        digests = frozenset(artifact.digest for artifact in artifacts)
        if not artifacts or (unasked and digests in self._asked):
            return []
        self._asked.add(digests)
        answer = await self._outlet.ask(types.MessageType.Warning, _question(variant, artifacts, root), _ANSWERS)
        if answer != APPROVE:
            return []
        for artifact in artifacts:
            self._store.add(artifact.digest, name=artifact.name, file=artifact.file)
        return artifacts

    def _unapproved(self, variant: ResolvedVariant) -> list[Artifact]:
        known = set(self._store.entries())
        return [artifact for artifact in brought(variant, self._digests) if artifact.digest not in known]


def may_bring(variant: ResolvedVariant) -> bool:
    """Tell whether a variant takes anything from a workspace, so that there may be something to ask about."""
    return variant.base.workspace or any(adapter.workspace for adapter in variant.adapters)


def _question(variant: ResolvedVariant, artifacts: list[Artifact], root: Path | None) -> str:
    listed = [f"{each.name} {short(each.digest)} ({short_path(each.file, root)})" for each in artifacts]
    files = "a file" if len(artifacts) == 1 else f"{len(artifacts)} files"
    return (
        f"Warmline: the variant {variant.name} of this workspace brings {files} that you have not approved: "
        f"{'; '.join(listed)}. Load these bytes?"
    )
