"""Changes that the protocol library refuses are read all the same, or suggestions stop: never a stale text."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted import Room, inline_params
from warmline_server.lsp.inline_completion import inline_completion
from warmline_server.lsp.protocol import WarmlineServer
from warmline_server.lsp.repair import repaired

Make = Callable[..., Room]
HUGE = 2**31


class Wire:
    """A server over a room's session, fed with messages as they come from an editor."""

    def __init__(self, room: Room) -> None:
        self.room = room
        self.server = WarmlineServer(lambda _: room.session, lambda: None)
        self.server.protocol.set_writer(self)  # type: ignore[arg-type]
        self.sent: list[Any] = []

    def write(self, data: bytes) -> None:
        self.sent.append(json.loads(data.partition(b"\r\n\r\n")[2]))

    def close(self) -> None: ...

    def receive(self, method: str, params: Any, **more: Any) -> None:
        self.server.protocol.receive(
            json.dumps({"jsonrpc": "2.0", "method": method, "params": params, **more}).encode()
        )

    def change(self, version: Any, *changes: Any, **more: Any) -> None:
        document = {"uri": self.room.uri(), "version": version, **more}
        self.receive("textDocument/didChange", {"textDocument": document, "contentChanges": list(changes)})

    @property
    def logs(self) -> list[str]:
        return [m["params"]["message"] for m in self.sent if m.get("method") == "window/logMessage"]


def span(line: Any, character: Any, end_line: Any, end_character: Any) -> Any:
    return {"start": {"line": line, "character": character}, "end": {"line": end_line, "character": end_character}}


@pytest.mark.parametrize(
    ("version", "change", "text"),
    [
        (None, {"range": span(0, 0, 0, 1), "text": "y"}, "y = "),
        (2.0, {"range": span(0.0, 0.0, 0.0, 1.0), "text": "y"}, "y = "),
        (2, {"range": span(0, 0, 0, HUGE), "text": "y"}, "y"),
        (2, {"range": span(0, 0, 2**63, 2**64), "text": "y"}, "y"),
        (2, {"range": span(0, 0, 1e300, 0), "text": "y"}, "y"),
        (2, {"range": span(-1, -5, 0, 1), "text": "y"}, "y = "),
        (2**40, {"text": "y"}, "y"),
        (2, {"range": span(0, 0, 0, 1), "rangeLength": -1, "text": "y"}, "y = "),
    ],
)
async def test_an_odd_change_is_applied(room: Make, version: Any, change: Any, text: str) -> None:
    one = room("1")
    uri = one.open("x = ", version=1)
    wire = Wire(one)
    wire.change(version, change)
    snapshot = one.session.documents.get(uri)
    assert snapshot is not None
    assert (snapshot.text, snapshot.in_sync) == (text, True)
    wire.change(version, {"text": "z = "})  # and so is the next one
    assert one.session.documents.get(uri).text == "z = "  # type: ignore[union-attr]
    assert wire.logs == []


async def test_a_document_opened_with_an_odd_version_is_open(room: Make) -> None:
    one = room("1")
    wire = Wire(one)
    for version in (None, 2**40):
        document = {"uri": one.uri(), "languageId": "python", "version": version, "text": "x = "}
        wire.receive("textDocument/didOpen", {"textDocument": document})
        assert await inline_completion(one.ls, inline_params(one.uri(), 0, 4))
        one.session.documents.close(one.uri())


async def test_a_change_beyond_repair_ends_suggestions_until_the_whole_text_comes(room: Make) -> None:
    one = room("1")
    uri = one.open("x = ")
    wire = Wire(one)
    wire.change(2, {"range": span(0, "x", 0, 1), "text": "secret"})
    assert not await inline_completion(one.ls, inline_params(uri, 0, 4))
    assert one.memory.statuses[-1]["suggestion"] == "out-of-sync"
    assert len(wire.logs) == 1
    assert "didChange" in wire.logs[0]
    assert "secret" not in wire.logs[0]
    wire.change(3, {"text": "x = "})
    assert await inline_completion(one.ls, inline_params(uri, 0, 4))


async def test_a_request_past_the_largest_number_is_one_at_the_end_of_the_line(room: Make) -> None:
    one = room("1")
    uri = one.open("x = \ny")
    wire = Wire(one)
    params = {"textDocument": {"uri": uri}, "position": {"line": 0, "character": HUGE}, "context": {"triggerKind": 1}}
    wire.receive("textDocument/inlineCompletion", params, id=1)
    await one.memory.until(lambda memory: memory.statuses and memory.statuses[-1]["suggestion"])
    assert one.engine.requests[0].prefix == "x = "


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["line", "character", "version", "textDocument", "range", "rangeLength", "a"]),
            inner,
            max_size=4,
        )
    ),
)


@given(JSON)
def test_any_parameters_are_taken_as_they_are_or_mended(params: Any) -> None:
    before = json.dumps(params)
    once = repaired(params, "textDocument/didChange", 7)
    assert json.dumps(params) == before
    assert json.dumps(repaired(once, "textDocument/didChange", 7)) == json.dumps(once)
