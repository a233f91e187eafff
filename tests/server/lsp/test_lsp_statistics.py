"""What `warmline.statistics` tells: how this session's answers went, what was accepted, what is in memory."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from lsprotocol import types
from scripted import Room, inline_params
from warmline.errors import BackendError
from warmline_server.lsp.commands.run import Running
from warmline_server.lsp.inline_completion import inline_completion as handle
from warmline_server.lsp.recent import MOST_ANSWERS

Make = Callable[..., Room]
METRICS = """
# TYPE warmline_state gauge
warmline_state{what="base_bytes"} 2048.0
warmline_state{what="snapshot_bytes"} 512.0
warmline_state{what="resident_bytes"} 4096.0
warmline_state{what="contexts"} 3.0
"""


async def run(one: Room, command: str, argument: dict[str, Any] | None = None) -> Any:
    one.session.turn_to(one.uri())
    server: Any = SimpleNamespace(session=one.session)
    return await Running().run(server, types.ExecuteCommandParams(command, arguments=[argument or {}]))


async def test_before_anything_there_is_nothing_and_no_engine_is_started(room: Make) -> None:
    one = room("1")
    assert await run(one, "warmline.statistics") == {"recent": [], "variants": [], "memory": None, "counting": True}
    assert one.session.running_engine is None


async def test_each_answer_is_told_once_with_its_numbers(room: Make) -> None:
    one = room("1")
    uri = one.open("x = \n")
    await handle(one.ls, inline_params(uri, 0, 4))
    await handle(one.ls, inline_params(uri, 0, 4))  # kept: shown again, decoded once
    assert len(one.engine.requests) == 1
    await run(one, "warmline.chat", {"message": "q"})
    told = await run(one, "warmline.statistics")
    first, second = told["recent"]
    assert (first["kind"], first["variant"], first["ttft_ms"]) == ("completion", "acme", 1.0)
    assert (first["prompt_tokens"], first["reused_tokens"]) == (10, 4)
    assert (second["kind"], second["variant"], second["total_ms"]) == ("chat", "acme", 2.0)
    assert (second["prompt_tokens"], second["reused_tokens"]) == (20, 8)
    assert first["at"] <= second["at"]
    [row] = told["variants"]  # what was just counted is there: not only what was written already
    assert (row["variant"], row["shown"], row["accepted"], row["acceptance"]) == ("acme", 1, 0, 0.0)


async def test_what_is_told_is_bounded_the_oldest_gone(room: Make) -> None:
    one = room("1")
    for number in range(MOST_ANSWERS + 3):
        await run(one, "warmline.chat", {"message": f"q{number}", "conversation": f"c{number}"})
    at = [answer["at"] for answer in (await run(one, "warmline.statistics"))["recent"]]
    assert len(at) == MOST_ANSWERS
    assert at == sorted(at)


async def test_memory_is_what_the_engine_says_in_bytes(room: Make) -> None:
    one = room("1")
    await run(one, "warmline.chat", {"message": "q"})
    one.engine.metered = METRICS
    told = await run(one, "warmline.statistics")
    assert told["memory"] == {"weights": 2048, "snapshots": 512, "process": 4096}
    one.engine.error = BackendError("gone", code="backend.crashed")
    assert (await run(one, "warmline.statistics"))["memory"] is None
