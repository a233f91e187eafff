"""`textDocument/completion`: the same suggestion as an entry of the popup, for editors without ghost text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lsprotocol import types

from .accepted import accepted_command
from .cursor import Cursor, cursor_at
from .initialize import Client
from .markdown import fenced
from .suggestions import Suggested, suggest

if TYPE_CHECKING:
    from .protocol import WarmlineServer

_WORD_BEFORE: Final = re.compile(r"\w*\Z")
_LINE_END: Final = re.compile(r"\r\n?|\n")
_INDENTATION: Final = re.compile(r"[ \t\v\f]*")
_ACTIVE_IN_SNIPPET: Final = re.compile(r"[\\$}]")
_MAX_LABEL: Final = 80
_WIDE_LABEL: Final = 40
# Behind all that a language server knows for certain: no identifier begins with the last code point of the plane.
_SORTED_LAST: Final = "\uffff"


async def completion(ls: WarmlineServer, params: types.CompletionParams) -> types.CompletionList | None:
    """Answer with a list of few entries, or null. The list is incomplete: each key may bring another suggestion."""
    # Before the first await: what is typed after this request belongs to the next one.
    snapshot = ls.session.documents.get(params.text_document.uri)
    if snapshot is None:
        return None
    cursor = cursor_at(snapshot, params.position)
    kind = params.context.trigger_kind if params.context else types.CompletionTriggerKind.Invoked
    suggested = await suggest(ls.session, cursor, automatic=kind != types.CompletionTriggerKind.Invoked)
    if not suggested:
        return None
    items = [item(cursor, each, ls.session.client) for each in suggested]
    # Editors sort by this: among themselves they stay in their order.
    for number, entry in enumerate(items):
        entry.sort_text = f"{_SORTED_LAST}{number}"
    return types.CompletionList(is_incomplete=True, items=items)


def item(cursor: Cursor, suggested: Suggested, client: Client) -> types.CompletionItem:
    """Make the entry. It replaces the word before the cursor, by which editors sort and filter."""
    found = _WORD_BEFORE.search(cursor.before)
    word = found.group() if found else ""
    text = word + suggested.text
    snapshot = cursor.snapshot
    span = types.Range(snapshot.position_at(cursor.offset - len(word)), snapshot.position_at(cursor.offset))
    inserted = _for_neovim(cursor, word, text) if client.is_neovim and client.snippets else _as_it_is(text, client)
    detail = f"Warmline: {suggested.variant}"
    lines = len(_LINE_END.split(text.strip()))
    return types.CompletionItem(
        label=inserted.label,
        label_details=types.CompletionItemLabelDetails(description=suggested.variant) if client.label_details else None,
        detail=detail if lines == 1 else f"{detail}, {lines} lines",
        documentation=_documentation(suggested.text, snapshot.language_id, inserted.label, client),
        # Not Text, which editors use for words of the document and which people turn off for that.
        kind=types.CompletionItemKind.Snippet,
        sort_text=_SORTED_LAST,
        filter_text=_LINE_END.split(text, maxsplit=1)[0],
        insert_text_format=inserted.format,
        insert_text_mode=inserted.mode,
        text_edit=types.TextEdit(span, inserted.text),
        command=accepted_command(cursor, suggested.text),
    )


@dataclass(frozen=True, slots=True)
class _Inserted:
    """What the editor shows and inserts, and how it is to read it."""

    label: str
    text: str
    format: types.InsertTextFormat
    mode: types.InsertTextMode | None


def _as_it_is(text: str, client: Client) -> _Inserted:
    # The default of some editors is to indent the lines after the first anew, which the suggestion's are already.
    mode = types.InsertTextMode.AsIs if client.as_is else None
    return _Inserted(_label(text), text, types.InsertTextFormat.PlainText, mode)


def _for_neovim(cursor: Cursor, word: str, text: str) -> _Inserted:
    """Make a snippet: of an item in plain text Neovim (0.11, ``lsp/completion.lua``) inserts the first word only.

    It puts the indentation of the cursor's line before each further line (``snippet.lua``), so that is taken off here,
    and the text ends before the first line that has less. While a person chooses from the popup, Neovim inserts the
    label, which therefore is the first line as it is.
    """
    line = cursor.before.removesuffix(word) + cursor.after
    indentation = _INDENTATION.match(line)
    taken = indentation.group() if indentation else ""
    lines = _LINE_END.split(text)
    kept = lines[:1]
    for each in lines[1:]:
        if each.strip() and not each.startswith(taken):
            break
        kept.append(each.removeprefix(taken) if each.strip() else "")
    while len(kept) > 1 and not kept[-1]:
        kept.pop()
    label = kept[0] if kept[0].strip() and kept[0] != word else _label(text.removeprefix(word))
    snippet = _ACTIVE_IN_SNIPPET.sub(r"\\\g<0>", "\n".join(kept))
    return _Inserted(label, snippet, types.InsertTextFormat.Snippet, None)


def _documentation(text: str, language: str, label: str, client: Client) -> types.MarkupContent | None:
    """Show the whole suggestion where it is more than its label; None where that says it all."""
    if client.is_neovim and len(label) > _WIDE_LABEL:
        return None  # it stands beside the popup, in what columns are left
    shown = text.strip("\r\n")
    if not _LINE_END.search(shown) and len(shown) <= _MAX_LABEL:
        return None
    shown = _LINE_END.sub("\n", shown)
    if client.markdown_documentation:
        return types.MarkupContent(types.MarkupKind.Markdown, fenced(shown, language))
    return types.MarkupContent(types.MarkupKind.PlainText, shown)


def _label(text: str) -> str:
    cut = _LINE_END.split(text.strip(), maxsplit=1)[0].rstrip()[:_MAX_LABEL]
    return cut if cut == text.strip() else cut + "…"
