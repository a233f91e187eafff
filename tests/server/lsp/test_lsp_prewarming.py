"""What is likely asked next is prefilled while nobody waits, and never where nothing would be completed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from lsprotocol import types
from scripted import Room, inline_params
from warmline.errors import BackendError, TrustError
from warmline_server.lsp import focus, prewarming, sync
from warmline_server.lsp.accepted import accepted
from warmline_server.lsp.initialize import ACCEPTED_COMMAND
from warmline_server.lsp.inline_completion import inline_completion

Make = Callable[..., Room]


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prewarming, "DELAY", 0.0)


def opened(room: Room, uri: str, text: str = "x = ") -> None:
    sync.did_open(room.ls, types.DidOpenTextDocumentParams(types.TextDocumentItem(uri, "python", 1, text)))


async def ask(room: Room, uri: str, line: int, character: int) -> Any:
    return await inline_completion(room.ls, inline_params(uri, line, character))


async def guess(room: Room) -> Any:
    await room.engine.guessed.wait()
    room.engine.guessed.clear()
    return room.engine.prewarmed[-1]


async def quiet(room: Room) -> bool:
    """Let everything that is under way come to its end, and tell whether nothing was prefilled."""
    for _ in range(20):
        await asyncio.sleep(0.005)
    return room.engine.prewarmed == []


async def test_opening_prefills_the_whole_of_a_short_document_once_its_variant_is_loaded(room: Make) -> None:
    one = room("1")
    opened(one, one.uri(), "a = 1\nb = 2")
    request = await guess(one)
    assert [variant.name for variant in one.engine.loads] == ["acme"]
    assert (request.prefix, request.suffix, request.path) == ("a = 1\nb = 2", "", "src/a.py")
    assert (request.client, request.document) == (one.session.client_id, one.uri())


async def test_it_is_the_prompt_that_is_then_asked_for(room: Make) -> None:
    one = room("1")
    opened(one, one.uri(), "b = ")
    guessed = await guess(one)
    assert await ask(one, one.uri(), 0, 4)
    assert one.engine.requests == [guessed]


async def test_a_document_that_is_opened_again_is_prefilled_where_its_cursor_was(room: Make) -> None:
    one = room("1")
    text = "a = \nb = \nc = \n"
    assert await ask(one, one.open(text), 1, 4)
    identifier = types.TextDocumentIdentifier(one.uri())
    sync.did_close(one.ls, types.DidCloseTextDocumentParams(identifier))
    opened(one, one.uri(), text)
    assert (await guess(one)).prefix == "a = \nb = "


async def test_of_many_that_are_opened_at_once_the_last_is_prefilled(room: Make) -> None:
    one = room("1")
    for name in "abcdef":
        opened(one, one.uri(f"src/{name}.py"), f"{name} = ")
    assert (await guess(one)).prefix == "f = "
    await asyncio.sleep(0.02)
    assert len(one.engine.prewarmed) == 1


async def test_who_asks_before_needs_no_guess(room: Make) -> None:
    one = room("1")
    opened(one, one.uri())
    assert await ask(one, one.uri(), 0, 4)
    assert await quiet(one)


async def test_an_accepted_suggestion_prefills_what_follows_it(room: Make) -> None:
    one = room("f(\n  \U0001f600)")
    uri = one.open("x = \ny = 2\n")
    [item] = await ask(one, uri, 0, 4)
    assert item.command.command == ACCEPTED_COMMAND
    edit = types.TextDocumentContentChangePartial(item.range, item.insert_text)
    one.session.documents.change(uri, 2, [edit])
    accepted(one.ls, *item.command.arguments)
    request = await guess(one)
    assert (request.prefix, request.suffix) == ("x = f(\n  \U0001f600)", "\ny = 2\n")


async def test_the_editor_that_asks_by_itself_after_accepting_needs_no_guess(room: Make) -> None:
    one = room("1")
    uri = one.open("x = ")
    [item] = await ask(one, uri, 0, 4)
    accepted(one.ls, *item.command.arguments)
    assert await ask(one, uri, 0, 4)
    assert await quiet(one)


@pytest.mark.parametrize("arguments", [(), (1,), ("u", None), ("u", {"line": -1, "character": 0}), ("u", {}, 3)])
async def test_an_acceptance_of_who_knows_what_does_nothing(room: Make, arguments: tuple[Any, ...]) -> None:
    one = room("1")
    accepted(one.ls, *arguments)
    assert await quiet(one)


async def test_a_client_may_tell_which_document_has_the_focus(room: Make) -> None:
    one = room("1")
    uri = one.open("x = \ny = ")
    assert await ask(one, uri, 1, 4)
    place = SimpleNamespace(uri=uri), SimpleNamespace(line=0, character=4)
    focus.did_focus(one.ls, SimpleNamespace(textDocument=place[0], position=place[1]))
    assert (await guess(one)).prefix == "x = "
    focus.did_focus(one.ls, None)


async def test_nothing_is_prefilled_for_what_is_not_completed(room: Make) -> None:
    one = room("1")
    assert await ask(one, one.open("x = "), 0, 4)
    start = types.Position(0, 0)
    binary = one.open("\x00\x01PNG" * 99, "src/b.py")
    stale = one.open("x = ", "src/c.py", version=5)
    one.session.documents.change(stale, 1, [])
    one.session.documents.open("git:/x/a.py", "python", 1, "x = ")
    elsewhere = (one.root.parent / "d.py").as_uri()
    one.session.documents.open(elsewhere, "python", 1, "x = ")
    for uri in (binary, stale, "git:/x/a.py", elsewhere, one.uri("src/never-opened.py")):
        one.session.prewarm.moved(uri, start)
        assert await quiet(one), uri


async def test_nothing_is_prefilled_before_the_variant_is_known_to_work(room: Make) -> None:
    one = room("1")
    one.engine.error = TrustError("not approved", code="trust.unapproved")
    opened(one, one.uri())
    await one.memory.until(lambda memory: memory.messages)
    one.session.prewarm.moved(one.uri(), types.Position(0, 4))
    assert await quiet(one)
    one.engine.error = None
    one.session.refresh()  # it was approved: what is open is made ready
    assert (await guess(one)).prefix == "x = "


async def test_a_guess_that_fails_is_nobodys_error(room: Make) -> None:
    one = room("1")
    uri = one.open("x = ")
    assert await ask(one, uri, 0, 4)
    one.engine.error = BackendError("the host is gone", code="backend.crashed")
    one.session.prewarm.moved(uri, types.Position(0, 0))
    await guess(one)
    await asyncio.sleep(0.01)
    assert one.memory.statuses[-1]["error"] is None
    assert one.memory.messages == []


async def test_closing_the_document_or_the_session_ends_the_guess(room: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prewarming, "DELAY", 0.02)
    one = room("1")
    uri = one.open("x = ")
    assert await ask(one, uri, 0, 4)
    one.session.prewarm.moved(uri, types.Position(0, 0))
    sync.did_close(one.ls, types.DidCloseTextDocumentParams(types.TextDocumentIdentifier(uri)))
    assert await quiet(one)
    one.session.prewarm.moved(one.open("x = "), types.Position(0, 0))
    await one.session.close()
    assert await quiet(one)
