"""No text is shown, and none is counted, as another exact variant's than the one that wrote it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from lsprotocol import types
from scripted import Room, describe
from typist import Typist, settle
from warmline.errors import TrustError
from warmline.host.wire import VariantStatus
from warmline.variant import ResolvedVariant
from warmline_server import stats
from warmline_server.lsp.commands.run import Running

Make = Callable[..., Room]


async def asked(one: Room) -> tuple[Typist, asyncio.Task[Any]]:
    """Ask for a suggestion that is being decoded from here on, until the gate is set."""
    one.engine.gate = asyncio.Event()
    person = Typist(one, "x = ")
    question = person.ask()
    await one.engine.asked.wait()
    await settle()
    return person, question


def end(one: Room) -> None:
    assert one.engine.gate is not None
    one.engine.gate.set()


async def run(one: Room, command: str, *arguments: Any) -> None:
    await Running().run(one.ls, types.ExecuteCommandParams(command, arguments=list(arguments)))


async def counted(one: Room) -> dict[str, tuple[int, int]]:
    await one.session.counting.close()
    return {name: (tally.shown, tally.accepted) for name, tally in stats.load(one.home).variants.items()}


async def test_what_one_variant_writes_is_not_shown_once_another_is_selected(room: Make) -> None:
    one = room("abc")
    person, question = await asked(one)
    await run(one, "warmline.selectVariant", {"uri": person.uri, "variant": "plain"})
    await one.session.settled()
    end(one)
    assert await question is None
    status = one.memory.statuses[-1]
    assert (status["variant"], status["suggestion"], status["last"]) == ("plain", "identity:changed", None)
    await run(one, "warmline.accepted", person.uri, {"line": 0, "character": 7})
    assert await counted(one) == {}
    assert await person.ghost() == "abc"
    assert [request.variant.name for request in one.engine.requests] == ["acme", "plain"]
    assert await counted(one) == {"plain": (1, 0)}


async def test_a_joined_answer_of_a_file_that_was_replaced_is_not_shown(
    room: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = room("abc")
    person, first = await asked(one)

    async def other(variant: ResolvedVariant) -> VariantStatus:
        return describe(variant).model_copy(update={"identity": "sha256:" + "9" * 64})

    monkeypatch.setattr(one.engine, "describe", other)
    second = person.ask()
    await settle()
    end(one)
    assert (await first, await second) == (None, None)
    assert one.memory.statuses[-1]["suggestion"] == "identity:changed"
    assert await person.ghost() == "abc"
    assert len(one.engine.requests) == 2


async def test_a_joined_answer_is_not_shown_once_trust_is_revoked(room: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    one = room("abc")
    person, first = await asked(one)

    async def revoked(variant: ResolvedVariant) -> VariantStatus:
        raise TrustError("it is not approved", code="trust.unapproved")

    monkeypatch.setattr(one.engine, "describe", revoked)
    second = person.ask()
    await settle()
    end(one)
    assert (await first, await second) == (None, None)
    assert one.memory.statuses[-1]["error"]["code"] == "trust.unapproved"


async def test_what_is_shown_counts_for_its_own_document(room: Make) -> None:
    one = room("abc")
    other = one.root.parent / "other"
    one.write(other / ".warmline" / "config.json", {"variant": "plain"})
    person, question = await asked(one)
    one.session.turn_to((other / "b.py").as_uri())
    end(one)
    assert await question
    await run(one, "warmline.accepted", person.uri, {"line": 0, "character": 7})
    assert await counted(one) == {"acme": (1, 1)}
