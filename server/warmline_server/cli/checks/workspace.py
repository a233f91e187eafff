"""What the workspace selects that the command runs in: the variant to complete with, and that to chat with."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from warmline.errors import WarmlineError
from warmline.registry import Store, Workspace, find_workspace
from warmline.trust import TrustStore
from warmline.variant import ResolvedAdapter, ResolvedBase, ResolvedVariant, WorkspaceFile

from . import Check, Level, fail, warn
from .variants import VariantChecks


def selected(store: Store, variants: VariantChecks, here: Path) -> Iterator[Check]:
    """Yield a row for each variant that the workspace at or above `here` selects; none without a workspace."""
    workspace = find_workspace(here)
    if workspace is None:
        return
    try:
        selection = workspace.load()
    except WarmlineError as error:
        yield fail("workspace", f"{workspace.file}: {error.message}", error.remedy, code=error.code)
        return
    yield _row("workspace", store, variants, workspace, selection, chat=False)
    if selection.selects(chat=True) != selection.selects():
        yield _row("workspace chat", store, variants, workspace, selection, chat=True)


def _row(
    name: str, store: Store, variants: VariantChecks, workspace: Workspace, selection: WorkspaceFile, *, chat: bool
) -> Check:
    resolve = partial(store.resolve_selection, selection, workspace, chat=chat)
    found = variants.one(name, resolve)
    if found.level is Level.FAIL:
        return found
    loose = _unapproved(store, resolve())
    if loose:
        what = f"{selection.selects(chat=chat)[0]} is not loaded before you approved {', '.join(loose)}"
        return warn(name, what, "If you trust it: warmline trust add --workspace", unapproved=loose)
    return found


def _unapproved(store: Store, variant: ResolvedVariant) -> list[str]:
    """Name what the workspace brings whose digest is declared and not approved; any other is asked about when used."""
    trust = TrustStore(store.home / "trust.json")
    parts: tuple[ResolvedBase | ResolvedAdapter, ...] = (variant.base, *variant.adapters)
    return [part.name for part in parts if part.workspace and part.digest and not trust.approved(part.digest)]
