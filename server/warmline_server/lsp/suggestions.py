"""From a cursor to a suggestion, or to the reason why there is none: what both completion methods do."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from warmline.errors import WarmlineError
from warmline.variant import ResolvedVariant

from .. import completion
from . import uris
from .cursor import Cursor
from .variants import Nowhere, Place

if TYPE_CHECKING:
    from .session import Session

# llama.vim's default: with more than this right of the cursor, a suggestion nobody asked for is rarely wanted.
_MAX_RIGHT: Final = 8


@dataclass(frozen=True, slots=True)
class Suggested:
    """Text to insert at the cursor, and the variant that wrote it."""

    text: str
    variant: str


async def suggest(session: Session, cursor: Cursor, *, automatic: bool) -> Suggested | None:
    """Complete at a cursor.

    Never raises but for cancellation: an error goes to the status and the diagnostics, since editors log or show each
    failed completion, key by key.

    Parameters
    ----------
    automatic
        The editor asked by itself, so that silence is better than a suggestion that gets in the way.
    """
    uri = cursor.snapshot.uri
    session.prewarm.asked(cursor)
    reason = _refusal(cursor, automatic)
    place = session.turn_to(uri)
    if reason is None and isinstance(place, Nowhere):
        reason = place.reason
    if reason is not None or isinstance(place, Nowhere):
        session.requests.stop(uri)
        session.suggested(place, reason or "")
        return None
    attempt = session.begin(place)
    variant: ResolvedVariant | None = None
    try:
        variant = session.variants.resolve(place)
        known = variant
        result = await session.requests.ask(
            uri, (cursor.key, variant), lambda: _complete(session, cursor, place, known)
        )
    except Exception as error:
        session.failed(attempt, variant, error)
        return None
    if result is None or result.reason in (completion.SUPERSEDED, completion.CANCELLED):
        return None
    session.worked(attempt, variant, result.started.identity if result.started else None)
    session.suggested(place, result.reason, result)
    return Suggested(result.text, variant.name) if result.text else None


async def prewarm(session: Session, cursor: Cursor) -> None:
    """Prefill what a request at the cursor would need, if one could be answered there. Never raises; see `suggest`."""
    uri = cursor.snapshot.uri
    place = session.variants.place(uri)
    if isinstance(place, Nowhere) or _refusal(cursor, automatic=False) is not None:
        return
    # Errors are for the requests that somebody waits for: this is only a guess.
    with contextlib.suppress(WarmlineError):
        variant = session.variants.resolve(place)
        if not session.is_usable(place, variant):
            return
        engine = await session.engine()
        await completion.prewarm(
            engine,
            variant,
            cursor.lines,
            cursor.line,
            cursor.column,
            client=session.client_id,
            document=uri,
            path=_path_in(place, uris.to_path(uri)),
        )


async def _complete(session: Session, cursor: Cursor, place: Place, variant: ResolvedVariant) -> completion.Completion:
    snapshot = cursor.snapshot
    engine = await session.engine()
    return await completion.complete(
        engine,
        variant,
        cursor.lines,
        cursor.line,
        cursor.column,
        client=session.client_id,
        document=snapshot.uri,
        language=snapshot.language_id,
        path=_path_in(place, uris.to_path(snapshot.uri)),
        eol=session.client.line_end_for(snapshot.eol),
    )


def _refusal(cursor: Cursor, automatic: bool) -> str | None:
    """Name what speaks against a suggestion here, whatever the variant."""
    snapshot = cursor.snapshot
    if not snapshot.in_sync:
        return "out-of-sync"
    if completion.is_binary(snapshot, cursor.offset):
        return completion.BINARY
    if automatic and snapshot.last_edit is not None and snapshot.last_edit.is_deletion:
        return "after-deletion"
    if automatic and len(cursor.after.rstrip()) > _MAX_RIGHT:
        return "mid-line"
    return None


def _path_in(place: Place, path: Path | None) -> str | None:
    """Give the document's path inside its workspace, else its name: where a home folder lies is no model's business."""
    if path is None:
        return None
    inside = place.workspace is not None and path.is_relative_to(place.workspace.root)
    text = path.relative_to(place.workspace.root).as_posix() if inside and place.workspace else path.name
    # A name that is no UTF-8 has surrogates, which no message can carry.
    return text.encode("utf-8", "replace").decode()
