"""`textDocument/completion`: the suggestion as a popup entry."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from lsprotocol import types
from scripted import Room, inline_params
from warmline_server.lsp.completion import completion
from warmline_server.lsp.initialize import Client
from warmline_server.lsp.inline_completion import inline_completion

Make = Callable[..., Room]


async def ask(room: Room, uri: str, line: int, character: int) -> Any:
    params = types.CompletionParams(types.TextDocumentIdentifier(uri), types.Position(line, character))
    return await completion(room.ls, params)


async def test_the_entry_replaces_the_word_and_names_its_variant(room: Make) -> None:
    one = room("nsfer(a,\n    b)", client=Client(label_details=True))
    result = await ask(one, one.open("x.tra\n"), 0, 5)
    [item] = result.items
    assert result.is_incomplete
    assert item.text_edit == types.TextEdit(
        types.Range(types.Position(0, 2), types.Position(0, 5)), "transfer(a,\n    b)"
    )
    assert (item.label, item.filter_text) == ("transfer(a,…", "transfer(a,")
    assert item.sort_text > "zzzz"
    assert item.detail == "Warmline: acme, 2 lines"
    # Not Text: that is for words of the document, and people turn those off.
    assert item.kind == types.CompletionItemKind.Snippet
    assert item.insert_text_format == types.InsertTextFormat.PlainText
    assert item.label_details.description == "acme"


async def test_the_whole_suggestion_is_shown_as_code_where_the_label_is_not_all_of_it(room: Make) -> None:
    one = room("nsfer(a,\n    b)", client=Client(markdown_documentation=True))
    [item] = (await ask(one, one.open("x.tra\n"), 0, 5)).items
    assert item.documentation == types.MarkupContent(types.MarkupKind.Markdown, "```python\nnsfer(a,\n    b)\n```")
    one.engine.pieces = ["1"]
    [item] = (await ask(one, one.open("x = "), 0, 4)).items
    assert item.documentation is None


async def test_clients_that_can_are_told_to_leave_the_indentation_alone(room: Make) -> None:
    one = room("a,\n    b)", client=Client(as_is=True))
    [item] = (await ask(one, one.open("f("), 0, 2)).items
    assert item.insert_text_mode == types.InsertTextMode.AsIs


async def test_neovim_gets_a_snippet_without_the_indentation_that_it_adds(room: Make) -> None:
    one = room("nsfer(\n        '${a}',\n    )", client=Client(name="Neovim", snippets=True))
    [item] = (await ask(one, one.open("if y:\n    x.tra\n"), 1, 9)).items
    assert item.insert_text_format == types.InsertTextFormat.Snippet
    assert item.text_edit.new_text == "transfer(\n    '\\${a\\}',\n)"
    assert item.label == "transfer("  # what is inserted while a person chooses
    assert item.documentation is not None
    # Neovim shows it beside the popup, where a wide label leaves no columns.
    one.engine.pieces = ["transfer(ledger, account_id, amount_cents, reason,\n    last)"]
    [item] = (await ask(one, one.open("y = "), 0, 4)).items
    assert item.documentation is None


async def test_label_details_only_where_the_client_has_them(room: Make) -> None:
    one = room("1")
    [item] = (await ask(one, one.open("x = "), 0, 4)).items
    assert item.label_details is None
    assert item.label == "1"


async def test_ghost_text_and_popup_at_one_place_share_one_decode(room: Make) -> None:
    one = room("1")
    one.engine.gate = asyncio.Event()
    uri = one.open("x = ")
    ghost = asyncio.ensure_future(inline_completion(one.ls, inline_params(uri, 0, 4)))
    popup = asyncio.ensure_future(ask(one, uri, 0, 4))
    await one.engine.asked.wait()
    one.engine.gate.set()
    items = await ghost
    assert items
    assert items[0].insert_text == "x = 1"
    assert (await popup).items[0].text_edit.new_text == "1"
    assert len(one.engine.requests) == 1


async def test_nothing_to_show_is_null(room: Make) -> None:
    one = room("  ")
    assert await ask(one, one.open("x = "), 0, 4) is None
