"""`workspace/didChangeWorkspaceFolders`: the folders in which documents without a file look for their variant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lsprotocol import types

from . import uris

if TYPE_CHECKING:
    from .protocol import WarmlineServer


def did_change_workspace_folders(ls: WarmlineServer, params: types.DidChangeWorkspaceFoldersParams) -> None:
    """Add and remove roots, keeping their order. Documents with a file look upward from there and don't care."""
    removed = {uris.to_path(folder.uri) for folder in params.event.removed}
    added = [path for folder in params.event.added if (path := uris.to_path(folder.uri)) is not None]
    variants = ls.session.variants
    kept = [root for root in variants.roots if root not in removed]
    variants.roots = tuple(dict.fromkeys([*kept, *added]))
