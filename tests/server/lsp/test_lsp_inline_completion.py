"""`textDocument/inlineCompletion` over a scripted engine: ranges, encodings, triggers, selections, odd documents."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types
from scripted import Room, inline_params
from warmline.errors import ArtifactError
from warmline.host.wire import Outcome
from warmline_server.lsp import uris
from warmline_server.lsp.initialize import Client
from warmline_server.lsp.inline_completion import inline_completion

Make = Callable[..., Room]


async def ask(room: Room, uri: str, line: int, character: int, **how: Any) -> Any:
    items = await inline_completion(room.ls, inline_params(uri, line, character, **how))
    return items[0] if items else None


def span(item: Any) -> tuple[int, int, int, int]:
    start, end = item.range.start, item.range.end
    return (start.line, start.character, end.line, end.character)


async def test_the_range_starts_where_the_lines_text_does_and_the_typed_text_is_repeated(room: Make) -> None:
    one = room("b)")
    item = await ask(one, one.open("if x:\n    call(a, \n"), 1, 12)
    assert item.insert_text == "call(a, b)"
    assert span(item) == (1, 4, 1, 12)
    assert item.filter_text is None


async def test_on_a_blank_line_the_range_is_the_cursor(room: Make) -> None:
    one = room("pass")
    item = await ask(one, one.open("if x:\n    \n"), 1, 2)
    assert span(item)[:2] == (1, 2)
    assert span(item)[2:] == (1, 2)


# An astral letter (4 bytes, 2 UTF-16 units), one of the Latin ones beyond ASCII (2 bytes), three ASCII characters.
@pytest.mark.parametrize(("encoding", "column"), [("utf-8", 4 + 2 + 3), ("utf-16", 2 + 1 + 3), ("utf-32", 1 + 1 + 3)])
async def test_positions_are_in_the_sessions_encoding(room: Make, encoding: str, column: int) -> None:
    one = room("1", client=Client(encoding=encoding))
    text = "\U0001d4b3\u0101 = "
    item = await ask(one, one.open(text), 0, column)
    assert one.engine.requests[0].prefix == text
    assert span(item) == (0, 0, 0, column)
    assert item.insert_text == text + "1"


@pytest.mark.parametrize(("line", "character"), [(0, 10_000), (500, 0), (1, 3)])
async def test_a_position_past_the_end_is_moved_into_the_document(room: Make, line: int, character: int) -> None:
    one = room("z")
    item = await ask(one, one.open("x = "), line, character)
    assert one.engine.requests[0].prefix == "x = "
    assert span(item) == (0, 0, 0, 4)


async def test_crlf_documents_get_crlf_and_the_model_never_sees_it(room: Make) -> None:
    one = room("a,\n    b)")
    item = await ask(one, one.open("x = 1\r\ncall(\r\ny = 2\r\n"), 1, 5)
    [request] = one.engine.requests
    assert "\r" not in request.prefix + request.suffix
    assert item.insert_text.startswith("call(a,\r\n")
    assert "\n" not in item.insert_text.replace("\r\n", "")


async def test_neovim_gets_plain_line_feeds_also_in_crlf_documents(room: Make) -> None:
    one = room("a,\n    b)", client=Client(name="Neovim"))
    item = await ask(one, one.open("x = 1\r\ncall(\r\ny = 2\r\n"), 1, 5)
    assert "\r" not in item.insert_text


async def test_form_feeds_are_no_line_ends(room: Make) -> None:
    one = room("1")
    item = await ask(one, one.open("a\x0cb\u2028c\nx = \n"), 1, 4)
    assert one.engine.requests[0].prefix == "a\x0cb\u2028c\nx = "
    assert span(item) == (1, 0, 1, 4)


async def test_binary_documents_get_nothing_with_the_reason(room: Make) -> None:
    one = room("1")
    assert await ask(one, one.open("\x00\x01\x02PNG" * 100), 0, 3) is None
    assert one.engine.requests == []
    assert one.memory.statuses[-1]["suggestion"] == "binary"


async def test_a_document_of_5_mb_sends_a_bounded_window(room: Make) -> None:
    one = room("1")
    line = "x" * 99 + "\n"
    uri = one.open(line * 25_000 + "y = \n" + line * 25_000)
    item = await ask(one, uri, 25_000, 4)
    [request] = one.engine.requests
    assert item.insert_text == "y = 1"
    assert len(request.prefix) + len(request.suffix) < 50_000
    assert request.prefix.endswith("\ny = ")


async def test_one_line_of_5_mb_sends_a_bounded_window(room: Make) -> None:
    one = room("1")
    await ask(one, one.open("a=1;" * 1_250_000), 0, 2_500_000)
    [request] = one.engine.requests
    assert len(request.prefix) + len(request.suffix) < 50_000


async def test_automatic_requests_are_silent_in_the_middle_of_a_line_and_after_a_deletion(room: Make) -> None:
    one = room("1")
    uri = one.open("x =  + something\n")
    assert await ask(one, uri, 0, 4, automatic=True) is None
    assert one.memory.statuses[-1]["suggestion"] == "mid-line"
    one.session.documents.change(
        uri, 2, [types.TextDocumentContentChangePartial(types.Range(types.Position(0, 4), types.Position(0, 16)), "")]
    )
    assert await ask(one, uri, 0, 4, automatic=True) is None
    assert one.memory.statuses[-1]["suggestion"] == "after-deletion"
    assert one.engine.requests == []
    assert await ask(one, uri, 0, 4) is not None


async def test_invoked_requests_are_answered_in_the_middle_of_a_line(room: Make) -> None:
    one = room("1")
    assert await ask(one, one.open("x =  + something\n"), 0, 4) is not None


def choose(text: str, start: int, end: int, line: int = 0) -> types.SelectedCompletionInfo:
    return types.SelectedCompletionInfo(types.Range(types.Position(line, start), types.Position(line, end)), text)


async def test_with_a_popups_selection_it_is_completed_as_though_accepted(room: Make) -> None:
    one = room("(a)")
    item = await ask(one, one.open("  obj.tra\nnext\n"), 0, 9, selected=choose("transfer", 6, 9))
    [request] = one.engine.requests
    assert (request.prefix, request.suffix) == ("  obj.transfer", "\nnext\n")
    # VS Code wants the same start as the popup's and the selected text first.
    assert item.insert_text == "transfer(a)"
    assert span(item) == (0, 6, 0, 9)


@pytest.mark.parametrize(
    "selected", [choose("transfer", 6, 9, line=1), choose("tra\nns", 6, 9), choose("t", 0, 2), choose("t", 8, 6)]
)
async def test_a_selection_that_cannot_be_continued_gets_null(room: Make, selected: Any) -> None:
    one = room("(a)")
    assert await ask(one, one.open("  obj.tra\nnext line\n"), 0, 9, selected=selected) is None
    assert one.engine.requests == []


async def test_a_later_request_supersedes_an_earlier_one_which_gets_null(room: Make) -> None:
    one = room("1")
    one.engine.gate = asyncio.Event()
    uri = one.open("x = \ny = \n")
    first = asyncio.ensure_future(ask(one, uri, 0, 4))
    await one.engine.asked.wait()
    second = asyncio.ensure_future(ask(one, uri, 1, 4))
    assert await first is None
    one.engine.gate.set()
    assert (await second).insert_text == "y = 1"
    assert [request.prefix for request in one.engine.stopped] == ["x = ", "x = \ny = "]


async def test_superseded_by_the_engine_is_null_too_and_no_error(room: Make) -> None:
    one = room("1", outcome=Outcome.SUPERSEDED)
    assert await ask(one, one.open("x = "), 0, 4) is None
    assert all(status["error"] is None for status in one.memory.statuses)


async def test_a_cancelled_request_stops_its_decode(room: Make) -> None:
    one = room("1")
    one.engine.gate = asyncio.Event()
    uri = one.open("x = ")
    task = asyncio.ensure_future(ask(one, uri, 0, 4))
    await one.engine.asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    # An editor that cancels before each key asks again at once; only when nobody does, the decode ends.
    await one.engine.ended.wait()
    one.engine.gate.set()
    assert (await ask(one, uri, 0, 4)).insert_text == "x = 1"
    assert len(one.engine.stopped) == 2


async def test_what_is_typed_after_the_request_does_not_reach_it(room: Make) -> None:
    one = room("1")
    uri = one.open("x = ")
    task = asyncio.ensure_future(ask(one, uri, 0, 4))
    await asyncio.sleep(0)  # one turn of the loop: the handler has begun
    one.session.documents.change(uri, 2, [types.TextDocumentContentChangeWholeDocument("other")])
    assert (await task).insert_text == "x = 1"


async def test_a_document_that_is_out_of_step_gets_nothing_until_it_is_sent_whole(room: Make) -> None:
    one = room("1")
    uri = one.open("x = ", version=5)
    one.session.documents.change(uri, 1, [])
    assert await ask(one, uri, 0, 4) is None
    assert one.memory.statuses[-1]["suggestion"] == "out-of-sync"
    one.session.documents.change(uri, 6, [types.TextDocumentContentChangeWholeDocument("x = ")])
    assert await ask(one, uri, 0, 4) is not None


@pytest.mark.parametrize(
    "error", [ArtifactError("gone", code="artifact.missing", file="/x"), ValueError("secret text")]
)
async def test_errors_are_null_in_the_answer_and_shown_elsewhere(room: Make, error: Exception) -> None:
    one = room("1")
    uri = one.open("x = ")
    one.engine.error = error
    assert await ask(one, uri, 0, 4) is None
    assert await ask(one, uri, 0, 4) is None
    status = one.memory.statuses[-1]
    assert status["state"] == "failed"
    assert status["error"]["code"] == ("artifact.missing" if isinstance(error, ArtifactError) else "internal")
    assert len(one.memory.logs) == 1  # not one for each key
    assert "secret" not in one.memory.logs[0] + str(one.memory.statuses) + str(one.memory.diagnostics)
    shown = sum(len(items) for items in one.memory.diagnostics.values())
    assert shown == (1 if isinstance(error, ArtifactError) else 0)  # an internal failure is no file's fault
    one.engine.error = None
    assert await ask(one, uri, 0, 4) is not None
    assert one.memory.statuses[-1]["error"] is None
    assert one.memory.statuses[-1]["state"] != "failed"
    assert not any(one.memory.diagnostics.values())


async def test_the_status_has_the_requests_numbers_when_the_answer_comes(room: Make) -> None:
    one = room("1")
    assert await ask(one, one.open("x = "), 0, 4) is not None
    last = one.memory.statuses[-1]["last"]
    assert (last["reused_tokens"], last["prompt_tokens"], last["reason"]) == (4, 10, "prefix:4/10")


@pytest.mark.parametrize("uri", ["git:/ws/src/a.py?HEAD", "vscode-notebook-cell:/ws/n.ipynb#c1", "nonsense"])
async def test_other_schemes_get_nothing_with_the_reason(room: Make, uri: str) -> None:
    one = room("1")
    one.session.documents.open(uri, "python", 1, "x = ")
    assert await ask(one, uri, 0, 4) is None
    assert one.memory.statuses[-1]["suggestion"].startswith("scheme:")


async def test_a_document_that_is_not_open_gets_null(room: Make) -> None:
    one = room("1")
    (one.root / "src" / "a.py").write_text("x = ")
    assert await ask(one, one.uri(), 0, 4) is None


@pytest.mark.skipif(os.name == "nt", reason="names are no bytes there")
async def test_a_folder_whose_name_is_no_utf8_has_its_workspace(room: Make) -> None:
    one = room("1")
    folder = Path(os.fsdecode(os.fsencode(one.root) + b"/caf\xe9"))
    one.write(folder / ".warmline" / "config.json", {"variant": "plain"})
    uri = one.root.as_uri() + "/caf%E9/%E9.py"
    assert uris.to_path(uri) == folder / os.fsdecode(b"\xe9.py")
    assert uris.to_uri(folder / os.fsdecode(b"\xe9.py")) == uri
    one.session.documents.open(uri, "python", 1, "x = ")
    assert await ask(one, uri, 0, 4) is not None
    assert (one.engine.requests[0].variant.name, one.engine.requests[0].path) == ("plain", "?.py")


async def test_the_path_in_the_prompt_begins_at_the_workspace(room: Make) -> None:
    one = room("1")
    await ask(one, one.open("x = "), 0, 4)
    assert one.engine.requests[0].path == "src/a.py"
