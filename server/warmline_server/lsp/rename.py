"""`workspace/willRenameFiles` and `didRenameFiles`: nothing is lost when a document gets another name.

A variant is found by its file's name, which it also says itself, and a workspace file names it: renaming the one brings
the edits of the others along.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lsprotocol import types
from warmline.errors import WarmlineError
from warmline.filemodel import NAME_PATTERN

from . import file_check, uris
from .documents import Snapshot
from .fixes import Change, set_value
from .own_files import OwnFile, own_file, snapshot_of

if TYPE_CHECKING:
    from .protocol import WarmlineServer
    from .session import Session

_MOST: Final = 100


def will_rename_files(ls: WarmlineServer, params: types.RenameFilesParams) -> types.WorkspaceEdit | None:
    """Answer with the edits that a variant's new name needs in its own file and in the workspace's; null for others."""
    changes: dict[str, list[types.TextEdit]] = {}
    for renamed in params.files[:_MOST]:
        file = own_file(ls.session.variants, renamed.old_uri)
        new = uris.to_path(renamed.new_uri)
        if file is not None and file.variant is not None and new is not None and new.suffix == ".json":
            _collect(ls.session, file, renamed.old_uri, new, changes)
    return types.WorkspaceEdit(changes=changes) if changes else None


def did_rename_files(ls: WarmlineServer, params: types.RenameFilesParams) -> None:
    """Take an open document along to its new name, whether or not the client closes and opens it again."""
    session = ls.session
    for renamed in params.files:
        session.suggesting.renamed(renamed.old_uri)
        for uri in session.documents.renamed(renamed.old_uri, renamed.new_uri):
            file_check.check(session, uri)
            session.requests.stop(uri)
            session.prewarm.closed(uri)
    if any(own_file(session.variants, uri) for each in params.files for uri in (each.old_uri, each.new_uri)):
        session.refresh()


def _collect(session: Session, file: OwnFile, uri: str, new: Path, changes: dict[str, list[types.TextEdit]]) -> None:
    name = new.stem
    if not re.match(NAME_PATTERN, name) or new.parent != file.path.parent:
        return
    own = snapshot_of(session, file, uri)
    _add(changes, uri, own, set_value(own.text, "name", name))
    if file.workspace is None:
        return
    config = OwnFile(file.workspace.file, file.workspace)
    config_uri = uris.to_uri(config.path)
    selection = snapshot_of(session, config, config_uri)
    try:
        selected = file.workspace.load()
    except (WarmlineError, OSError):
        return
    for field, named in (("variant", selected.variant), ("chat", selected.chat or "")):
        backend, slash, selected_name = named.rpartition("/")
        if selected_name == file.path.stem:
            _add(changes, config_uri, selection, set_value(selection.text, field, f"{backend}{slash}{name}"))


def _add(changes: dict[str, list[types.TextEdit]], uri: str, snapshot: Snapshot, change: Change | None) -> None:
    if change is not None:
        span = types.Range(snapshot.position_at(change.span.start), snapshot.position_at(change.span.end))
        changes.setdefault(uri, []).append(types.TextEdit(span, change.text))
