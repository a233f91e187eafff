"""Typing along costs no decode: from the generation that runs, and from suggestions that are kept."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from lsprotocol import types
from scripted import Room, describe
from typist import Steps, Typist, settle, speaking
from warmline.host.wire import VariantStatus
from warmline.variant import ResolvedVariant

Make = Callable[..., Room]


async def test_typing_along_a_suggestion_decodes_nothing(room: Make) -> None:
    one = room("call(a,\n    b)\n")
    person = Typist(one, "if x:\n    y = ")
    whole = await person.ghost()
    assert whole == "call(a,\n    b)"
    for at, key in enumerate(whole[:-1], start=1):
        person.type(key)
        assert await person.ghost() == whole[at:]
    assert len(one.engine.requests) == 1
    assert one.memory.statuses[-1]["suggestion"] == "shown"


async def test_typing_all_of_it_asks_for_what_follows(room: Make) -> None:
    one = room("ab")
    person = Typist(one, "x = ")
    assert await person.ghost() == "ab"
    one.engine.pieces = ["(c)"]
    person.type("ab")
    assert await person.ghost() == "(c)"
    assert len(one.engine.requests) == 2


async def test_coming_back_to_a_place_decodes_nothing(room: Make) -> None:
    one = room("1")
    person = Typist(one, "x = ")
    assert await person.ghost() == "1"
    person.type("2")
    one.engine.pieces = ["3"]
    assert await person.ghost() == "3"
    person.delete(1)
    assert await person.ghost() == "1"
    assert len(one.engine.requests) == 2


async def test_in_a_crlf_document_the_line_ends_are_no_difference(room: Make) -> None:
    one = room("a,\n    b)")
    person = Typist(one, "x = 1\r\ncall(")
    assert await person.ghost() == "a,\r\n    b)"
    person.type("a,\r\n")
    assert await person.ghost() == "    b)"
    assert len(one.engine.requests) == 1


async def test_along_many_lines_the_window_moves_and_nothing_is_decoded(room: Make) -> None:
    body = "".join(f"    value_{number} = f_{number}({number})\n" for number in range(120))
    one = room(body + "    return 1")
    one.variant("acme", {"base": {"path": str(one.base)}, "profile": {"max_tokens": 4096}})
    person = Typist(one, "x = 1\n" * 300 + "def f():\n")
    whole = await person.ghost()
    assert whole is not None and whole.count("\n") == 120
    for line in whole.splitlines(keepends=True)[:-1]:
        person.type(line)
        whole = whole.removeprefix(line)
        assert await person.ghost() == whole
    assert len(one.engine.requests) == 1


async def test_what_is_being_decoded_is_continued_when_it_is_typed(room: Make) -> None:
    one = room("cal", "l(", "a)")
    person, steps, first = await speaking(one)
    person.type("c")
    second = person.ask()
    assert await first is None
    person.type("a")
    third = person.ask()
    assert await second is None
    steps.let(3)
    [item] = await third
    assert person.shown(item) == "ll(a)"
    assert len(one.engine.requests) == 1
    assert len(one.engine.stopped) == 1


async def test_typing_faster_than_the_model_speaks_is_followed_too(room: Make) -> None:
    one = room("cal", "l(", "a)")
    person, steps, first = await speaking(one)
    person.type("call(")
    second = person.ask()
    await settle()
    steps.let(3)
    [item] = await second
    assert person.shown(item) == "a)"
    assert await first is None
    assert len(one.engine.requests) == 1


async def test_as_soon_as_it_says_something_else_it_is_asked_anew(room: Make) -> None:
    one = room("cal", "l(", "a)")
    person, steps, first = await speaking(one)
    person.type("calm")
    second = person.ask()
    await settle()
    assert len(one.engine.requests) == 1  # so far it may still become that
    one.engine.pieces = ["er"]
    steps.let(1)
    await settle()
    assert [request.prefix for request in one.engine.requests] == ["x = ", "x = calm"]
    assert len(one.engine.stopped) == 1
    steps.let(5)
    [item] = await second
    assert person.shown(item) == "er"
    assert await first is None


async def test_before_the_first_word_a_new_prompt_is_better(room: Make) -> None:
    one = room("call(a)")
    person, steps, first = await speaking(one, pieces=0)
    person.type("c")
    one.engine.pieces = ["all(a)"]
    second = person.ask()
    await settle()
    assert await first is None
    steps.let(9)
    assert person.shown((await second)[0]) == "all(a)"
    assert len(one.engine.requests) == 2


async def test_an_editor_that_cancels_before_each_key_keeps_the_decode_too(room: Make) -> None:
    one = room("cal", "l(", "a)")
    person, steps, first = await speaking(one)
    person.type("c")
    first.cancel()
    await settle()
    second = person.ask()
    await settle()
    steps.let(3)
    assert person.shown((await second)[0]) == "all(a)"
    assert len(one.engine.requests) == 1


async def test_the_popup_and_ghost_text_share_what_they_follow(room: Make) -> None:
    from warmline_server.lsp.completion import completion

    one = room("cal", "l(", "a)")
    person, steps, first = await speaking(one)
    person.type("c")
    ghost = person.ask()
    popup = asyncio.ensure_future(
        completion(one.ls, types.CompletionParams(types.TextDocumentIdentifier(person.uri), person.end))
    )
    await settle()
    steps.let(3)
    assert person.shown((await ghost)[0]) == "all(a)"
    entries = await popup
    assert entries is not None
    assert isinstance(entries.items[0].text_edit, types.TextEdit)
    assert entries.items[0].text_edit.new_text == "call(a)"
    assert await first is None
    assert len(one.engine.requests) == 1


async def test_a_variant_that_was_switched_does_not_speak_with_the_others_words(room: Make) -> None:
    one = room("1")
    person = Typist(one, "x = ")
    assert await person.ghost() == "1"
    one.select("plain")
    one.engine.pieces = ["2"]
    assert await person.ghost() == "2"
    one.select("acme")
    assert await person.ghost() == "1"
    assert [request.variant.name for request in one.engine.requests] == ["acme", "plain"]


async def test_a_file_that_was_replaced_under_its_name_is_another_identity(
    room: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = room("1")
    person = Typist(one, "x = ")
    assert await person.ghost() == "1"

    async def other(variant: ResolvedVariant) -> VariantStatus:
        return describe(variant).model_copy(update={"identity": "sha256:" + "9" * 64})

    monkeypatch.setattr(one.engine, "describe", other)
    one.engine.pieces = ["2"]
    assert await person.ghost() == "2"
    assert len(one.engine.requests) == 2


async def test_a_decode_of_files_that_were_replaced_meanwhile_is_not_taken_over(
    room: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = room("cal", "l(", "a)")
    person, steps, first = await speaking(one)

    async def other(variant: ResolvedVariant) -> VariantStatus:
        return describe(variant).model_copy(update={"identity": "sha256:" + "9" * 64})

    monkeypatch.setattr(one.engine, "describe", other)
    person.type("c")
    second = person.ask()
    await settle()
    steps.let(3)
    await settle()
    one.engine.pieces = ["ore"]
    steps.let(9)
    assert await first is None
    assert person.shown((await second)[0]) == "ore"
    assert [request.prefix for request in one.engine.requests] == ["x = ", "x = c"]


async def test_a_kept_answer_that_comes_late_stops_no_later_question(
    room: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = room("1")
    person = Typist(one, "x = ")
    assert await person.ghost() == "1"
    gate = asyncio.Event()

    async def slowly(variant: ResolvedVariant) -> VariantStatus:
        await gate.wait()
        return describe(variant)

    monkeypatch.setattr(one.engine, "describe", slowly)
    one.engine.gate = steps = Steps()
    one.engine.pieces = ["3"]
    first = person.ask()
    await settle()
    person.type("2")
    second = person.ask()
    await settle()
    gate.set()
    await settle()
    steps.let(9)
    assert await first is None
    assert person.shown((await second)[0]) == "3"
    assert len(one.engine.requests) == 2


async def test_a_variant_that_broke_meanwhile_is_an_error_and_no_kept_answer(
    room: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = room("1")
    person = Typist(one, "x = ")
    assert await person.ghost() == "1"
    one.engine.error = ValueError("gone")
    assert await person.ghost() is None
    assert one.memory.statuses[-1]["state"] == "failed"


async def test_settings_that_changed_make_it_another_question(room: Make) -> None:
    one = room("1")
    person = Typist(one, "x = ")
    assert await person.ghost() == "1"
    one.session.configure({"suggest": {"candidates": 1, "speculate": False, "minProbability": 0.1}})
    assert await person.ghost() == "1"
    assert [request.probability for request in one.engine.requests] == [False, True]


async def test_closing_the_document_stops_what_runs_for_it(room: Make) -> None:
    one = room("1")
    one.engine.gate = Steps()
    person = Typist(one, "x = ")
    asked = person.ask()
    await one.engine.asked.wait()
    await person.close()
    assert await asked is None
    await settle()
    assert len(one.engine.stopped) == 1
