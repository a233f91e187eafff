"""Names, descriptions and metadata are data: on no surface can they act, drive a terminal or be mistaken for ours."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import converters, types
from markdown_it import MarkdownIt
from scripted import Room
from warmline.errors import ArtifactError
from warmline.host.wire import VariantStatus
from warmline_server.characters import as_message
from warmline_server.cli.output import one_line, visible
from warmline_server.lsp import code_lens, document_link, file_check, hover, json_completion
from warmline_server.lsp.diagnostics import Fault, diagnostic
from warmline_server.lsp.initialize import Client
from warmline_server.lsp.trust_prompt import TrustPrompt

HOSTILE = {
    "a command link": "[run](command:evil.run)",
    "a link": "[docs](https://evil.example/x)",
    "a bare address": "https://evil.example/x",
    "a picture": "![x](https://evil.example/x.png)",
    "html": "<img src=x onerror=alert(1)><a href='command:evil'>x</a>",
    "an icon": "$(check) approved",
    "escape codes": "\x1b]8;;https://evil.example\x07click\x1b]8;;\x07\x1b[2J",
    "an override of direction": "user\u202etnatsissa\u202c\u2066x\u2069",
    "a line of its own": "x\n\n# Approved by Warmline\r\nx",
    "nothing to see": "a\u200b\u2060\ufeff\U000e0041b",
    "a table's end": "a | b |\n| --- | --- |",
    "a fence": "```\n[run](command:evil)\n```",
}
# What may not be in any text that a person gets, whatever the surface.
CONTROLS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff\U000e0000-\U000e0fff]"
)
LIVE = re.compile(r"\]\((?:https?:|command:|file:)|\$\(")


@pytest.fixture(params=HOSTILE.values(), ids=HOSTILE.keys())
def evil(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def hostile(evil: str) -> Callable[[Any], VariantStatus]:
    """Make a description all of whose texts are hostile."""
    from scripted import describe

    def described(variant: Any) -> VariantStatus:
        known = describe(variant)
        text = {"source": evil, "trust": evil}
        adapters = tuple(
            adapter.model_copy(update={**text, "name": evil, "declared_base": evil}) for adapter in known.adapters
        )
        base = known.base.model_copy(update={**text, "name": evil, "merged_from": evil})
        backend = known.backend.model_copy(update={"version": evil})
        return known.model_copy(
            update={"variant": evil, "base": base, "adapters": adapters, "backend": backend, "fim": evil}
        )

    return described


async def shown_by_hover(one: Room) -> list[str]:
    params = types.HoverParams(types.TextDocumentIdentifier(one.config.as_uri()), types.Position(0, 0))
    found = await hover.hover(one.ls, params)
    assert found is not None
    contents = converters.get_converter().unstructure(found)["contents"]
    assert set(contents) == {"kind", "value"}  # nothing that a client could take for trust
    return [contents["value"]]


async def shown_by_lenses(one: Room) -> list[str]:
    texts = []
    for path in (one.config, one.variant_path("acme")):
        params = types.CodeLensParams(types.TextDocumentIdentifier(path.as_uri()))
        lenses = await code_lens.code_lens(one.ls, params)
        texts += [lens.command.title for lens in lenses or [] if lens.command]
        assert all(lens.command and lens.command.command in ("", "warmline.selectVariant") for lens in lenses or [])
    return texts


@pytest.mark.parametrize("markdown", [True, False], ids=["markdown", "plain"])
@pytest.mark.parametrize("surface", [shown_by_hover, shown_by_lenses])
async def test_what_the_engine_says_of_a_variant_is_shown_as_data(
    room: Callable[..., Room], evil: str, surface: Callable[[Room], Awaitable[list[str]]], markdown: bool
) -> None:
    one = room(client=Client(markdown=markdown))
    one.engine.describe = lambda variant: _later(hostile(evil)(variant))  # type: ignore[method-assign]
    texts = await surface(one)
    assert texts
    for text in texts:
        assert not CONTROLS.search(text)
        if surface is shown_by_lenses:
            assert "\n" not in text
            assert not LIVE.search(text)
        elif markdown:
            assert "://" not in text  # GFM makes links of bare addresses
            html = MarkdownIt("gfm-like", {"linkify": False}).render(text)
            assert not re.search(r"<(a|img|h\d|code|script|pre)\b", html)


async def _later(value: Any) -> Any:
    return value


@pytest.mark.parametrize("shown", ["diagnostic", "hover"])
async def test_errors_quote_what_is_in_files_as_data(room: Callable[..., Room], evil: str, shown: str) -> None:
    one = room(client=Client(markdown=True))
    error = ArtifactError(f"the adapter says {evil}", code="artifact.adapter.kind", remedy=f"Ask {evil}")
    if shown == "diagnostic":
        message = diagnostic(error, Fault(one.config, "variant"), "utf-16").message
        assert not CONTROLS.search(message) and "\n" not in message and not LIVE.search(message)
        return
    one.engine.error = error
    [text] = await shown_by_hover(one)
    assert not CONTROLS.search(text)
    assert "://" not in text
    assert not re.search(r"<(a|img|h\d|code|script)\b", MarkdownIt("gfm-like", {"linkify": False}).render(text))


async def test_the_question_of_trust_quotes_as_data(room: Callable[..., Room], evil: str, tmp_path: Path) -> None:
    one = room()
    name = re.sub(r"[\x00/]", "", evil)[:80]
    file = one.root / name
    file.write_bytes(b"x")
    variant = one.session.variants.resolve_named("plain", None)
    base = variant.base.model_copy(update={"path": file, "name": evil, "workspace": True})
    prompt = TrustPrompt(one.home, one.memory)
    assert await prompt.offer(variant.model_copy(update={"base": base}), one.root, unasked=False) == []
    [(question, answers)] = one.memory.questions
    text = as_message(question)  # as the server sends it
    assert not CONTROLS.search(text) and "\n" not in text and not LIVE.search(text)
    assert answers == ("Approve", "Not now")


async def test_our_files_texts_are_data_in_completion_links_and_diagnostics(
    room: Callable[..., Room], evil: str
) -> None:
    one = room(client=Client(markdown=True))
    path = one.root / ".warmline" / "variants" / "odd.json"
    content = {"name": "odd", "description": evil, "base": {"path": evil[:4000]}, evil[:50]: 1}
    one.write(path, content)
    uri = path.as_uri()
    text = json.dumps(content)
    one.session.documents.open(uri, "json", 1, text)
    file_check.check(one.session, uri)
    for item in one.memory.diagnostics[uri]:
        assert not CONTROLS.search(item.message) and "\n" not in item.message and not LIVE.search(item.message)
    params = types.CompletionParams(types.TextDocumentIdentifier(uri), types.Position(0, 1))
    found = await json_completion.completion(one.ls, params)
    assert found is not None
    for entry in found.items:
        assert not CONTROLS.search(f"{entry.label}{entry.detail or ''}")
    links = types.DocumentLinkParams(types.TextDocumentIdentifier(uri))
    assert await document_link.document_link(one.ls, links) == []


def test_the_terminal_gets_escapes_not_codes(evil: str) -> None:
    for text in (visible(evil), one_line(evil)):
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text)
    assert "\n" not in one_line(evil)
