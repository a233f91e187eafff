"""When the model is asked, for how many answers, what is decoded ahead, and why there is nothing to see."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from itertools import pairwise

import pytest
from lsprotocol import types
from scripted import Room
from typist import Steps, Typist, settle
from warmline.host.wire import CompletionRequest, Event, Outcome
from warmline_server.lsp import speculating, suggesting, suggestions
from warmline_server.lsp.accepted import accepted
from warmline_server.lsp.initialize import Client

Make = Callable[..., Room]
ASKS_AGAIN = Client(name="Neovim")


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speculating, "DELAY", 0.0)


def answers(room: Room, *texts: str) -> None:
    """Have each candidate say something else."""
    complete = room.engine.complete

    async def numbered(request: CompletionRequest) -> AsyncIterator[Event]:
        room.engine.pieces = [texts[request.candidate]]
        async for event in complete(request):
            yield event

    room.engine.complete = numbered  # type: ignore[method-assign]


# -- the debounce ----------------------------------------------------------------------------------------------------


def fast_typist_slow_model(room: Room) -> None:
    rhythm = room.session.suggesting.rhythm
    for key in range(10):
        rhythm.typed(key * 0.1)
    rhythm.answered(2.0)


async def test_of_keys_in_a_row_only_the_last_reaches_a_slow_model(room: Make) -> None:
    one = room("z")
    person = Typist(one, "x = ")
    fast_typist_slow_model(one)
    asked = []
    for key in "abcdef":
        person.type(key)
        asked.append(person.ask(automatic=True))
        await settle()
    found = await asyncio.gather(*asked)
    assert [answer is None for answer in found] == [True] * 5 + [False]
    assert [request.prefix for request in one.engine.requests] == ["x = abcdef"]


async def test_typing_a_suggestion_along_makes_nobody_wait_for_the_next(
    room: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = room("yz = something")
    person = Typist(one, "x = ")
    rhythm = one.session.suggesting.rhythm
    now = 0.0
    monkeypatch.setattr(suggesting.time, "monotonic", lambda: now)
    for _ in range(5):
        now += 0.5
        rhythm.typed(now)
        rhythm.answered(0.3)
    now += 0.5
    person.type(" ")
    for key in "yz = some":
        assert await person.ghost(automatic=True)
        now += 0.1
        person.type(key)
    assert len(one.engine.requests) == 1
    assert rhythm.wait(now, 0.3) == 0.0


@pytest.mark.parametrize("outcome", [Outcome.SUPERSEDED, Outcome.CANCELLED, Outcome.STOP])
async def test_an_answer_that_the_engine_gave_up_is_no_quick_one(
    room: Make, outcome: Outcome, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = room("z", outcome=outcome)
    person = Typist(one, "x = ")
    fast_typist_slow_model(one)
    now = 0.9
    monkeypatch.setattr(suggesting.time, "monotonic", lambda: now)
    for key in "abcdefghi":
        now += 0.1
        person.type(key)
        await person.ghost()  # at once
    assert (one.session.suggesting.rhythm.wait(now, 0.3) > 0) == (outcome is not Outcome.STOP)


async def test_who_asks_is_answered_at_once(room: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    one = room("z")
    person = Typist(one, "x = ")
    fast_typist_slow_model(one)
    monkeypatch.setattr(asyncio, "sleep", None)  # whoever waits fails
    person.type("a")
    assert await person.ghost() == "z"


async def test_a_quick_model_is_asked_at_each_key(room: Make) -> None:
    one = room("z")
    person = Typist(one, "x = ")
    for key in "abc":
        person.type(key)
        assert await person.ghost(automatic=True) == "z"
    assert len(one.engine.requests) == 3


async def test_off_is_off_until_asked(room: Make) -> None:
    one = room("z", suggest={"automatic": False})
    person = Typist(one, "x = ")
    assert await person.ghost(automatic=True) is None
    assert one.memory.statuses[-1]["suggestion"] == "only-when-asked"
    assert await person.ghost() == "z"


async def test_how_much_may_stand_right_of_the_cursor_is_a_setting(room: Make) -> None:
    one = room("z", suggest={"maxRight": 20})
    uri = one.open("x =  + something\n")
    from scripted import inline_params
    from warmline_server.lsp.inline_completion import inline_completion

    assert await inline_completion(one.ls, inline_params(uri, 0, 4, automatic=True))


async def test_in_a_statement_the_rest_of_the_line_is_decoded_and_no_more(room: Make) -> None:
    one = room("1\n", *["more = 2\n"] * 50)
    one.engine.gate = asyncio.Event()
    one.engine.gate.set()
    person = Typist(one, "x = ")
    assert await person.ghost(automatic=True) == "1"
    person.type("1\nif x:")
    one.engine.pieces = ["\n    a = 1\n    b = 2\n"]
    assert await person.ghost(automatic=True) == "\n    a = 1\n    b = 2"


# -- several candidates ----------------------------------------------------------------------------------------------


async def test_who_asks_gets_up_to_three_different_ones(room: Make) -> None:
    one = room("1", suggest={"candidates": 3})
    answers(one, "1", "2", "3")
    person = Typist(one, "x = ")
    items = await person.ask()
    assert [person.shown(item) for item in items] == ["1", "2", "3"]
    assert [request.candidate for request in one.engine.requests] == [0, 1, 2]


async def test_those_that_agree_with_what_is_typed_stay(room: Make) -> None:
    one = room("1", suggest={"candidates": 3})
    answers(one, "ab", "ac", "b")
    person = Typist(one, "x = ")
    assert len(await person.ask()) == 3
    person.type("a")
    assert [person.shown(item) for item in await person.ask()] == ["b", "c"]


async def test_equal_ones_are_one(room: Make) -> None:
    one = room("1", suggest={"candidates": 3})
    answers(one, "1", "1 ", "\n\n")
    assert len(await Typist(one, "x = ").ask()) == 1


async def test_an_editor_that_asks_by_itself_gets_one(room: Make) -> None:
    one = room("1", suggest={"candidates": 3})
    assert len(await Typist(one, "x = ").ask(automatic=True)) == 1
    assert len(one.engine.requests) == 1


async def test_a_newer_question_ends_all_candidates_of_the_older(room: Make) -> None:
    one = room("1", suggest={"candidates": 3})
    answers(one, "1", "2", "3")
    one.engine.gate = steps = Steps()
    person = Typist(one, "x = ")
    first = person.ask()
    steps.let(3)  # the first candidate, and half of the second
    await settle()
    person.type("y")
    second = person.ask(automatic=True)
    await settle()
    assert await first is None
    steps.let(9)
    assert await second
    assert [request.candidate for request in one.engine.requests] == [0, 1, 0]


async def test_who_asks_does_not_wait_for_slow_others_and_gets_all_when_asking_again(
    room: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(suggestions, "_PATIENCE", 0.02)
    one = room("1", client=ASKS_AGAIN, suggest={"candidates": 3})
    answers(one, "1", "2", "3")
    one.engine.gate = steps = Steps()
    person = Typist(one, "x = ")
    first = person.ask()
    steps.let(3)  # the first candidate, and half of the second
    items = await asyncio.wait_for(first, 5)
    assert [person.shown(item) for item in items] == ["1"]
    again = person.ask()
    await settle()
    assert not again.done()
    steps.let(9)
    assert [person.shown(item) for item in await again] == ["1", "2", "3"]
    assert [person.shown(item) for item in await person.ask()] == ["1", "2", "3"]
    assert [request.candidate for request in one.engine.requests] == [0, 1, 2]


async def test_an_editor_that_does_not_ask_again_gets_all_at_once(room: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suggestions, "_PATIENCE", 0.01)
    one = room("1", client=Client(name="Visual Studio Code"), suggest={"candidates": 3})
    answers(one, "1", "2", "3")
    one.engine.gate = steps = Steps()
    person = Typist(one, "x = ")
    asked = person.ask()
    steps.let(4)  # two of three
    await asyncio.sleep(0.03)
    assert not asked.done()
    steps.let(2)
    assert [person.shown(item) for item in await asyncio.wait_for(asked, 5)] == ["1", "2", "3"]


async def test_no_editor_waits_without_end_for_an_engine_that_has_other_things_to_do(
    room: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(suggestions, "_ALL_PATIENCE", 0.02)
    one = room("1", suggest={"candidates": 3})
    answers(one, "1", "2", "3")
    one.engine.gate = steps = Steps()
    person = Typist(one, "x = ")
    asked = person.ask()
    steps.let(3)
    assert [person.shown(item) for item in await asyncio.wait_for(asked, 5)] == ["1"]


async def test_others_that_come_in_time_are_waited_for(room: Make) -> None:
    one = room("1", suggest={"candidates": 3})
    answers(one, "1", "2", "3")
    one.engine.gate = steps = Steps()
    person = Typist(one, "x = ")
    first = person.ask()
    steps.let(4)
    await asyncio.sleep(0.02)
    assert not first.done()
    steps.let(2)
    assert len(await first) == 3


async def test_without_a_text_of_the_first_the_next_one_is_waited_for(
    room: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(suggestions, "_PATIENCE", 0.01)
    one = room("1", client=ASKS_AGAIN, suggest={"candidates": 3})
    answers(one, "\n\n", "2", "3")
    one.engine.gate = steps = Steps()
    person = Typist(one, "x = ")
    first = person.ask()
    steps.let(2)
    await asyncio.sleep(0.03)
    assert not first.done()
    steps.let(2)
    assert [person.shown(item) for item in await asyncio.wait_for(first, 5)] == ["2"]


# -- weak guesses ----------------------------------------------------------------------------------------------------


async def test_a_weak_guess_is_hidden_with_its_reason(room: Make) -> None:
    one = room("1", suggest={"minProbability": 0.6})
    one.engine.probability = 0.5
    person = Typist(one, "x = ")
    assert await person.ghost() is None
    assert one.memory.statuses[-1]["suggestion"] == "weak"
    one.engine.probability = 0.7
    person.type(" ")
    assert await person.ghost() == "1"


async def test_without_a_floor_nobody_pays_for_probabilities(room: Make) -> None:
    one = room("1")
    assert await Typist(one, "x = ").ghost() == "1"
    assert not one.engine.requests[0].probability


# -- what follows, decoded ahead -------------------------------------------------------------------------------------


async def guessed(room: Room, count: int = 1) -> list[CompletionRequest]:
    while True:
        idle = [request for request in room.engine.requests if request.idle]
        done = [request for request in room.engine.stopped if request.idle]
        if len(idle) >= count and len(done) >= count:
            return idle
        await asyncio.sleep(0)


async def test_what_follows_acceptance_is_decoded_when_idle_and_then_there(room: Make) -> None:
    one = room("call(\n    a)", suggest={"speculate": True})
    person = Typist(one, "x = ")
    assert await person.ghost() == "call(\n    a)"
    [ahead] = await guessed(one)
    assert ahead.prefix == "x = call(\n    a)"
    person.type("call(\n    a)")
    accepted(one.ls, person.uri, {"line": 1, "character": 6})
    one.engine.pieces = ["wrong"]
    assert await person.ghost(automatic=True) == "call("  # behind a statement, the rest of the line
    assert sum(not request.idle for request in one.engine.requests) == 1


async def test_typing_along_keeps_the_guess_about_its_end(room: Make) -> None:
    one = room("call(a)", suggest={"speculate": True})
    person = Typist(one, "x = ")
    assert await person.ghost() == "call(a)"
    await guessed(one)
    for key in "cal":
        person.type(key)
        await person.ghost()
    await settle()
    assert len([request for request in one.engine.requests if request.idle]) == 1


async def test_a_guess_that_was_pushed_aside_is_no_answer(room: Make) -> None:
    one = room("1", suggest={"speculate": True})
    person = Typist(one, "x = ")
    assert await person.ghost() == "1"
    one.engine.outcome = Outcome.CANCELLED
    await guessed(one)
    one.engine.outcome = Outcome.STOP
    one.engine.pieces = [" + 2"]
    person.type("1")
    assert await person.ghost() == " + 2"


async def test_a_guess_is_nobodys_error_and_ends_with_the_document(room: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    one = room("1", suggest={"speculate": True})
    person = Typist(one, "x = ")
    assert await person.ghost() == "1"
    one.engine.gate = Steps()
    await settle()
    await person.close()
    await guessed(one)
    assert one.memory.statuses[-1]["error"] is None


# -- reasons ---------------------------------------------------------------------------------------------------------


async def test_each_empty_answer_has_its_reason_in_the_status_and_once_in_the_log(room: Make) -> None:
    one = room("   ")
    person = Typist(one, "x = ")
    for _ in range(3):
        assert await person.ghost() is None
    person.delete(1)
    assert await person.ghost(automatic=True) is None
    one.engine.pieces = ["1"]
    assert await person.ghost() == "1"
    one.engine.pieces = ["  "]
    person.type("  ")
    assert await person.ghost() is None
    reasons = [status["suggestion"] for status in one.memory.statuses if status["suggestion"]]
    changes = [reasons[0], *(now for before, now in pairwise(reasons) if now != before)]
    assert changes == ["whitespace", "after-deletion", "shown", "whitespace"]
    assert [line for line in one.memory.logs if "no suggestion" in line] == [
        "no suggestion in a.py: whitespace",
        "no suggestion in a.py: after-deletion",
        "no suggestion in a.py: whitespace",
    ]


async def test_languages_and_paths_can_be_off_with_exceptions(room: Make) -> None:
    one = room(
        "1", suggest={"disabledLanguages": ["markdown"], "disabledPaths": ["*.txt", "gen/**"], "enabledPaths": ["ok.*"]}
    )
    for name, language, reason in (
        ("notes.txt", "plaintext", "off:path"),
        ("gen/deep/a.py", "python", "off:path"),
        ("README.md", "markdown", "off:language"),
        ("docs/ok.txt", "plaintext", "shown"),
        ("ok.md", "markdown", "shown"),
        ("src/a.py", "python", "shown"),
    ):
        found = await Typist(one, "x = ", name, language).ghost()
        assert one.memory.statuses[-1]["suggestion"] == reason, name
        assert (found is not None) == (reason == "shown")
    assert {request.path for request in one.engine.requests} == {"docs/ok.txt", "ok.md", "src/a.py"}


@pytest.mark.slow
async def test_what_git_ignores_is_off_by_choice(room: Make) -> None:
    one = room("1", suggest={"skipGitignored": True})
    git = await asyncio.create_subprocess_exec("git", "init", "--quiet", str(one.root))
    assert await git.wait() == 0
    (one.root / ".gitignore").write_text("build/\n*.local.py\n")
    (one.root / "build").mkdir()
    for name, off in (("build/a.py", True), ("src/x.local.py", True), ("src/a.py", False)):
        assert (await Typist(one, "x = ", name).ghost() is None) is off
        assert one.memory.statuses[-1]["suggestion"] == ("off:gitignored" if off else "shown")
    one.session.configure({"suggest": {"candidates": 1, "speculate": False}})
    assert await Typist(one, "x = ", "build/a.py").ghost() == "1"


async def test_every_request_takes_the_grace_of_a_moment_only(room: Make) -> None:
    one = room("1")
    one.engine.gate = Steps()
    asked = Typist(one, "x = ").ask()
    await one.engine.asked.wait()
    asked.cancel()
    begun = asyncio.get_running_loop().time()
    await one.engine.ended.wait()
    assert asyncio.get_running_loop().time() - begun < 1.0


def position(line: int, character: int) -> types.Position:
    return types.Position(line, character)
