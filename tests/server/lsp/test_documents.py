"""The document store against LSP's rules: a table of cases, a slow reference, and each way that pygls' store breaks."""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import itertools
import json
import random
import threading
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lsprotocol import types
from warmline_server.lsp import documents
from warmline_server.lsp.documents import DocumentStore, Edit, Outcome, Snapshot

URI = "file:///srv/a.py"
ENCODINGS = ("utf-8", "utf-16", "utf-32")
CASES = json.loads((Path(__file__).parents[2] / "cases" / "document_sync.json").read_text("utf-8"))["cases"]

# What tells line rules and units apart: LSP's three line ends and the look-alikes, one to four bytes, one and two
# UTF-16 units, a joiner, a combining accent, lone surrogates.
PIECES = [
    *("\r", "\n", "\r\n", "\n\r", "\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u2029", "\t", "a", "b ", "x = 1"),
    *("ß", "é", "e\u0301", "日本", "\uffff", "𝒳", "👩\u200d💻", "\ud83d", "\ude00"),
]


# --- the reference: a list of characters, scanned from the start each time ---------------------------------------


def ref_lines(text: str) -> list[tuple[int, str]]:
    """Give (offset, text without line end) of each line."""
    lines = []
    start = at = 0
    while at < len(text):
        if text[at] in "\r\n":
            lines.append((start, text[start:at]))
            at += 2 if text[at : at + 2] == "\r\n" else 1
            start = at
        else:
            at += 1
    lines.append((start, text[start:]))
    return lines


def ref_width(character: str, encoding: str) -> int:
    code = ord(character)
    if encoding == "utf-8":
        return 1 + (code >= 0x80) + (code >= 0x800) + (code >= 0x10000)
    return 1 + (encoding == "utf-16" and code >= 0x10000)


def ref_offset(text: str, line: int, character: int, encoding: str) -> int:
    lines = ref_lines(text)
    if line >= len(lines):
        return len(text)
    offset, content = lines[line]
    units = 0
    for point in content:
        units += ref_width(point, encoding)
        if units > character:
            break
        offset += 1
    return offset


def ref_position(text: str, offset: int, encoding: str) -> tuple[int, int]:
    line, (start, content) = [(n, entry) for n, entry in enumerate(ref_lines(text)) if entry[0] <= offset][-1]
    return line, sum(ref_width(point, encoding) for point in content[: offset - start])


@dataclass(frozen=True)
class Change:
    """A change of the editor; `span` is (start line, start character, end line, end character), None for all."""

    span: tuple[int, int, int, int] | None
    text: str


def ref_apply(text: str, change: Change, encoding: str) -> str:
    if change.span is None:
        return change.text
    ends = sorted((ref_offset(text, *change.span[:2], encoding), ref_offset(text, *change.span[2:], encoding)))
    return text[: ends[0]] + change.text + text[ends[1] :]


# --- help ---------------------------------------------------------------------------------------------------------


def to_lsp(change: Change) -> types.TextDocumentContentChangeEvent:
    if change.span is None:
        return types.TextDocumentContentChangeWholeDocument(text=change.text)
    a, b, c, d = change.span
    return types.TextDocumentContentChangePartial(
        range=types.Range(types.Position(a, b), types.Position(c, d)), text=change.text
    )


def opened(text: str, encoding: str = "utf-16") -> DocumentStore:
    store = DocumentStore(encoding)
    store.open(URI, "python", 1, text)
    return store


def now(store: DocumentStore) -> Snapshot:
    snapshot = store.get(URI)
    assert snapshot is not None
    return snapshot


def edit(store: DocumentStore, *changes: Change) -> Snapshot:
    result = store.change(URI, now(store).version + 1, [to_lsp(change) for change in changes])
    assert result.applied, result.reason
    assert result.snapshot is now(store)
    return now(store)


def assert_index_is_whole(snapshot: Snapshot) -> None:
    """The two rules that the blocks must keep, whatever was edited."""
    blocks = [block.text for block in snapshot._text.blocks]
    for left, right in itertools.pairwise(blocks):
        assert left.endswith(("\r", "\n"))
        assert right
        assert not (left.endswith("\r") and right.startswith("\n"))


def assert_same(snapshot: Snapshot, text: str) -> None:
    assert snapshot.text == text
    assert snapshot.length == len(text)
    lines = ref_lines(text)
    assert [snapshot.line(n) for n in range(snapshot.line_count)] == [content for _, content in lines]
    starts = [start for start, _ in lines] + [len(text)]
    for n, start in enumerate(starts[:-1]):
        assert snapshot.slice_lines(n, n + 1) == text[start : starts[n + 1]]
    assert_index_is_whole(snapshot)


def assert_positions_same(snapshot: Snapshot, text: str) -> None:
    for offset in range(len(text) + 1):
        position = snapshot.position_at(offset)
        assert (position.line, position.character) == ref_position(text, offset, snapshot.encoding)
        inside_line_end = text[offset - 1 : offset + 1] == "\r\n" if offset else False
        assert snapshot.offset_at(position) == offset - inside_line_end
    for line, (_, content) in enumerate(ref_lines(text)):
        for character in range(4 * len(content) + 2):
            expected = ref_offset(text, line, character, snapshot.encoding)
            assert snapshot.offset_at(types.Position(line, character)) == expected


# --- table and fuzz -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES, ids=[f"{n}-{case['encoding']}" for n, case in enumerate(CASES)])
def test_case(case: dict[str, Any]) -> None:
    store = opened(case["text"], case["encoding"])
    changes = []
    for raw in case["changes"]:
        span = raw.get("range")
        ends = span and (span["start"]["line"], span["start"]["character"], span["end"]["line"])
        changes.append(Change(span and (*ends, span["end"]["character"]), raw["text"]))
    assert_same(edit(store, *changes), case["expected"])
    assert_positions_same(now(store), case["expected"])


texts = st.lists(st.sampled_from(PIECES), max_size=14).map("".join)
spans = st.tuples(st.integers(0, 8), st.integers(0, 14), st.integers(0, 8), st.integers(0, 14))
changes = st.builds(Change, st.one_of(spans, spans, spans, st.none()), texts)


@pytest.mark.parametrize("block", [2, 7, 8192])
@given(
    encoding=st.sampled_from(ENCODINGS), text=texts, notifications=st.lists(st.lists(changes, max_size=3), max_size=6)
)
@settings(deadline=None, max_examples=150)
def test_fuzz_against_the_reference(block: int, encoding: str, text: str, notifications: list[list[Change]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        # Tiny blocks put a seam between almost all lines, so that each edit crosses some.
        patch.setattr(documents, "_BLOCK", block)
        store = opened(text, encoding)
        seen = [(now(store), text)]
        for notification in notifications:
            for change in notification:
                text = ref_apply(text, change, encoding)
            seen.append((edit(store, *notification), text))
        assert_positions_same(*seen[-1])
        for snapshot, its_text in seen:
            assert_same(snapshot, its_text)


@given(text=texts, start=st.integers(0, 40), removed=st.integers(0, 40), new=texts, block=st.integers(1, 6))
@settings(deadline=None, max_examples=300)
def test_an_edit_may_split_or_join_a_line_end_anywhere(
    text: str, start: int, removed: int, new: str, block: int
) -> None:
    """Offsets, unlike positions, also reach between \\r and \\n."""
    start = min(start, len(text))
    end = min(start + removed, len(text))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(documents, "_BLOCK", block)
        snapshot = now(opened(text))
        spliced = dataclasses.replace(snapshot, _text=snapshot._text.spliced(start, end, new))
        assert_same(spliced, text[:start] + new + text[end:])


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_twenty_thousand_edits(encoding: str) -> None:
    dice = random.Random(f"twenty thousand edits, {encoding}")
    text = "".join(dice.choices(PIECES, k=300))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(documents, "_BLOCK", 64)
        store = opened(text, encoding)
        kept: list[tuple[Snapshot, str]] = []
        for step in range(20_000):
            lines = len(ref_lines(text))
            line, character = dice.randrange(lines + 1), dice.randrange(20)
            # Deletions outweigh insertions in a long text, so that it stays of a size that the reference can bear.
            reach = dice.choice((0, 0, 1, 3)) if len(text) < 800 else dice.choice((0, 1, 3, 12))
            new = "".join(dice.choices(PIECES, k=dice.choice((0, 1, 1, 2, 6))))
            change = Change((line, character, line + reach, dice.randrange(20)), new)
            text = ref_apply(text, change, encoding)
            snapshot = edit(store, change)
            assert snapshot.text == text
            if step % 100 == 0:
                assert_same(snapshot, text)
                kept.append((snapshot, text))
            if step % 1000 == 0:
                assert_positions_same(snapshot, text)
        for snapshot, its_text in kept:
            assert_same(snapshot, its_text)


# --- what pygls' own store gets wrong, by its number in the project's notes ---------------------------------------


@pytest.mark.parametrize("look_alike", list("\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"))
def test_pygls_1_only_lsp_line_ends_end_a_line(look_alike: str) -> None:
    store = opened(f"a{look_alike}b\nc\n")
    assert edit(store, Change((1, 0, 1, 1), "Z")).text == f"a{look_alike}b\nZ\n"
    assert now(store).line_count == 3


def test_pygls_2_positions_past_the_end_clamp_and_are_not_rewritten() -> None:
    snapshot = now(opened("abc\r\nde"))
    for position, offset in [((0, 99), 3), ((0, 3), 3), ((1, 99), 7), ((2, 0), 7), ((99, 4), 7)]:
        given_position = types.Position(*position)
        before = copy.copy(given_position)
        assert snapshot.offset_at(given_position) == offset
        assert given_position == before


def test_pygls_3_an_edit_rebuilds_one_block_and_shares_the_rest() -> None:
    store = opened("".join(f"    value_{n} = {n}\n" for n in range(100_000)))
    for line in (0, 50_000, 99_999, 100_000):
        before = {id(block) for block in now(store)._text.blocks}
        after = edit(store, Change((line, 0, line, 0), "x"))
        assert len(before) > 100
        assert sum(id(block) not in before for block in after._text.blocks) == 1


def test_pygls_3_a_look_up_indexes_only_where_it_looks() -> None:
    snapshot = now(opened("".join(f"    value_{n} = {n}\n" for n in range(100_000))))
    snapshot.offset_at(types.Position(70_000, 7))
    assert snapshot.slice_lines(70_000, 70_001) == "    value_70000 = 70000\n"
    assert sum(block._starts is not None for block in snapshot._text.blocks) <= 2
    assert snapshot._text._whole is None


def test_pygls_4_a_handler_that_cannot_be_stopped_keeps_its_text() -> None:
    store = opened("one\ntwo\n")
    edited = threading.Event()
    answer: list[tuple[int, str]] = []

    def handler(snapshot: Snapshot) -> None:
        assert edited.wait(10)
        answer.append((snapshot.version, snapshot.text))

    thread = threading.Thread(target=handler, args=(now(store),))
    thread.start()
    edit(store, Change((0, 0, 1, 3), "three"))
    store.close(URI)
    edited.set()
    thread.join(10)
    assert answer == [(1, "one\ntwo\n")]


async def test_pygls_5_a_coroutine_that_begins_late_sees_the_text_it_was_asked_about() -> None:
    store = opened("pri")

    async def handler(snapshot: Snapshot) -> tuple[int, str]:
        return snapshot.version, snapshot.line(0)

    entered = now(store)
    late = asyncio.ensure_future(handler(entered))
    edit(store, Change((0, 3, 0, 3), "nt"))
    assert await late == (1, "pri")
    assert (now(store).version, now(store).line(0)) == (2, "print")
    assert now(store) is not entered


def test_pygls_6_an_unopened_document_is_none_and_the_disk_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "secret.py"
    path.write_text("on disk")
    store = DocumentStore()
    assert store.get(path.as_uri()) is None
    store.open(path.as_uri(), "python", 1, "in the editor")
    store.close(path.as_uri())
    store.close(path.as_uri())
    assert store.get(path.as_uri()) is None


# --- the store ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "change", "lines"),
    [
        ("a\rb", Change((1, 0, 1, 0), "\n"), ["a", "b"]),
        ("a\rx\nb", Change((1, 0, 1, 1), ""), ["a", "b"]),
        ("a\nb", Change((0, 1, 0, 1), "\r"), ["a", "b"]),
        ("a\r\nb", Change((0, 1, 0, 1), "\r"), ["a", "", "b"]),
        ("a\r\nb", Change((0, 1, 0, 1), "\n"), ["a", "", "b"]),
        ("a\r", Change((1, 0, 1, 0), "\n\n"), ["a", "", ""]),
    ],
)
@pytest.mark.parametrize("block", [1, 8192])
def test_line_ends_made_and_split_by_an_edit(
    monkeypatch: pytest.MonkeyPatch, block: int, text: str, change: Change, lines: list[str]
) -> None:
    monkeypatch.setattr(documents, "_BLOCK", block)
    snapshot = edit(opened(text), change)
    assert [snapshot.line(n) for n in range(snapshot.line_count)] == lines
    assert_index_is_whole(snapshot)


def test_a_position_inside_a_character_is_its_start() -> None:
    for encoding, inside in (("utf-8", (2, 3, 4)), ("utf-16", (2,))):
        snapshot = now(opened("a💻b", encoding))
        assert {snapshot.offset_at(types.Position(0, character)) for character in inside} == {1}


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_lone_surrogates_are_characters_like_others(encoding: str) -> None:
    store = opened("a\ud83db\n\ude00", encoding)
    width = 3 if encoding == "utf-8" else 1
    assert now(store).offset_at(types.Position(0, 1 + width)) == 2
    assert now(store).position_at(2) == types.Position(0, 1 + width)
    assert edit(store, Change((0, 1 + width, 1, 0), "")).text == "a\ud83d\ude00"
    assert now(store).position_at(3) == types.Position(0, 1 + 2 * width)


def test_any_number_is_some_place() -> None:
    store = opened("a\n💻")
    huge = 10**40  # lsprotocol's own positions end at 2**31 - 1
    for line, character, offset in [(1, huge, 3), (huge, huge, 3), (huge, 0, 3), (-1, 5, 0), (1, -5, 2)]:
        assert now(store).offset_at(SimpleNamespace(line=line, character=character)) == offset
    largest = 2**31 - 1
    assert edit(store, Change((0, largest, largest, largest), "!")).text == "a!"


def test_a_reversed_range_is_taken_the_right_way_round() -> None:
    assert edit(opened("abcdef"), Change((0, 4, 0, 1), "-")).text == "a-ef"


def test_an_older_version_is_refused_and_the_document_is_out_of_sync_until_it_comes_whole() -> None:
    store = opened("abc")
    store.change(URI, 5, [])
    result = store.change(URI, 4, [to_lsp(Change((0, 0, 0, 0), "x"))])
    assert (result.outcome, result.applied) == (Outcome.OLDER_VERSION, False)
    assert "version 4 came after version 5" in result.reason
    assert result.snapshot is now(store)
    assert (now(store).text, now(store).version, now(store).in_sync) == ("abc", 5, False)
    assert not edit(store, Change((0, 0, 0, 0), "x")).in_sync
    assert edit(store, Change(None, "whole")).in_sync


def test_the_same_version_again_is_applied() -> None:
    store = opened("abc")
    assert store.change(URI, 1, [to_lsp(Change((0, 0, 0, 0), "x"))]).applied
    assert now(store).text == "xabc"


def test_a_change_of_an_unopened_document_is_refused() -> None:
    store = DocumentStore()
    result = store.change(URI, 2, [to_lsp(Change(None, "x"))])
    assert (result.outcome, result.snapshot) == (Outcome.NOT_OPEN, None)
    assert store.get(URI) is None


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (SimpleNamespace(text=None), "contentChanges[1].text is not a string"),
        (SimpleNamespace(text="x", range=3), "contentChanges[1].range.start.line is not an integer"),
        (
            SimpleNamespace(text="x", range=SimpleNamespace(start=types.Position(0, 0), end=SimpleNamespace(line=1))),
            "contentChanges[1].range.end.character is not an integer",
        ),
    ],
)
def test_a_malformed_change_takes_the_whole_notification_with_it(broken: object, reason: str) -> None:
    store = opened("abc")
    result = store.change(URI, 2, [to_lsp(Change((0, 0, 0, 0), "x")), broken])
    assert (result.outcome, result.reason) == (Outcome.MALFORMED, reason)
    assert (now(store).text, now(store).version, now(store).in_sync) == ("abc", 1, False)


def test_several_changes_apply_in_order_and_the_last_one_is_told() -> None:
    snapshot = edit(opened("ab"), Change((0, 0, 0, 0), "12\n"), Change((1, 1, 1, 2), "💻"))
    assert snapshot.text == "12\na💻"
    assert snapshot.last_edit == Edit(start=4, removed=1, inserted=1)


def test_last_edit_tells_typing_from_deleting() -> None:
    store = opened("💻b\n")
    assert now(store).last_edit is None
    typed = edit(store, Change((0, 3, 0, 3), "cd")).last_edit
    assert typed == Edit(2, 0, 2)
    assert (typed.is_insertion, typed.is_deletion) == (True, False)
    deleted = edit(store, Change((0, 0, 0, 2), "")).last_edit
    assert deleted == Edit(0, 1, 0)
    assert (deleted.is_insertion, deleted.is_deletion) == (False, True)
    assert edit(store, Change(None, "new")).last_edit is None


def test_opening_again_replaces_the_document() -> None:
    store = opened("old")
    store.change(URI, 9, [])
    store.open(URI, "rust", 1, "new")
    assert (now(store).text, now(store).version, now(store).language_id) == ("new", 1, "rust")


@pytest.mark.parametrize("encoding", list(types.PositionEncodingKind))
def test_the_encoding_may_be_lsprotocols(encoding: types.PositionEncodingKind) -> None:
    assert str(DocumentStore(encoding).encoding) == encoding.value


def test_an_unknown_encoding_is_an_error() -> None:
    with pytest.raises(ValueError, match="utf-7"):
        DocumentStore("utf-7")


@pytest.mark.parametrize(
    ("text", "eol"),
    [("", "\n"), ("a", "\n"), ("a\nb", "\n"), ("a\r\nb\r\nc\n", "\r\n"), ("a\rb", "\r"), ("\n\r\n", "\n")],
)
def test_eol_is_the_line_end_used_most(text: str, eol: str) -> None:
    assert now(opened(text)).eol == eol


def test_slices_are_cut_to_the_document() -> None:
    snapshot = now(opened("a\r\nb\nc"))
    assert snapshot.slice_lines(-5, 2) == "a\r\nb\n"
    assert snapshot.slice_lines(1, 99) == "b\nc"
    assert snapshot.slice_lines(2, 1) == ""
    assert snapshot.slice(-3, 1) == "a"
    assert snapshot.slice(4, 99) == "\nc"
    assert snapshot.slice(3, 1) == ""
    for index in (-1, 3):
        with pytest.raises(IndexError, match="of 3"):
            snapshot.line(index)


@pytest.mark.parametrize("order", [range(400), range(399, -1, -1)], ids=["downwards", "upwards"])
def test_many_deletions_do_not_leave_many_blocks(monkeypatch: pytest.MonkeyPatch, order: range) -> None:
    monkeypatch.setattr(documents, "_BLOCK", 64)
    store = opened("0123456789abcde\n" * 400)
    for line in order:
        edit(store, Change((line, 0, line, 15), ""))
    assert_same(now(store), "\n" * 400)
    assert len(now(store)._text.blocks) <= 2 * 400 / 64 + 1


def test_deleting_all_of_the_last_block_leaves_no_empty_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "_BLOCK", 2)
    store = opened("aaaa\nb")
    assert len(now(store)._text.blocks) == 2
    assert_same(edit(store, Change((1, 0, 1, 1), "")), "aaaa\n")
    assert_same(edit(store, Change((0, 0, 1, 0), "")), "")
