"""`textDocument/completion`: the same suggestion as an entry of the popup, for editors without ghost text."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from lsprotocol import types

from .cursor import Cursor, cursor_at
from .suggestions import Suggested, suggest

if TYPE_CHECKING:
    from .protocol import WarmlineServer

_WORD_BEFORE: Final = re.compile(r"\w*\Z")
_LINE_END: Final = re.compile(r"\r\n?|\n")
_MAX_LABEL: Final = 80
# Behind all that a language server knows for certain: no identifier begins with the last code point of the plane.
_SORTED_LAST: Final = "\uffff"


async def completion(ls: WarmlineServer, params: types.CompletionParams) -> types.CompletionList | None:
    """Answer with a list of one entry, or none. The list is incomplete: each key may bring another suggestion."""
    # Before the first await: what is typed after this request belongs to the next one.
    snapshot = ls.session.documents.get(params.text_document.uri)
    if snapshot is None:
        return None
    cursor = cursor_at(snapshot, params.position)
    kind = params.context.trigger_kind if params.context else types.CompletionTriggerKind.Invoked
    suggested = await suggest(ls.session, cursor, automatic=kind != types.CompletionTriggerKind.Invoked)
    if suggested is None:
        return None
    details = ls.session.client.label_details
    return types.CompletionList(is_incomplete=True, items=[item(cursor, suggested, label_details=details)])


def item(cursor: Cursor, suggested: Suggested, *, label_details: bool) -> types.CompletionItem:
    """Make the entry. It replaces the word before the cursor, by which editors sort and filter."""
    found = _WORD_BEFORE.search(cursor.before)
    word = found.group() if found else ""
    text = word + suggested.text
    snapshot = cursor.snapshot
    span = types.Range(snapshot.position_at(cursor.offset - len(word)), snapshot.position_at(cursor.offset))
    return types.CompletionItem(
        label=_label(text),
        label_details=types.CompletionItemLabelDetails(description=suggested.variant) if label_details else None,
        detail=f"Warmline: {suggested.variant}",
        documentation=types.MarkupContent(types.MarkupKind.PlainText, suggested.text.strip("\r\n")),
        kind=types.CompletionItemKind.Text,
        sort_text=_SORTED_LAST,
        filter_text=_LINE_END.split(text, maxsplit=1)[0],
        insert_text_format=types.InsertTextFormat.PlainText,
        text_edit=types.TextEdit(span, text),
    )


def _label(text: str) -> str:
    cut = _LINE_END.split(text.strip(), maxsplit=1)[0].rstrip()[:_MAX_LABEL]
    return cut if cut == text.strip() else cut + "…"
