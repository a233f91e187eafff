"""Commands at their limits: positions, documents that change meanwhile, equal tokens, files that are links."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from lsprotocol import types
from scripted import Room
from typist import Typist
from warmline_server.lsp.commands.call import Refused
from warmline_server.lsp.commands.run import Running
from warmline_server.lsp.initialize import Client

Make = Callable[..., Room]


async def run(one: Room, command: str, *arguments: Any, work: str | None = None, by: Running | None = None) -> Any:
    params = types.ExecuteCommandParams(command, arguments=list(arguments), work_done_token=work)
    return await (by or Running()).run(one.ls, params)


def span(line: int, start: int, last: int, end: int) -> dict[str, Any]:
    return {"start": {"line": line, "character": start}, "end": {"line": last, "character": end}}


@pytest.mark.parametrize(("versioned", "reason"), [(False, "document-changed"), (True, "written")])
async def test_an_edit_without_a_version_is_not_given_for_lines_that_moved(
    room: Make, versioned: bool, reason: str
) -> None:
    one = room("```\ny = 2\n```", client=Client(versioned_edits=versioned))
    one.engine.gate = asyncio.Event()
    person = Typist(one, "")
    person.type("x = 1\n")
    given = {"uri": person.uri, "range": span(0, 0, 0, 5), "instruction": "Do."}
    rewriting = asyncio.ensure_future(run(one, "warmline.edit", given))
    await one.engine.asked.wait()
    person.type("z")
    one.engine.gate.set()
    found = await rewriting
    assert (found["reason"], found["edit"] is None) == (reason, not versioned)


async def test_positions_beyond_the_protocol_are_refused_at_once(room: Make) -> None:
    one = room("```\ny\n```")
    uri = one.open("x = 1\n")
    for where in (span(0, 0, 0, 1 << 31), span(0, 0, 1 << 31, 0)):
        with pytest.raises(Refused, match=r"range\.end"):
            await run(one, "warmline.edit", {"uri": uri, "range": where, "instruction": "Do."})
    assert one.engine.chats == []
    for line in (1 << 31, 1 << 60, -1):
        await run(one, "warmline.accepted", uri, {"line": line, "character": 0})


async def test_a_range_given_from_its_end_is_put_in_order(room: Make) -> None:
    one = room("```\ny\n```")
    uri = one.open("x = 1\n")
    found = await run(one, "warmline.edit", {"uri": uri, "range": span(1, 0, 0, 4), "instruction": "Do."})
    [edit] = found["edit"].changes[uri]
    assert edit.range == types.Range(types.Position(0, 4), types.Position(1, 0))


async def test_a_token_that_is_in_use_is_refused_and_still_cancels_its_command(room: Make) -> None:
    one = room("never")
    one.open("x")
    one.session.turn_to(one.uri())
    one.engine.gate = asyncio.Event()
    running = Running()
    talk = asyncio.ensure_future(run(one, "warmline.chat", {"message": "q"}, work="w", by=running))
    await one.engine.asked.wait()
    with pytest.raises(Refused, match="workDoneToken"):
        await run(one, "warmline.status", work="w", by=running)
    running.cancel("w")
    with pytest.raises(asyncio.CancelledError):
        await talk
    await run(one, "warmline.status", work="w", by=running)


@pytest.mark.parametrize("text", ["", "{}", "{ \n}\n", '{"overrides": {}}'])
async def test_a_file_that_selects_nothing_yet_can_be_written(room: Make, text: str) -> None:
    one = room("1")
    one.write(one.config, text)
    await run(one, "warmline.selectVariant", {"uri": one.open("x"), "variant": "plain"})
    written = json.loads(one.config.read_text())
    assert written.pop("variant") == "plain"
    assert written == (json.loads(text) if "overrides" in text else {})


@pytest.mark.parametrize("text", ["{", "}", "[]"])
async def test_a_file_that_is_no_object_is_left_as_it_is(room: Make, text: str) -> None:
    one = room("1")
    one.write(one.config, text)
    with pytest.raises(Refused):
        await run(one, "warmline.selectVariant", {"uri": one.open("x"), "variant": "plain"})
    assert one.config.read_text() == text


@pytest.mark.parametrize("inside", [True, False])
async def test_a_workspace_file_that_is_a_link_is_written_where_it_leads(room: Make, inside: bool) -> None:
    one = room("1")
    target = (one.root if inside else one.root.parent) / "shared" / "warmline.json"
    one.write(target, one.config.read_text())
    one.config.unlink()
    one.config.symlink_to(target)
    selecting = run(one, "warmline.selectVariant", {"uri": one.open("x"), "variant": "plain"})
    if inside:
        await selecting
    else:
        with pytest.raises(Refused) as refused:
            await selecting
        assert refused.value.data["code"] == "config.path"
    assert one.config.is_symlink()
    assert json.loads(target.read_text())["variant"] == ("plain" if inside else "acme")
