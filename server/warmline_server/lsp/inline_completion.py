"""`textDocument/inlineCompletion`: ghost text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lsprotocol import types

from .accepted import accepted_command
from .cursor import Cursor, cursor_at, with_selection
from .suggestions import suggest

if TYPE_CHECKING:
    from .protocol import WarmlineServer


async def inline_completion(
    ls: WarmlineServer, params: types.InlineCompletionParams
) -> list[types.InlineCompletionItem] | None:
    """Answer with items, best first, or null: nothing to show, superseded, or an error that the status explains."""
    # Before the first await: what is typed after this request belongs to the next one.
    snapshot = ls.session.documents.get(params.text_document.uri)
    if snapshot is None:
        return None
    cursor: Cursor | None = cursor_at(snapshot, params.position)
    selected = params.context.selected_completion_info
    if cursor is not None and selected is not None:
        cursor = with_selection(cursor, selected)
    if cursor is None:
        return None
    automatic = params.context.trigger_kind == types.InlineCompletionTriggerKind.Automatic
    at = cursor
    suggested = await suggest(ls.session, at, automatic=automatic, once=not ls.session.client.asks_again)
    return [item(at, each.text) for each in suggested] or None


def item(cursor: Cursor, text: str) -> types.InlineCompletionItem:
    """Make the item.

    Its range begins where the line's text begins, and the inserted text repeats what is typed from there: then an
    editor can tell by itself, while a person types along, that the suggestion still stands. With a popup's selection
    the range begins where the popup's does, which is what VS Code asks of a suggestion beside a popup. There is no
    `filter_text`: without one the inserted text is compared, so the two can't disagree.
    """
    snapshot = cursor.snapshot
    if cursor.selected is not None:
        chosen, start, end = cursor.selected
        insert = chosen + text
    else:
        start, end = cursor.offset - cursor.column + cursor.typed_start, cursor.offset
        insert = cursor.before[cursor.typed_start :] + text
    return types.InlineCompletionItem(
        insert_text=insert,
        range=types.Range(snapshot.position_at(start), snapshot.position_at(end)),
        command=accepted_command(cursor, text),
    )
