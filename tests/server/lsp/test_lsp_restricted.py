"""An editor's restricted mode: nothing that a workspace says counts, only the person's own default variant runs."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from lsprotocol import types
from scripted import Room, inline_params
from warmline_server.lsp import code_lens, hover, sync
from warmline_server.lsp.commands.call import Refused
from warmline_server.lsp.commands.run import Running
from warmline_server.lsp.configuration import Configuration
from warmline_server.lsp.initialize import Client, read_client
from warmline_server.lsp.inline_completion import inline_completion

Make = Callable[..., Room]
RESTRICTED = Client(restricted=True)


async def run(one: Room, command: str, argument: dict[str, Any]) -> Any:
    server = SimpleNamespace(session=one.session)
    return await Running().run(server, types.ExecuteCommandParams(command, [argument]))  # type: ignore[arg-type]


def test_only_a_plain_yes_restricts() -> None:
    assert read_client({"initializationOptions": {"server": {"restricted": True}}}).restricted
    for options in (None, {}, {"server": None}, {"server": {"restricted": "yes"}}, {"restricted": True}):
        assert not read_client({"initializationOptions": options}).restricted


async def test_the_option_is_no_setting_that_is_complained_of(room: Make) -> None:
    one = room("1")
    Configuration(one.memory, {"server": {"restricted": True}})
    assert not one.memory.messages


async def test_the_workspaces_variant_does_not_answer(room: Make) -> None:
    one = room("1", client=RESTRICTED)
    uri = one.open("x = ")
    sync.did_open(one.ls, types.DidOpenTextDocumentParams(types.TextDocumentItem(uri, "python", 1, "x = ")))
    assert await inline_completion(one.ls, inline_params(uri, 0, 4)) is None
    assert one.memory.statuses[-1]["suggestion"] == "restricted"
    assert not one.engine.loads
    assert not one.engine.requests


async def test_the_persons_own_default_does(room: Make) -> None:
    one = room("1", client=RESTRICTED)
    one.variant("default", {"base": {"path": str(one.base)}})
    uri = one.open("x = ")
    assert await inline_completion(one.ls, inline_params(uri, 0, 4))
    assert [request.variant.name for request in one.engine.requests] == ["default"]


async def test_the_workspaces_files_are_neither_explained_nor_written(room: Make) -> None:
    one = room("1", client=RESTRICTED)
    one.write(one.root / ".warmline" / "variants" / "own.json", {"name": "own", "base": {"path": "../../base.gguf"}})
    before, document = one.config.read_bytes(), types.TextDocumentIdentifier(one.config.as_uri())
    assert await hover.hover(one.ls, types.HoverParams(document, types.Position(0, 0))) is None
    assert await code_lens.code_lens(one.ls, types.CodeLensParams(document)) is None
    names = [row["name"] for row in await run(one, "warmline.listVariants", {"uri": one.uri()})]
    assert sorted(names) == ["acme", "plain"]
    with pytest.raises(Refused, match="restricted mode"):
        await run(one, "warmline.selectVariant", {"variant": "plain", "uri": one.uri()})
    assert one.config.read_bytes() == before
