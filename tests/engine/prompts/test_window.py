"""The window equals the document around the cursor, its edges are aligned, and typing seldom moves them."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from warmline.prompts.window import Window, WindowLimits, fit, looks_binary, normalise, window


class Lines:
    """A document split as LSP splits it."""

    def __init__(self, text: str) -> None:
        pieces = re.split(r"(\r\n|\n|\r)", text)  # text, end, text, end, ..., text
        self.lines = [a + b for a, b in zip(pieces[::2], [*pieces[1::2], ""], strict=True)]

    @property
    def line_count(self) -> int:
        return len(self.lines)

    def slice_lines(self, first: int, last: int) -> str:
        return "".join(self.lines[first:last])

    def around(self, line: int, column: int) -> tuple[str, str]:
        """Return the whole document before and after the cursor, normalised."""
        head, rest = self.lines[line][:column], self.lines[line][column:]
        return (
            normalise("".join(self.lines[:line]) + head),
            normalise(rest + "".join(self.lines[line + 1 :])),
        )


class Words:
    """A reversible toy tokenizer: runs of letters, runs of spaces, single others."""

    def __init__(self) -> None:
        self.ids: dict[str, int] = {}
        self.texts: list[str] = []
        self.calls: list[str] = []

    def __call__(self, text: str) -> list[int]:
        self.calls.append(text)
        pieces = re.findall(r"[A-Za-z]{1,6}| +|(?s:.)", text)
        for piece in dict.fromkeys(pieces):
            if piece not in self.ids:
                self.ids[piece] = len(self.texts)
                self.texts.append(piece)
        return list(map(self.ids.__getitem__, pieces))

    def text(self, ids) -> str:
        return "".join(self.texts[i] for i in ids)


def code(lines: int) -> str:
    return "".join(f"    value_{i} = compute(value_{i - 1}, {i})\n" for i in range(lines))


documents = st.text(alphabet=st.sampled_from("ab \t\n\r\u2028\x0cé𝒳\0"), max_size=200) | st.text(max_size=60)
small_limits = st.builds(
    lambda step, extra, suffix, chars, tail: WindowLimits(step + extra, suffix, step, chars, tail),
    st.integers(1, 8),
    st.integers(0, 16),
    st.integers(0, 12),
    st.integers(1, 60),
    st.integers(0, 40),
)
places = st.tuples(st.integers(-3, 250), st.integers(-3, 250))


# ---- the window ----------------------------------------------------------------------------------------------------


@given(documents, places)
def test_an_unclipped_window_is_the_normalised_document(text, place):
    source = Lines(text)
    view = window(source, *place, WindowLimits(1000, 1000, 64, 10_000, 10_000))
    line = min(max(place[0], 0), source.line_count - 1)
    column = min(max(place[1], 0), len(source.lines[line].rstrip("\r\n")))
    assert (view.prefix, view.suffix) == source.around(line, column)
    assert (view.first_line, view.last_line) == (0, source.line_count - 1)
    assert (view.clipped_start, view.clipped_end, view.mid_line) == (False, False, False)


@given(documents, places, small_limits)
def test_any_window_is_the_document_next_to_the_cursor(text, place, limits):
    source = Lines(text)
    view = window(source, *place, limits)
    line = min(max(place[0], 0), source.line_count - 1)
    column = min(max(place[1], 0), len(source.lines[line].rstrip("\r\n")))
    before, after = source.around(line, column)
    assert before.endswith(view.prefix)
    assert after.startswith(view.suffix)
    assert len(view.prefix) <= limits.max_prefix_chars
    assert len(view.suffix) <= limits.max_suffix_chars
    assert view.clipped_start == (view.prefix != before)
    assert view.clipped_end == (view.suffix != after)
    assert view.first_line == before[: len(before) - len(view.prefix)].count("\n")
    assert view.mid_line == (view.clipped_start and before[: len(before) - len(view.prefix)][-1] != "\n")
    assert line <= view.last_line < source.line_count
    assert "\r" not in view.prefix + view.suffix
    assert view.newline in ("\n", "\r\n", "\r")


@given(st.integers(0, 400), st.integers(0, 400), st.integers(1, 40), st.integers(0, 80), st.integers(0, 60))
def test_edges_are_aligned_and_the_line_limits_hold(above, below, step, extra, suffix):
    limits = WindowLimits(step + extra, suffix, step, 10**6, 10**6)
    source = Lines("x\n" * above + "y" + "\nz" * below)
    view = window(source, above, 0, limits)
    assert view.first_line % step == 0
    kept_above = above - view.first_line + 1
    assert kept_above == above + 1 or limits.prefix_lines - step + 1 <= kept_above <= limits.prefix_lines
    kept_below = view.last_line - above
    assert (source.line_count - 1 - view.last_line) % step == 0 or kept_below == 0
    assert kept_below == below or max(0, suffix - step + 1) <= kept_below <= suffix


def test_an_empty_document_has_an_empty_window():
    class Nothing(Lines):
        line_count = 0

    view = window(Nothing(""), 5, 5)
    assert (view.prefix, view.suffix, view.clipped_start, view.clipped_end) == ("", "", False, False)


def test_line_ends_are_normalised_and_the_own_one_is_kept():
    view = window(Lines("a\r\nb\r\nc"), 2, 1)
    assert (view.prefix, view.newline) == ("a\nb\nc", "\r\n")
    assert window(Lines("a\rb"), 0, 1).newline == "\r"
    assert window(Lines("a"), 0, 1).newline == "\n"


def test_a_column_past_the_line_end_stays_before_it():
    view = window(Lines("ab\r\ncd"), 0, 3)
    assert (view.prefix, view.suffix) == ("ab", "\ncd")


def test_a_new_line_above_leaves_the_suffix_as_it_is():
    text = code(500).splitlines(keepends=True)
    suffixes = set()
    for added in range(100):
        doc = Lines("".join(text[:200]) + "    x = 1\n" * added + "    \n" + "".join(text[200:]))
        suffixes.add(window(doc, 200 + added, 4).suffix)
    assert len(suffixes) == 1


def test_scrolling_down_moves_the_start_once_a_step():
    doc = Lines(code(2000))
    starts = [window(doc, line, 0).first_line for line in range(2000)]
    assert starts == sorted(starts)
    moves = [b - a for a, b in pairwise(starts) if b != a]
    assert set(moves) == {64}
    assert len(moves) == (2000 - 256) // 64 + 1


def test_a_giant_line_moves_in_quarters_of_its_limit():
    limits = WindowLimits(max_prefix_chars=1000, max_suffix_chars=100)
    line = "".join(chr(ord("a") + i % 26) for i in range(20_000))
    starts = []
    for column in range(5000, 9000):
        view = window(Lines(line), 0, column, limits)
        assert view.mid_line
        assert 750 <= len(view.prefix) <= 1000
        assert len(view.suffix) == 100
        starts.append(column - len(view.prefix))
    assert {b - a for a, b in pairwise(starts)} == {0, 250}
    assert all(start % 250 == 0 for start in starts)


def test_a_minified_file_of_five_megabytes_is_cut_quickly():
    doc = Lines("x" * 5_000_000)
    for column in range(4_000_000, 4_000_050):
        assert len(window(doc, 0, column).prefix) <= 32768


@pytest.mark.parametrize(
    "numbers", [{"step": 0}, {"prefix_lines": 10, "step": 11}, {"suffix_lines": -1}, {"max_prefix_chars": 0}]
)
def test_impossible_limits_are_refused(numbers):
    with pytest.raises(ValueError, match=r"step|negative"):
        WindowLimits(**numbers)


# ---- fit -----------------------------------------------------------------------------------------------------------


def test_what_fits_is_tokenised_once():
    words = Words()
    fitted = fit(window(Lines(code(100)), 50, 4), words, 10_000, 10_000)
    assert len(words.calls) == 2
    assert (fitted.prefix_cut, fitted.suffix_cut, fitted.start) == ("none", "none", (0, 0))


@given(documents, places, small_limits, st.integers(-1, 40), st.integers(-1, 40))
def test_budgets_hold_and_what_is_kept_touches_the_cursor(text, place, limits, budget_prefix, budget_suffix):
    words = Words()
    view = window(Lines(text), *place, limits)
    fitted = fit(view, words, budget_prefix, budget_suffix)
    assert len(fitted.prefix_ids) <= max(budget_prefix, 0)
    assert len(fitted.suffix_ids) <= max(budget_suffix, 0)
    assert view.prefix.endswith(words.text(fitted.prefix_ids))
    assert view.suffix.startswith(words.text(fitted.suffix_ids))
    assert (fitted.prefix_cut == "none") == (words.text(fitted.prefix_ids) == view.prefix)
    assert (fitted.suffix_cut == "none") == (words.text(fitted.suffix_ids) == view.suffix)


@given(st.integers(0, 600), st.integers(20, 3000))
def test_a_cut_leaves_at_least_half_of_the_budget(line, budget):
    words = Words()
    fitted = fit(window(Lines(code(600)), line, 0), words, budget, budget)
    if fitted.prefix_cut != "none":
        assert len(fitted.prefix_ids) >= budget // 2
    if fitted.prefix_cut == "lines":
        assert fitted.first_line % 16 == 0
    if fitted.suffix_cut != "none":
        assert len(fitted.suffix_ids) >= budget // 2


# Half of the default sizes: the property is the same, and the toy tokenizer is slow.
TYPING = WindowLimits(prefix_lines=128, suffix_lines=64, step=32, max_prefix_chars=8192)


def typed(words: Words, before: str, text: str, budget: int, after: str = "") -> int:
    """Type a text key by key; return how often the start moved. Between moves, every prompt continues the former."""
    moves, last_start, last_text = 0, None, ""
    doc, above, below = Lines(""), Lines(before).lines, Lines(after).lines
    for length in range(len(text) + 1):
        here = Lines(above[-1] + text[:length]).lines
        doc.lines = [*above[:-1], *here[:-1], here[-1] + below[0], *below[1:]]
        view = window(doc, len(above) + len(here) - 2, len(here[-1]), TYPING)
        fitted = fit(view, words, budget, 200)
        kept = words.text(fitted.prefix_ids)
        assert len(fitted.prefix_ids) <= budget
        if (start := (fitted.start, view.first_line)) != last_start:
            moves += last_start is not None
        else:
            assert kept.startswith(last_text)
        last_start, last_text = start, kept
    return moves


TYPED = ("def handler(request, ledger):\n    total = sum(request)\n\n    return total\n" * 40)[:2000]


@pytest.mark.parametrize("budget", [10_000, 1000, 400])
def test_typing_at_the_end_of_a_long_file_seldom_moves_the_start(budget):
    words = Words()
    tokens = len(words(TYPED))
    moves = typed(words, code(1000), TYPED, budget)
    # At most two for each window step, and two for each quarter of the budget.
    assert moves <= 2 * (TYPED.count("\n") // TYPING.step + 1) + 2 * (tokens // (budget // 4) + 1)
    assert moves <= 20


def test_typing_in_the_middle_of_a_long_file_seldom_moves_the_start():
    assert typed(Words(), code(700), TYPED[:600], 800, after="\n" + code(300)) <= 8


def test_typing_in_a_giant_line_seldom_moves_the_start():
    assert typed(Words(), "var a=1;" * 5000, "b=c+d;" * 100, 400) <= 10


def test_suffix_tokens_stay_while_typing_above_them():
    words, rest = Words(), code(300)
    seen = set()
    for length in range(300):
        head = code(100) + TYPED[:length]
        view = window(Lines(head + "\n" + rest), head.count("\n"), len(head) - head.rfind("\n") - 1)
        seen.add(fit(view, words, 500, 100).suffix_ids)
    assert len(seen) == 1


def test_a_form_feed_is_no_line_end():
    view = Window("a\x0cb\u2028c\n" * 40 + "d", "", 0, 40, False, False, step=4)
    fitted = fit(view, Words(), 100, 0)
    assert fitted.prefix_cut == "lines"
    assert fitted.first_line == 40 - (len(fitted.prefix_ids) - 1) // 6


# ---- binary --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["PK\x03\x04\0\0", "\ufffd" * 20, "\x01\x02\x03abc", "a" * 1000 + "\0"])
def test_binary_content_is_seen(text):
    assert looks_binary(text)


@pytest.mark.parametrize("text", ["", "def f():\n\treturn 1\r\n", "\x0c\nélan 𝒳 日本", "\x1b[31mred\x1b[0m"])
def test_text_is_no_binary(text):
    assert not looks_binary(text)
