"""The ring of excerpts: append-only, without doubles, evicted in blocks, never across folders."""

from __future__ import annotations

from itertools import pairwise

import pytest
from warmline_server.context.excerpts import excerpt, header
from warmline_server.context.ring import Excerpt, Ring
from warmline_server.context.similarity import contained, similarity
from warmline_server.lsp.documents import DocumentStore


def lines(first: int, count: int = 10) -> str:
    return "".join(f"value_{number} = {number}\n" for number in range(first, first + count))


def texts(ring: Ring, folder: str, uri: str, near: str = "") -> tuple[str, ...]:
    return tuple(each.text for each in ring.beside(folder, uri, near))


def test_it_grows_at_its_end_only_and_a_block_of_the_oldest_leaves_at_once() -> None:
    ring = Ring(lambda: 4)
    seen = []
    for number in range(12):
        assert ring.add("ws", Excerpt(f"file:///{number}.py", lines(number * 100)))
        seen.append(texts(ring, "ws", "file:///other.py"))
    cuts = 0
    for before, now in pairwise(seen):
        assert len(now) <= 4
        if now[: len(before)] == before:
            continue  # appended: what stood before is where it was
        cuts += 1
        assert before[2:] == now[: len(before) - 2]
    # Room for two at each cut, so that the next one appends again.
    assert cuts == 4
    assert seen[-1][-1] == lines(1100)


def test_the_same_place_seen_twice_is_one_excerpt() -> None:
    ring = Ring(lambda: 4)
    assert ring.add("ws", Excerpt("a", lines(0)))
    assert not ring.add("ws", Excerpt("a", lines(0, 9)))
    assert not ring.add("ws", Excerpt("copy", lines(0)))
    assert not ring.add("ws", Excerpt("a", " \n"))
    assert ring.add("ws", Excerpt("a", lines(50)))
    assert texts(ring, "ws", "b") == (lines(0), lines(50))


def test_a_documents_own_excerpts_are_no_context_for_it_and_folders_do_not_mix() -> None:
    ring = Ring(lambda: 4)
    ring.add("ws", Excerpt("a", lines(0)))
    ring.add("ws", Excerpt("b", lines(50)))
    ring.add("other", Excerpt("c", lines(90)))
    assert texts(ring, "ws", "a") == (lines(50),)
    assert texts(ring, "other", "a") == (lines(90),)
    ring.forget("b")
    assert texts(ring, "ws", "a") == ()


def test_a_copy_of_what_is_near_the_cursor_is_left_out() -> None:
    ring = Ring(lambda: 4)
    ring.add("ws", Excerpt("copy", "# copy.py\n" + lines(0)))
    ring.add("ws", Excerpt("b", "# b.py\n" + lines(50)))
    assert texts(ring, "ws", "a", lines(0, 30)) == ("# b.py\n" + lines(50),)


def test_none_are_wanted() -> None:
    ring = Ring(lambda: 0)
    assert not ring.add("ws", Excerpt("a", lines(0)))
    assert texts(ring, "ws", "b") == ()


@pytest.mark.parametrize(
    ("one", "other", "wanted"),
    [("a\nb", "a\nb", 1.0), ("a\nb\nc", "a\nb\nd", 0.5), ("  a\n", "a", 1.0), ("", "a", 0.0), ("", "\n", 1.0)],
)
def test_similarity_is_the_share_of_lines_in_common(one: str, other: str, wanted: float) -> None:
    assert similarity(one, other) == wanted


def test_a_part_is_contained_by_the_share_of_its_lines() -> None:
    assert contained("a\n\n  b", "b\nc\na") == 1.0
    assert contained("a\nd", "b\nc\na") == 0.5
    assert contained("\n", "a") == 1.0


def test_an_excerpt_is_whole_lines_under_a_name_and_the_same_for_one_place() -> None:
    snapshot = DocumentStore().open("u", "python", 1, lines(0, 100).replace("\n", "\r\n"))
    text = excerpt(snapshot, 50, 8, "src/a.py")
    assert text.startswith("# src/a.py\nvalue_44 = 44\n")
    assert text.endswith("value_51 = 51\n\n")
    assert "\r" not in text
    assert excerpt(snapshot, 49, 8, "src/a.py") == text
    assert excerpt(snapshot, 0, 8, "src/a.py").startswith("# src/a.py\nvalue_0 = 0\n")


def test_nothing_is_cut_from_nothing_nor_from_giant_lines() -> None:
    store = DocumentStore()
    assert excerpt(store.open("u", "python", 1, "\n" * 50), 25, 8, "a.py") == ""
    assert excerpt(store.open("u", "json", 1, "x" * 1_000_000), 0, 8, "a.json") == ""


def test_the_name_is_a_comment_of_the_language_and_one_line() -> None:
    assert header("src/a.ts", "typescript") == "// src/a.ts\n"
    assert header("a\nb.sql", "sql") == "-- a b.sql\n"
    assert header("a", "nonesuch") == "# a\n"
