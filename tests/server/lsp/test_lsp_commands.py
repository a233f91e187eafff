"""Commands over a scripted engine: what goes to the model, what is kept of a conversation, what an edit looks like."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from lsprotocol import types
from scripted import Room, identity
from warmline.errors import TrustError
from warmline.host.paths import host_paths
from warmline.host.wire import ChatTurn, Outcome
from warmline.registry import find_workspace
from warmline_server.lsp import protocol, rename
from warmline_server.lsp.commands.call import Refused
from warmline_server.lsp.commands.edit import code_of
from warmline_server.lsp.commands.run import Running
from warmline_server.lsp.conversations import bounded
from warmline_server.lsp.initialize import COMMANDS, Client
from warmline_server.lsp.json_cursor import json_cursor
from warmline_server.lsp.session import Session
from warmline_server.lsp.variants import Place

Make = Callable[..., Room]
EDITS = Client(versioned_edits=True, annotated_edits=True)


async def run(one: Room, command: str, *arguments: Any, work: Any = None) -> Any:
    params = types.ExecuteCommandParams(command, arguments=list(arguments), work_done_token=work)
    return await Running().run(server(one), params)


def server(one: Room) -> Any:
    """Stand in for the server, with a document at hand."""
    one.session.turn_to(one.uri())
    return SimpleNamespace(session=one.session)


def span(line: int, start: int, end: int, last: int | None = None) -> dict[str, Any]:
    to = line if last is None else last
    return {"start": {"line": line, "character": start}, "end": {"line": to, "character": end}}


async def test_each_command_that_is_announced_can_be_run(room: Make) -> None:
    one = room("1")
    for command in COMMANDS:
        try:
            await run(one, command)
        except Refused as error:
            assert "no such command" not in str(error)


async def test_a_turn_is_built_on_what_was_said(room: Make) -> None:
    one = room("an", "swer")
    uri = one.open("def f():\n    return 1\n")
    first = await run(
        one, "warmline.chat", {"message": "Why?", "conversation": "c", "uri": uri, "range": span(1, 4, 12)}
    )
    assert (first["text"], first["outcome"], first["dropped_messages"]) == ("answer", "stop", 0)
    question = one.engine.chats[0].messages[-1].content
    assert question.startswith("Why?\n\n")
    assert "src/a.py, lines 1 to 2" in question or "The selected code, from src/a.py" in question
    assert "return 1" in question
    await run(one, "warmline.chat", {"message": "And?", "conversation": "c"})
    roles = [(turn.role, turn.content) for turn in one.engine.chats[1].messages]
    assert roles == [("user", question), ("assistant", "answer"), ("user", "And?")]
    assert {chat.conversation for chat in one.engine.chats} == {"c"}
    await run(one, "warmline.chat", {"message": "New", "conversation": "c", "restart": True})
    assert [turn.content for turn in one.engine.chats[2].messages] == ["New"]


async def test_attached_parts_go_along_exactly_and_nothing_else(room: Make) -> None:
    one = room("a")
    first, second = one.open("def f():\n    return 1\n\n\nx = 2\n"), one.open("y = 3\nz = 4\n", "src/b.py")
    parts = [{"uri": first, "range": span(0, 0, 0, 2)}, {"uri": second, "range": span(1, 0, 5)}]
    told = await run(one, "warmline.chat", {"message": "Why?", "attached": parts})
    assert one.engine.chats[0].messages[-1].content == (
        "Why?"
        "\n\nsrc/a.py, lines 1 to 2:\n```python\ndef f():\n    return 1\n```"
        "\n\nsrc/b.py, lines 2 to 2:\n```python\nz = 4\n```"
    )
    assert told["adapters"] == ["style@1"]
    secret = one.open("KEY=abc", ".env")
    with pytest.raises(Refused, match="secrets"):
        await run(one, "warmline.chat", {"message": "q", "attached": [*parts, {"uri": secret, "range": span(0, 0, 7)}]})
    with pytest.raises(Refused, match="not open"):
        await run(
            one, "warmline.chat", {"message": "q", "attached": [{"uri": one.uri("c.py"), "range": span(0, 0, 1)}]}
        )
    assert len(one.engine.chats) == 1


async def test_a_history_is_taken_where_the_conversation_is_not_known(room: Make) -> None:
    one = room("a")
    history = [{"role": "user", "content": "q0"}, {"role": "assistant", "content": "a0"}]
    for number in (1, 2):
        ask = {"message": f"q{number}", "conversation": "c", "history": history}
        await run(one, "warmline.chat", ask)
    said = [[turn.content for turn in chat.messages] for chat in one.engine.chats]
    assert said == [["q0", "a0", "q1"], ["q0", "a0", "q1", "a", "q2"]]


async def test_what_no_longer_fits_goes_first_and_is_said(room: Make) -> None:
    one = room("a")
    for number in range(4):
        await run(one, "warmline.chat", {"message": f"q{number}", "conversation": "c"})
    one.engine.room = 3  # messages that the context takes
    told = await run(one, "warmline.chat", {"message": "q4", "conversation": "c"})
    assert [turn.content for turn in one.engine.chats[-1].messages] == ["q3", "a", "q4"]
    assert told["dropped_messages"] == 6
    assert told["notice"] == (
        "The oldest 6 messages are no longer part of this conversation: it is longer than what the model can be given."
    )
    one.engine.room = 0
    with pytest.raises(Refused) as refused:
        await run(one, "warmline.chat", {"message": "q", "conversation": "d"})
    assert refused.value.data["code"] == "prompt.room"


def test_a_bound_drops_questions_with_their_answers() -> None:
    turns = [ChatTurn(role="user" if n % 2 == 0 else "assistant", content="x" * 10) for n in range(21)]
    assert bounded(turns, 100, 10_000) == tuple(turns)
    for kept in (bounded(turns, 10, 10_000), bounded(turns, 100, 100)):
        assert 0 < len(kept) <= 7
        assert kept[0].role == kept[-1].role == "user"
    assert bounded(turns[:1], 1, 1) == tuple(turns[:1])


async def test_a_cancelled_turn_ends_the_decode_and_leaves_no_trace(room: Make) -> None:
    one = room("never")
    one.engine.gate = asyncio.Event()
    talk = asyncio.ensure_future(run(one, "warmline.chat", {"message": "q", "conversation": "c"}, work="w"))
    await one.engine.asked.wait()
    talk.cancel()
    with pytest.raises(asyncio.CancelledError):
        await talk
    assert len(one.engine.chats_ended) == 1
    assert one.session.conversations.get("c").turns == ()
    assert [value.kind for token, value in one.memory.reports if token == "w"] == ["begin", "end"]


async def test_the_cancel_button_ends_the_command_of_its_token(room: Make) -> None:
    one = room("never")
    one.engine.gate = asyncio.Event()
    running = Running()
    params = types.ExecuteCommandParams("warmline.chat", arguments=[{"message": "q"}], work_done_token="w")
    talk = asyncio.ensure_future(running.run(server(one), params))
    await one.engine.asked.wait()
    running.cancel("other")
    assert not talk.done()
    running.cancel("w")
    with pytest.raises(asyncio.CancelledError):
        await talk


async def test_secrets_go_to_no_chat(room: Make) -> None:
    one = room("1")
    uri = one.open("KEY=abc", ".env")
    with pytest.raises(Refused, match="secrets"):
        await run(one, "warmline.explain", {"uri": uri, "range": span(0, 0, 7)})
    assert one.engine.chats == []


async def test_what_the_person_keeps_back_goes_to_no_chat(room: Make) -> None:
    one = room("1", suggest={"disabledPaths": ["private/**"]})
    uri = one.open("plan = 1", "private/plan.py")
    with pytest.raises(Refused, match="disabledPaths"):
        await run(one, "warmline.explain", {"uri": uri, "range": span(0, 0, 7)})
    assert one.engine.chats == []
    await run(one, "warmline.explain", {"uri": one.open("x = 1", "open.py"), "range": span(0, 0, 5)})
    assert len(one.engine.chats) == 1


async def test_thoughts_are_apart_from_answers_and_not_sent_back(room: Make) -> None:
    one = room("<thi", "nk>Hm", ".</think>", "\nYes", ".")
    one.variant("acme", {"base": {"path": str(one.base)}, "profile": {"reasoning": {}}})
    said = await run(one, "warmline.chat", {"message": "q", "conversation": "c", "partialResultToken": "p"})
    assert (said["text"], said["thought"]) == ("Yes.", "Hm.")
    await run(one, "warmline.chat", {"message": "q", "conversation": "c"})
    assert [turn.content for turn in one.engine.chats[-1].messages] == ["q", "Yes.", "q"]


async def test_a_chat_that_goes_round_in_circles_is_stopped(room: Make) -> None:
    one = room(*["and so it goes on and on, "] * 50)
    said = await run(one, "warmline.chat", {"message": "q"})
    assert said["outcome"] == "repeats"
    assert len(said["text"]) < 300
    assert one.engine.chats_ended == one.engine.chats


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
async def test_an_edit_is_for_this_version_and_to_be_confirmed(room: Make, encoding: str) -> None:
    client = Client(versioned_edits=True, annotated_edits=True, encoding=encoding)
    one = room("Sure:\n```python\nif y:\n    z()\n```\nDone.", client=client)
    face = "\U0001f600"
    uri = one.open(f"def f():\r\n    x = '{face}'; g()\r\n", version=7)
    units = {"utf-8": 4, "utf-16": 2, "utf-32": 1}[encoding]
    where = span(1, 4, len("    x = ''; g()") + units)
    found = await run(one, "warmline.edit", {"uri": uri, "range": where, "instruction": "Check y."})
    assert found["reason"] == "written"
    [change] = found["edit"].document_changes
    assert (change.text_document.uri, change.text_document.version) == (uri, 7)
    [edit] = change.edits
    assert edit.new_text == "if y:\r\n        z()"
    assert found["edit"].change_annotations[edit.annotation_id].needs_confirmation is True
    assert "Check y." in one.engine.chats[0].messages[0].content
    snapshot = one.session.documents.get(uri)
    assert snapshot is not None
    assert snapshot.version == 7 and face in snapshot.text  # nothing was applied


@pytest.mark.parametrize(
    ("pieces", "outcome", "reason"),
    [
        (("```\nx = 1\n```",), Outcome.STOP, "unchanged"),
        (("```\nx = 2",), Outcome.LENGTH, "length"),
        (("The code is fine as it is.",), Outcome.STOP, "no-code"),
        (("",), Outcome.STOP, "no-code"),
    ],
)
async def test_where_there_is_no_edit_there_is_a_reason(
    room: Make, pieces: tuple[str, ...], outcome: Outcome, reason: str
) -> None:
    one = room(*pieces, outcome=outcome, client=EDITS)
    uri = one.open("x = 1")
    found = await run(one, "warmline.fix", {"uri": uri, "range": span(0, 0, 5)})
    assert (found["edit"], found["reason"]) == (None, reason)


def test_code_is_what_stands_in_the_fence() -> None:
    assert code_of("Here:\n~~~py\na\nb\n~~~\nend") == "a\nb\n"
    assert code_of("```\na\r\nb") == "a\nb"
    assert code_of("x = 1\ny = 2") == "x = 1\ny = 2"
    assert code_of("````\n```\n````") == "```\n"
    assert code_of("Here:\n```py\nx = 1") == "x = 1"


@pytest.mark.parametrize("answer", ["```python\n", "```python", "Here:\n```python", "```\n```", "~~~", "```\n\n"])
async def test_a_fence_without_code_replaces_nothing(room: Make, answer: str) -> None:
    one = room(answer, client=EDITS)
    uri = one.open("x = 1")
    found = await run(one, "warmline.edit", {"uri": uri, "range": span(0, 0, 5), "instruction": "Better"})
    assert (found["edit"], found["reason"]) == (None, "no-code")


@pytest.mark.parametrize("given", [(), ({"uri": "file:///a.py"},)])
async def test_who_leaves_out_an_argument_is_told_what_the_command_takes(room: Make, given: tuple[Any, ...]) -> None:
    one = room("1")
    with pytest.raises(Refused) as caught:
        await run(one, "warmline.explain", *given)
    assert 'warmline.explain takes {"uri": ..., "range": ...}; it may have "message"' in str(caught.value)
    assert '"partialResultToken"' in str(caught.value)


async def test_after_an_approval_the_status_is_about_what_was_loaded(room: Make) -> None:
    one = room("1")
    brought = one.root / "brought.gguf"
    brought.write_bytes(b"GGUF")
    one.write(
        one.root / ".warmline" / "variants" / "ours.json",
        {"name": "ours", "base": {"path": "../../brought.gguf"}},
    )
    one.select("ours")
    one.engine.error = TrustError("not approved", code="trust.unapproved")
    uri = one.open("x = ")
    one.session.prepare(uri)
    await one.session.settled()
    assert (await run(one, "warmline.status"))["error"]["code"] == "trust.unapproved"

    async def answered(*_: Any) -> str:
        one.engine.error = None
        return "Approve"

    one.memory.ask = answered  # type: ignore[method-assign]
    one.engine.load = slow(one.engine.load)  # type: ignore[method-assign]
    found = await run(one, "warmline.trust", {"uri": uri})
    assert [each["name"] for each in found["approved"]]
    status = await run(one, "warmline.status")
    assert (status["error"], status["identity"]) == (None, identity(one.session.variants.resolve(place(one, uri))))


class Written:
    """What a server writes to its editor."""

    def __init__(self) -> None:
        self.messages: list[Any] = []
        self._news = asyncio.Event()

    def write(self, data: bytes) -> None:
        self.messages.append(json.loads(data.partition(b"\r\n\r\n")[2]))
        self._news.set()

    def close(self) -> None:
        pass

    async def until(self, wanted: Callable[[Any], bool]) -> Any:
        while not (found := [each for each in self.messages if wanted(each)]):
            self._news.clear()
            await asyncio.wait_for(self._news.wait(), 5)
        return found[0]


@pytest.mark.parametrize("answer", [{"result": None}, {"result": "yes"}, {"result": {}}, {"error": 1}, None])
async def test_a_client_that_answers_nonsense_or_nothing_hangs_no_command(
    room: Make, monkeypatch: pytest.MonkeyPatch, answer: dict[str, Any] | None
) -> None:
    monkeypatch.setattr(protocol, "_PROGRAM_SECONDS", 0.05 if answer is None else 60.0)
    one = room("1")
    one.write(host_paths(one.home).log, "a line\n")
    ls = protocol.WarmlineServer(
        lambda outlet: Session(Client(shows_documents=True), one.home, outlet, lambda: one.engine), lambda: None
    )
    written = Written()
    ls.protocol.set_writer(written)

    def receive(**message: Any) -> None:
        ls.protocol.receive(json.dumps({"jsonrpc": "2.0", **message}).encode())

    receive(id=1, method="workspace/executeCommand", params={"command": "warmline.showLog"})
    asked = await written.until(lambda each: each.get("method") == "window/showDocument")
    if answer is not None:
        receive(id=asked["id"], **answer)
    told = await written.until(lambda each: each.get("id") == 1)
    assert (told["result"]["exists"], told["result"]["shown"]) == (True, False)
    receive(id=asked["id"], result={"success": True})  # late, or once more
    assert not [each for each in written.messages if "internal error" in str(each)]
    await ls.session.close()


def slow(load: Any) -> Any:
    """Have a load take some turns of the loop."""

    async def later(*given: Any) -> Any:
        await asyncio.sleep(0.05)
        return await load(*given)

    return later


def place(one: Room, uri: str) -> Place:
    found = one.session.variants.place(uri)
    assert isinstance(found, Place)
    return found


async def test_selecting_keeps_what_a_person_wrote(room: Make) -> None:
    one = room("1")
    one.write(one.config, '{\n   "variant" : "acme", "overrides": {"profile": {"max_tokens": 9}} }\n')
    uri = one.open("x")
    await run(one, "warmline.selectVariant", {"uri": uri, "variant": "plain"})
    assert one.config.read_text() == '{\n   "variant" : "plain", "overrides": {"profile": {"max_tokens": 9}} }\n'
    one.write(one.config, {"variant": "acme", "overrides": {"scales": {"style": 2}}})
    with pytest.raises(Refused, match="no adapter called"):
        await run(one, "warmline.selectVariant", {"uri": uri, "variant": "plain"})
    assert json.loads(one.config.read_text())["variant"] == "acme"
    one.session.documents.open(one.config.as_uri(), "json", 1, "{}")
    with pytest.raises(Refused, match="not saved"):
        await run(one, "warmline.selectVariant", {"uri": uri, "variant": "acme"})


async def test_a_variants_new_name_goes_where_it_is_called(room: Make) -> None:
    one = room("1")
    own = one.root / ".warmline" / "variants" / "mine.json"
    one.write(own, {"name": "mine", "base": {"path": "b.gguf"}})
    one.select("mine")
    moved = types.FileRename(own.as_uri(), own.with_name("ours.json").as_uri())
    found = rename.will_rename_files(one.ls, types.RenameFilesParams([moved]))
    assert found is not None
    texts = {uri: [edit.new_text for edit in edits] for uri, edits in (found.changes or {}).items()}
    assert texts == {own.as_uri(): ['"ours"'], one.config.as_uri(): ['"ours"']}
    odd = types.FileRename(own.as_uri(), own.with_name("No Name.json").as_uri())
    assert rename.will_rename_files(one.ls, types.RenameFilesParams([odd])) is None


async def test_a_folders_new_name_takes_its_documents_along(room: Make) -> None:
    one = room("1")
    inside, beside = one.open("x = 1", "src/a.py"), one.open("y", "srcs.py")
    folder = types.FileRename(one.uri("src"), one.uri("lib"))
    rename.did_rename_files(one.ls, types.RenameFilesParams([folder]))
    documents = one.session.documents
    moved = documents.get(one.uri("lib/a.py"))
    assert moved is not None
    assert (moved.text, moved.uri, documents.get(inside)) == ("x = 1", one.uri("lib/a.py"), None)
    assert documents.get(beside) is not None


@pytest.mark.parametrize(
    ("drawn", "path", "is_key", "written", "keys"),
    [
        ('{"a": 1, "b|', (), True, '"b', {"a"}),
        ('{"a": 1, "b|": 2, "c": 3}', (), True, '"b"', {"a", "c"}),
        ('{|"a": 1}', (), True, "", {"a"}),
        ('{"a": |}', ("a",), False, "", {"a"}),
        ('{"a": "x|"}', ("a",), False, '"x"', {"a"}),
        ('{"a": [{"n": 1}, {"n": tr|', ("a", 1, "n"), False, "tr", {"n"}),
        ('{"a": {"b": {|', ("a", "b"), True, "", set()),
        ("[1, |", (1,), False, "", set()),
    ],
)
def test_where_a_cursor_stands_in_unfinished_json(
    drawn: str, path: tuple[Any, ...], is_key: bool, written: str, keys: set[str]
) -> None:
    text, at = drawn.replace("|", ""), drawn.index("|")
    found = json_cursor(text, at)
    assert found is not None
    assert (found.path, found.is_key, text[found.span.start : found.span.end]) == (path, is_key, written)
    assert found.keys == keys


@pytest.mark.parametrize("drawn", ["|", '{"a": 1|', '{"a": "x" |', '{"a"|', "{}|", '{"a": "x"|}'])
def test_where_nothing_may_be_written_nothing_is_offered(drawn: str) -> None:
    found = json_cursor(drawn.replace("|", ""), drawn.index("|"))
    assert found is None or drawn == '{"a": 1|'  # a number may go on


async def test_a_workspace_may_chat_with_another_variant_than_it_completes_with(room: Make) -> None:
    one = room("1")
    one.write(one.config, {"variant": "acme", "chat": "plain"})
    uri = one.open("x = 1\n")
    assert one.session.variants.resolve(Place(find_workspace(one.root))).name == "acme"
    told = await run(one, "warmline.chat", {"message": "Hi", "uri": uri, "range": span(0, 0, 5)})
    assert (told["variant"], one.engine.chats[-1].variant.name) == ("plain", "plain")
    explained = await run(one, "warmline.explain", {"uri": uri, "range": span(0, 0, 5)})
    assert explained["variant"] == "plain"
    named = await run(one, "warmline.chat", {"message": "Hi", "variant": "acme"})
    assert named["variant"] == "acme"
    assert (one.memory.statuses[-1]["variant"], one.memory.statuses[-1]["chat"]) == ("acme", "plain")
    # A name that there is not fails what chats, and that alone.
    one.write(one.config, {"variant": "acme", "chat": "gone"})
    with pytest.raises(Refused, match="no variant called `gone`"):
        await run(one, "warmline.chat", {"message": "Hi"})
    assert one.session.variants.resolve(Place(find_workspace(one.root))).name == "acme"
    one.write(one.config, {"variant": "acme"})
    one.session.refresh()
    async with asyncio.timeout(5):
        while one.memory.statuses[-1]["chat"]:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert (await run(one, "warmline.chat", {"message": "Hi"}))["variant"] == "acme"
