"""Hover: provenance as a table, in which data stays data."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from certificate_tools import paper
from hypothesis import given
from hypothesis import strategies as st
from lsprotocol import types
from markdown_it import MarkdownIt
from scripted import Room, describe, inline_params
from typist import Typist
from warmline.certificate_store import Certificates
from warmline.errors import ArtifactError
from warmline.host.wire import EngineStatus, State
from warmline_server.lsp.hover import hover
from warmline_server.lsp.initialize import Client
from warmline_server.lsp.inline_completion import inline_completion
from warmline_server.lsp.markdown import escape, fenced, plain, table

Make = Callable[..., Room]
MARKDOWN = Client(markdown=True)


async def ask(room: Room, path: Path) -> Any:
    params = types.HoverParams(types.TextDocumentIdentifier(path.as_uri()), types.Position(0, 0))
    return await hover(room.ls, params)


async def test_the_workspace_file_shows_the_variant_it_selects(room: Make) -> None:
    one = room(client=MARKDOWN)
    shown = await ask(one, one.config)
    assert shown.contents.kind == types.MarkupKind.Markdown
    html = MarkdownIt("gfm-like", {"linkify": False}).render(shown.contents.value)
    assert "<table>" in html
    for text in ("acme", "111111111111", "bbbbbbbbbbbb", "style", "1, effective 2", "unverified", "scripted 1", "4096"):
        assert text in html, text


async def test_variant_files_show_themselves_in_the_store_and_in_the_workspace(room: Make) -> None:
    one = room()
    shown = await ask(one, one.variant_path("plain"))
    assert shown.contents.kind == types.MarkupKind.PlainText
    assert "Variant      plain\n" in shown.contents.value
    assert "Adapters     none\n" in shown.contents.value
    own = one.root / ".warmline" / "variants" / "mine.json"
    one.write(own, {"name": "mine", "base": {"path": "../b.gguf"}})
    shown = (await ask(one, own)).contents.value
    assert "Variant      mine\n" in shown
    # People read paths from the workspace on.
    assert shown.endswith("\nFile         .warmline/variants/mine.json")


async def test_who_vouches_for_an_adapter_and_what_it_was_made_for_are_two_rows(room: Make) -> None:
    one = room()
    shown = (await ask(one, one.config)).contents.value.splitlines()
    assert "Trust        user" in shown
    assert "Made for     unverified: not known to be this base" in shown


async def test_the_certificate_of_the_very_variant_is_shown(room: Make) -> None:
    one = room()
    assert "Certificate  none" in (await ask(one, one.config)).contents.value
    base, adapters = "sha256:" + "b" * 64, [("sha256:" + "a" * 64, "1")]
    Certificates(one.home).put(paper(base, adapters, identity="sha256:" + "1" * 64))
    assert "Certificate  certified" in (await ask(one, one.config)).contents.value
    one.variant("acme", {"base": {"path": str(one.base)}, "profile": {"sampling": {"temperature": 1}}})
    assert "Certificate  void: sampling changed" in (await ask(one, one.config)).contents.value
    assert "Certificate  none" in (await ask(one, one.variant_path("plain"))).contents.value


async def test_of_which_other_documents_text_was_sent_is_shown(room: Make) -> None:
    one = room("1", client=MARKDOWN, suggest={"contextExcerpts": 4, "contextDeclarations": 2000})
    assert await Typist(one, "x = ", "src/a.py").ghost()
    assert "Sent along" not in (await ask(one, one.config)).contents.value
    odd = Typist(one, "def pay(): ...\n" + "\n" * 99 + "y = 1\n", "src/[b](http:x).py")
    assert await odd.ghost()
    assert await Typist(one, "z = ", "src/c.py").ghost()
    html = MarkdownIt("gfm-like", {"linkify": False}).render((await ask(one, one.config)).contents.value)
    assert "Sent along" in html
    assert "src/a.py, src/[b](http:x).py, src/[b](http:x).py (declarations)" in html


async def test_the_status_says_how_the_variant_stands(room: Make) -> None:
    one = room("1")
    Certificates(one.home).put(paper("sha256:" + "b" * 64, identity="sha256:" + "1" * 64, met=False))
    assert await inline_completion(one.ls, inline_params(one.open("x = "), 0, 4))
    one.engine.states.put_nowait(EngineStatus(state=State.BUSY, active=describe(one.engine.requests[0].variant)))
    await one.memory.until(lambda memory: memory.statuses[-1]["state"] == "busy")
    assert one.memory.statuses[-1]["certificate"].startswith("failed: style: edit_similarity")


async def test_the_last_request_is_that_of_the_very_variant(room: Make) -> None:
    one = room("1")
    assert "Last request" not in (await ask(one, one.config)).contents.value
    assert await inline_completion(one.ls, inline_params(one.open("x = "), 0, 4))
    assert "4 of 10 tokens were there" in (await ask(one, one.config)).contents.value
    # What the engine calls active may be another's by now, and its last request that of a third one.
    assert "Last request" not in (await ask(one, one.variant_path("plain"))).contents.value
    one.select("plain")
    assert "Last request" not in (await ask(one, one.config)).contents.value


async def test_other_files_have_no_hover(room: Make) -> None:
    one = room()
    for path in (one.root / "config.json", one.root / "src" / "a.py", one.home / "variants" / "x.json"):
        assert await ask(one, path) is None
    params = types.HoverParams(types.TextDocumentIdentifier("git:/x"), types.Position(0, 0))
    assert await hover(one.ls, params) is None


async def test_a_broken_file_shows_its_error_and_the_remedy(room: Make) -> None:
    one = room(client=MARKDOWN)
    one.select("acne")
    html = MarkdownIt().render((await ask(one, one.config)).contents.value)
    assert "variant.unknown" in html
    assert "Where: .warmline/config.json, variant" in html
    assert "Did you mean" in html
    one.select("acme")
    one.engine.error = ArtifactError("it is gone", code="artifact.missing", remedy="Put it back")
    html = MarkdownIt().render((await ask(one, one.config)).contents.value)
    assert "it is gone" in html
    assert "Put it back" in html


@pytest.mark.parametrize(
    "evil",
    [
        "[click](command:evil)",
        "![x](https://example.org/x.png)",
        "<img src=x onerror=alert(1)>",
        "https://example.org",
        "www.example.org",
        "a|b",
        "`code`",
        "**bold**",
        "# head",
        "line\n\n# head",
        "&lt;b&gt;",
        "\\",
        "~~x~~",
    ],
)
def test_names_and_metadata_are_data(evil: str) -> None:
    parser = MarkdownIt("commonmark").enable("table").enable("strikethrough")
    html = parser.render(table([("Name", "Value"), ("Source", evil)]))
    for mark in ("<a", "<img", "<code", "<strong", "<h1", "<s>"):
        assert mark not in html
    assert html.count("<td>") == 2
    assert "://" not in table([("a", evil)])  # GFM makes links of bare addresses


@pytest.mark.parametrize(
    "text", ["smollm2-135m-instruct", "acme-style", "1, effective 2", "fim_python.json", "llama.cpp 0.3.36", "(b4404)"]
)
def test_what_cannot_act_is_left_readable(text: str) -> None:
    assert escape(text) == text


@pytest.mark.parametrize("evil", ["# head", "- item", "+ item", "1. item", "1) item", "> quote", "---", "==="])
def test_nothing_begins_a_block(evil: str) -> None:
    assert MarkdownIt("commonmark").render(f"text\n{escape(evil)}").count("<") == 2  # one paragraph, opened and closed
    assert MarkdownIt("commonmark").render(escape(evil)).startswith("<p>")


def test_a_fence_holds_whatever_is_in_it() -> None:
    code = "```\n</pre>\n````"
    [token] = MarkdownIt("commonmark").parse(fenced(code, "python"))
    assert (token.type, token.info, token.content) == ("fence", "python", code + "\n")
    [token] = MarkdownIt("commonmark").parse(fenced("x", "py` thon\n"))
    assert (token.info, token.content) == ("", "x\n")


@pytest.mark.parametrize(
    ("text", "shown"),
    [("ac\u200bme", "ac\\u200bme"), ("\ufeffa", "\\ufeffa"), ("a\u202eb", "a\\u202eb"), ("a\n b", "a b")],
)
def test_what_cannot_be_seen_is_shown(text: str, shown: str) -> None:
    assert plain(text) == shown
    assert "\\" + shown.partition("\\")[2] in MarkdownIt("commonmark").render(escape(text)) or "\\" not in shown


@given(st.text())
def test_escaped_text_renders_as_itself(text: str) -> None:
    tokens = MarkdownIt("commonmark").parseInline(escape(text))
    rendered = "".join(child.content for token in tokens for child in token.children or [])
    assert rendered == plain(text)


@given(st.text())
def test_plain_text_is_one_bounded_line_of_visible_characters(text: str) -> None:
    line = plain(text)
    assert len(line) <= 300
    assert "\n" not in line
    assert "\u202e" not in line
    assert "\x1b" not in line
