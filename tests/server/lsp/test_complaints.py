"""What users of the best local completers complain of: one test for each complaint."""

from __future__ import annotations

import asyncio
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from fake_backend import FakeBackend, write_base
from lsprotocol import types
from scripted import Room, inline_params
from typist import Steps, Typist, settle
from warmline.digests import DigestCache
from warmline.errors import BackendError, WarmlineError
from warmline.host.service import EngineService
from warmline.host.wire import ChatRequest, ChatTurn, CompletionRequest, Done, Event, Started
from warmline.variant import Profile, ResolvedBase, ResolvedVariant
from warmline_server.lsp.initialize import Client
from warmline_server.lsp.inline_completion import inline_completion

Make = Callable[..., Room]


async def test_a_request_per_keystroke_burns_no_cpu(room: Make) -> None:
    """Input lag and 100 % CPU at a request per keystroke."""
    one = room("def transfer(ledger, account):\n    return ledger[account]")
    person = Typist(one, "")
    whole = await person.ghost(automatic=True)
    assert whole is not None
    for at, key in enumerate(whole[:-1], start=1):
        person.type(key)
        assert await person.ghost(automatic=True) == whole[at:]
    assert len(one.engine.requests) == 1
    # And where the words are the person's own, a model slower than the keys is asked in their pauses only.
    rhythm = one.session.suggesting.rhythm
    for key in range(10):
        rhythm.typed(key * 0.1)
        rhythm.answered(1.0)
    asked = []
    for key in "something else":
        person.type(key)
        asked.append(person.ask(automatic=True))
        await asyncio.sleep(0)
    await asyncio.gather(*asked)
    assert len(one.engine.requests) == 2


async def test_what_stands_after_the_cursor_is_not_suggested_again(room: Make) -> None:
    one = room("total)\n    return total\n")
    uri = one.open("def f(total):\n    print()\n    return total\n")
    [item] = await inline_completion(one.ls, inline_params(uri, 1, 10)) or ()
    assert item.insert_text == "print(total"


@pytest.mark.parametrize("raw", ["        return 1\n", "    return 1\n", "return 1\n"])
async def test_a_part_indented_blank_line_gets_the_right_indentation(room: Make, raw: str) -> None:
    one = room(raw)
    uri = one.open("class A:\n    def f(self):\n        \n")
    [item] = await inline_completion(one.ls, inline_params(uri, 2, 8)) or ()
    assert item.insert_text == "return 1"


async def test_a_crlf_file_gets_crlf(room: Make) -> None:
    one = room("a = 1\n    b = 2\n")
    uri = one.open("def f():\r\n    \r\n")
    [item] = await inline_completion(one.ls, inline_params(uri, 1, 4)) or ()
    assert item.insert_text == "a = 1\r\n    b = 2"


async def test_no_suggestion_is_never_without_a_reason(room: Make) -> None:
    one = room("  ")
    person = Typist(one, "x = ")
    seen = []
    for prepare in (
        lambda: None,
        lambda: person.delete(1),
        lambda: one.session.configure({"suggest": {"automatic": False}}),
        lambda: one.select("nonesuch"),
    ):
        prepare()
        assert await person.ghost(automatic=True) is None
        report = one.memory.statuses[-1]
        seen.append(report["error"]["code"] if report["error"] else report["suggestion"])
    assert seen == ["whitespace", "after-deletion", "only-when-asked", "only-when-asked"]
    assert any("no suggestion in a.py: whitespace" in line for line in one.memory.logs)


async def test_after_an_error_the_status_does_not_think_for_ever(room: Make) -> None:
    one = room("1")
    person = Typist(one, "x = ")
    one.engine.error = BackendError("it crashed", code="backend.crashed", remedy="Ask again")
    assert await person.ghost() is None
    assert one.memory.statuses[-1]["state"] == "failed"
    assert one.memory.statuses[-1]["error"]["code"] == "backend.crashed"
    one.engine.error = None
    assert await person.ghost() == "1"
    assert (one.memory.statuses[-1]["error"], one.memory.statuses[-1]["state"]) != (None, "busy")
    assert one.memory.statuses[-1]["error"] is None


class _Ear:
    def __init__(self) -> None:
        self.events: list[Event] = []
        self.over = threading.Event()

    def receive(self, events: Sequence[Event]) -> None:
        self.events.extend(events)
        if isinstance(events[-1], Done):
            self.over.set()

    def error(self, error: WarmlineError) -> None:
        self.over.set()


def test_chat_and_completion_do_not_evict_each_others_model(tmp_path: Path) -> None:
    backend = FakeBackend()
    service = EngineService(backend, DigestCache(), lambda _digest: True, max_bases=1)
    base = ResolvedBase(name="base", path=write_base(tmp_path / "base.gguf", template="{{ messages[0].content }}"))
    profile = Profile(n_ctx=512, max_tokens=4, bos="never")
    variant = ResolvedVariant(name="v", backend="llama", base=base, adapters=(), profile=profile, file="v.json")
    reasons = []
    try:
        for _ in range(3):
            ear = _Ear()
            service.complete(CompletionRequest(client="c", document="d", variant=variant, prefix="x" * 40), ear)
            assert ear.over.wait(10)
            reasons += [event.reason for event in ear.events if isinstance(event, Started)]
            ear = _Ear()
            turns = (ChatTurn(role="user", content="Why?"),)
            service.chat(ChatRequest(client="c", conversation="k", variant=variant, messages=turns), ear)
            assert ear.over.wait(10)
            assert isinstance(ear.events[-1], Done)
    finally:
        service.close()
    assert len(backend.loads) == 1
    assert reasons == ["cold", "warm", "warm"]


async def test_after_a_storm_of_cancels_the_next_request_is_answered(room: Make) -> None:
    one = room("z")
    one.engine.gate = steps = Steps()
    person = Typist(one, "x = ")
    asked = []
    for key in "abcdefgh" * 25:
        person.type(key)
        asked.append(person.ask())
        await asyncio.sleep(0)
        asked[-1].cancel()
    await asyncio.gather(*asked, return_exceptions=True)
    last = person.ask()
    await settle()
    steps.let(1000)
    assert person.shown((await last)[0]) == "z"
    assert len(one.engine.requests) - len(one.engine.stopped) <= 1


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
async def test_positions_count_in_the_editors_units_and_may_lie_past_the_end(room: Make, encoding: str) -> None:
    one = room("1", client=Client(encoding=encoding))
    text = "'\U0001f600é' + "
    uri = one.open(text + "\ny = 2\n")
    units = (
        len(text.encode("utf-16-le")) // 2
        if encoding == "utf-16"
        else len(text.encode(encoding))
        if encoding == "utf-8"
        else len(text)
    )
    for character in (units, units + 50):
        [item] = await inline_completion(one.ls, inline_params(uri, 0, character)) or ()
        assert item.insert_text == text + "1"
        assert item.range is not None
        assert (item.range.start.character, item.range.end.character) == (0, units)
    assert one.engine.requests[0].prefix == text


async def test_nothing_is_suggested_after_a_deletion(room: Make) -> None:
    one = room("1")
    person = Typist(one, "x = y")
    person.delete(1)
    assert await person.ghost(automatic=True) is None
    assert one.memory.statuses[-1]["suggestion"] == "after-deletion"
    assert one.engine.requests == []
    assert await person.ghost() == "1"


async def test_secrets_are_not_sent_to_the_model(room: Make) -> None:
    one = room("1")
    for name in (".env", "deploy.key"):
        assert await Typist(one, "TOKEN=hunter2\n", name, "plaintext").ghost() is None
        assert one.memory.statuses[-1]["suggestion"] == "secret"
    assert await Typist(one, "x = ").ghost() == "1"
    assert "hunter2" not in "".join(request.model_dump_json() for request in one.engine.requests)


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("Sure! Here is the completed function:\n\n```python\n    return a + b\n```\nIt adds.\n", "return a + b"),
        ("This function adds two numbers and returns the result.\n", None),
        ("return a + b<|fim_suffix|><|endoftext|>", "return a + b"),
        ("return a + b</s>[INST] next", "return a + b"),
    ],
)
async def test_a_chatty_model_or_a_wrong_template_gives_no_prose(room: Make, raw: str, shown: str | None) -> None:
    one = room(raw)
    uri = one.open("def add(a, b):\n    \n")
    items = await inline_completion(one.ls, inline_params(uri, 1, 4))
    assert (items[0].insert_text if items else None) == shown


async def test_a_kind_of_file_can_be_turned_off(room: Make) -> None:
    one = room("1", suggest={"disabledPaths": ["*.txt"]})
    assert await Typist(one, "x = ", "notes.txt", "plaintext").ghost() is None
    assert one.memory.statuses[-1]["suggestion"] == "off:path"
    assert one.engine.requests == []
    assert await Typist(one, "x = ", "notes.py").ghost() == "1"


async def test_a_file_of_16000_lines_does_not_freeze_the_editor(room: Make) -> None:
    one = room("1")
    person = Typist(one, "value = compute(1, 2, 3)  # some comment\n" * 16_000 + "x = ")
    changes, answers = [], []
    for key in "abcdefghij" * 5:
        begun = time.perf_counter()
        person._change(types.Range(types.Position(16_000, 4), types.Position(16_000, 4)), key)
        changes.append(time.perf_counter() - begun)
        begun = time.perf_counter()
        assert await inline_completion(one.ls, inline_params(person.uri, 16_000, 5))
        answers.append(time.perf_counter() - begun)
    # Some 0.2 and 3 ms on a laptop; the limits leave room for a busy machine.
    assert statistics.median(changes) < 0.005
    assert statistics.median(answers) < 0.05
    assert all(len(request.prefix) + len(request.suffix) < 50_000 for request in one.engine.requests)
