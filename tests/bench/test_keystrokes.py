"""What `typing.py` types, and how its figures are made."""

from __future__ import annotations

import pytest
from keystrokes import MODULES, Answer, Lines, Row, Spread, typing_into


@pytest.mark.parametrize("module", MODULES)
def test_every_keystroke_appends_to_the_prompt_or_moves_the_window_by_a_whole_step(module: str) -> None:
    document = typing_into(module, 100)
    assert len(document.keys) == 100
    prompts = list(document.prompts())
    moved = 0
    for before, after, key in zip(prompts, prompts[1:], document.keys, strict=False):
        if after != before + key:
            assert (before + key).endswith(after)
            assert (before + key)[: -len(after)].count("\n") == 64
            moved += 1
    assert moved <= 1
    assert prompts[0].count("\n") > 150


def test_typing_everything_gives_the_file_back() -> None:
    few, many = typing_into("textwrap", 10), typing_into("textwrap", 100)
    assert few.head + "".join(few.keys) + few.tail == many.head + "".join(many.keys) + many.tail
    assert many.keys[:10] == few.keys


def test_enter_brings_the_indentation_along() -> None:
    keys = typing_into("argparse", 100).keys
    assert [key for key in keys if key.startswith("\n")] != []
    assert all(key.lstrip("\n").strip(" ") == "" for key in keys if len(key) > 1)


def test_lines_end_at_line_feeds_alone() -> None:
    assert Lines.of("a\n\x0cb\u2028c\n").lines == ("a\n", "\x0cb\u2028c\n", "")
    assert Lines.of("").lines == ("",)


def test_a_spread_has_the_nearest_rank() -> None:
    assert Spread.of([float(n) for n in range(1, 101)]) == Spread(50.5, 95.0)
    assert Spread.of([3.0]) == Spread(3.0, 3.0)


def test_a_row_divides_medians_and_counts_equal_texts() -> None:
    ours = [Answer(first, 2 * first, 1, 1, 100, 98, text) for first, text in ((4, "a"), (8, "b"), (6, "c"))]
    theirs = [Answer(12, 24, 1, 1, 100, 99, text) for text in "abx"]
    pairs = list(zip(ours, theirs, strict=True))
    row = Row.of("f", pairs, pairs[0])
    assert (row.first_ratio, row.total_ratio) == (0.5, 0.5)
    assert row.equal_texts == 0.667
    assert (row.warmline.reused, row.llama_server.reused) == (0.98, 0.99)
    assert row.cold_first_ms == (4, 12)
    assert row.cold_equal is True
