"""Why nothing is suggested at a cursor, whatever the model would say: each reason has a name that the status shows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from .. import completion
from ..context.globs import matches
from ..context.secrets import is_secret, leads_to_secret
from ..suggest.settings import SuggestSettings
from . import uris
from .variants import Nowhere, Place

if TYPE_CHECKING:
    from ..context.gitignore import GitIgnore
    from .cursor import Cursor
    from .documents import Snapshot

OUT_OF_SYNC: Final = "out-of-sync"
AFTER_DELETION: Final = "after-deletion"
MID_LINE: Final = "mid-line"
ONLY_WHEN_ASKED: Final = "only-when-asked"
SECRET: Final = "secret"
#: While the answer was made another variant was selected, or a file of its was replaced.
IDENTITY_CHANGED: Final = "identity:changed"
OFF_LANGUAGE: Final = "off:language"
OFF_PATH: Final = "off:path"
OFF_GITIGNORED: Final = "off:gitignored"


def at_cursor(cursor: Cursor, settings: SuggestSettings, *, automatic: bool) -> str | None:
    """Name what speaks against a suggestion at the cursor; `automatic` when the editor asks by itself."""
    snapshot = cursor.snapshot
    if not snapshot.in_sync:
        return OUT_OF_SYNC
    if completion.is_binary(snapshot, cursor.offset):
        return completion.BINARY
    if not automatic:
        return None
    if not settings.automatic:
        return ONLY_WHEN_ASKED
    if snapshot.last_edit is not None and snapshot.last_edit.is_deletion:
        return AFTER_DELETION
    if len(cursor.after.rstrip()) > settings.max_right:
        return MID_LINE
    return None


def looks_binary(snapshot: Snapshot) -> bool:
    """Tell whether a document is no text, as far as its start says."""
    return completion.is_binary(snapshot, 0)


async def in_document(
    snapshot: Snapshot, place: Place | Nowhere, settings: SuggestSettings, git: GitIgnore
) -> str | None:
    """Name what forbids that any text of a document reaches a model: it is no context for others either."""
    path = uris.to_path(snapshot.uri)
    name = uris.name(snapshot.uri)
    shown = path_in(place, path or Path(name)) or ""
    if is_secret(name, snapshot.language_id) or (path is not None and leads_to_secret(path)):
        return SECRET
    if matches(shown, settings.secret_paths):
        return SECRET
    if matches(shown, settings.enabled_paths):
        return None
    if not {snapshot.language_id, "*"}.isdisjoint(settings.disabled_languages):
        return OFF_LANGUAGE
    if matches(shown, settings.disabled_paths):
        return OFF_PATH
    if settings.skip_gitignored and path is not None and await git.ignores(path):
        return OFF_GITIGNORED
    return None


def rules(settings: SuggestSettings) -> tuple[object, ...]:
    """Give the settings that `in_document` goes by."""
    return (
        settings.secret_paths,
        settings.enabled_paths,
        settings.disabled_languages,
        settings.disabled_paths,
        settings.skip_gitignored,
    )


def path_in(place: Place | Nowhere, path: Path | None) -> str | None:
    """Give the document's path inside its workspace, else its name: where a home folder lies is no model's business."""
    if path is None:
        return None
    workspace = place.workspace if isinstance(place, Place) else None
    inside = workspace is not None and path.is_relative_to(workspace.root)
    text = path.relative_to(workspace.root).as_posix() if inside and workspace else path.name
    # A name that is no UTF-8 has surrogates, which no message can carry.
    return text.encode("utf-8", "replace").decode()
