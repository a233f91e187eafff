"""`workspace/didChangeWatchedFiles`: look again when a workspace or variant file changed on disk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lsprotocol import types

from . import uris
from .initialize import Client

if TYPE_CHECKING:
    from pathlib import Path

    from .protocol import WarmlineServer

_REGISTRATION: Final = "warmline-watched-files"


def registration(client: Client, home: Path) -> types.Registration | None:
    """Give what to register: `.warmline` folders, and the user's store where the client can watch outside folders."""
    if not client.watches_files:
        return None
    watchers = [types.FileSystemWatcher("**/.warmline/**")]
    if client.relative_patterns:
        store = types.RelativePattern(base_uri=uris.to_uri(home / "variants"), pattern="**/*.json")
        watchers.append(types.FileSystemWatcher(store))
    options = types.DidChangeWatchedFilesRegistrationOptions(watchers=watchers)
    return types.Registration(_REGISTRATION, types.WORKSPACE_DID_CHANGE_WATCHED_FILES, options)


def did_change_watched_files(ls: WarmlineServer, params: types.DidChangeWatchedFilesParams) -> None:
    """Resolve and load again what is in use; what is unchanged costs next to nothing."""
    if params.changes:
        ls.session.refresh()
