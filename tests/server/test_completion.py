"""What the language server and the command line share: a window, an engine's events, a filtered suggestion."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest
from warmline.errors import ArtifactError, BackendError
from warmline.host.wire import Outcome
from warmline.variant import ResolvedVariant
from warmline_server.completion import complete
from warmline_server.lsp.documents import DocumentStore

sys.path.insert(0, str(Path(__file__).parent / "lsp"))
from scripted import ScriptedEngine

VARIANT = ResolvedVariant.model_validate(
    {"name": "v", "backend": "llama", "base": {"name": "b", "path": "/b"}, "adapters": (), "profile": {}, "file": "/v"}
)


async def run(engine: ScriptedEngine, text: str, line: int, column: int, **more: Any) -> Any:
    lines = DocumentStore().open("u", "python", 1, text)
    return await complete(engine, VARIANT, lines, line, column, client="c", document="u", language="python", **more)


async def test_the_engine_gets_the_window_and_the_answer_is_shown() -> None:
    engine = ScriptedEngine("b", ")")
    result = await run(engine, "def f(\nx = 1\n", 0, 6, path="src/a.py", max_tokens=9)
    [request] = engine.requests
    assert (request.prefix, request.suffix, request.first_line) == ("def f(", "\nx = 1\n", 0)
    assert (request.client, request.document, request.path, request.max_tokens) == ("c", "u", "src/a.py", 9)
    assert (result.text, result.reason, result.outcome) == ("b)", "shown", Outcome.STOP)
    assert result.started.reason == "prefix:4/10"
    assert result.done.text == "b)"
    assert result.total_ms > 0


async def test_the_decode_stops_as_soon_as_the_shown_text_is_settled() -> None:
    engine = ScriptedEngine("1\n", *["more\n"] * 50)
    engine.gate = asyncio.Event()
    engine.gate.set()
    result = await run(engine, "x = ", 0, 4, multiline=False)
    assert result.text == "1"
    assert result.done is None
    assert result.outcome is None
    assert engine.stopped == engine.requests


async def test_line_ends_are_the_documents() -> None:
    result = await run(ScriptedEngine("(a,\n      b)"), "def f", 0, 5, eol="\r\n")
    assert result.text == "(a,\r\n      b)"


@pytest.mark.parametrize("outcome", [Outcome.SUPERSEDED, Outcome.CANCELLED])
async def test_superseded_and_cancelled_are_told_apart_and_show_nothing(outcome: Outcome) -> None:
    result = await run(ScriptedEngine("a", outcome=outcome), "x = ", 0, 4)
    assert (result.text, result.reason, result.outcome) == (None, outcome.value, outcome)


async def test_a_half_line_where_the_tokens_ran_out_is_left_out() -> None:
    result = await run(ScriptedEngine("a,\n      b", outcome=Outcome.LENGTH), "call(", 0, 5)
    assert (result.text, result.reason) == ("a,", "length")
    result = await run(ScriptedEngine("only_li", outcome=Outcome.LENGTH), "call(", 0, 5)
    assert (result.text, result.reason) == ("only_li", "length")
    result = await run(ScriptedEngine("\n    half", outcome=Outcome.LENGTH), "def f():", 0, 8)
    assert (result.text, result.reason) == ("\n    half", "length")


async def test_an_engine_that_ends_without_done_is_an_error() -> None:
    with pytest.raises(BackendError) as caught:
        await run(ScriptedEngine("a", outcome=None), "x = ", 0, 4)
    assert caught.value.code == "backend.protocol"


async def test_the_engines_errors_pass_through() -> None:
    engine = ScriptedEngine()
    engine.error = ArtifactError("gone", code="artifact.missing")
    with pytest.raises(ArtifactError):
        await run(engine, "x = ", 0, 4)


async def test_cancelling_stops_the_decode() -> None:
    engine = ScriptedEngine("a")
    engine.gate = asyncio.Event()
    task = asyncio.ensure_future(run(engine, "x = ", 0, 4))
    await engine.asked.wait()
    assert engine.stopped == []
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert engine.stopped == engine.requests


@pytest.mark.parametrize(("line", "column"), [(0, 10**9), (10**9, 0), (-1, -1)])
async def test_a_cursor_outside_the_document_is_moved_into_it(line: int, column: int) -> None:
    engine = ScriptedEngine("y")
    await run(engine, "x = 1\nz", line, column)
    [request] = engine.requests
    assert request.prefix + request.suffix == "x = 1\nz"


async def test_nothing_shown_has_a_reason() -> None:
    result = await run(ScriptedEngine("   \n  "), "x = ", 0, 4)
    assert result.text is None
    assert result.reason == "whitespace"
