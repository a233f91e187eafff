"""Thoughts are parted from answers, however the stream is cut."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from warmline.variant import Reasoning
from warmline_server.thoughts import Thoughts, parted

USUAL, BEGUN, ODD = Reasoning(), Reasoning(prompted=True), Reasoning(open="<<", close="aab")
TEXTS = st.lists(
    st.sampled_from(["<think>", "</think>", "<th", "</", "ink>", " ", "\n", "x", "<<", "<", "a", "aab", "b", "é"]),
    max_size=12,
).map("".join)


@pytest.mark.parametrize(
    ("text", "reasoning", "thought", "answer"),
    [
        ("<think>\nhm\n</think>\n\nyes", USUAL, "hm\n", "yes"),
        ("\n <think>hm</think>yes", USUAL, "hm", "yes"),
        ("yes, <think>no</think>", USUAL, "", "yes, <think>no</think>"),
        ("<think></think>\n\nyes", USUAL, "", "yes"),
        ("<think>never ends </thi", USUAL, "never ends </thi", ""),
        ("<thi", USUAL, "", "<thi"),
        ("  yes", USUAL, "", "  yes"),
        ("hm\n</think>yes </think>", BEGUN, "hm\n", "yes </think>"),
        ("<think>hm</think>yes", BEGUN, "hm", "yes"),
        ("<< aaab c", ODD, "a", "c"),
        ("<think>hm</think>yes", None, "", "<think>hm</think>yes"),
        ("", USUAL, "", ""),
    ],
)
def test_what_is_a_thought(text: str, reasoning: Reasoning | None, thought: str, answer: str) -> None:
    assert parted(text, reasoning) == (thought, answer)


@settings(deadline=None)  # the machine may be busy
@given(TEXTS, st.sampled_from([USUAL, BEGUN, ODD, None]), st.data())
def test_any_cut_gives_the_same(text: str, reasoning: Reasoning | None, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    thoughts = Thoughts(reasoning)
    parts = []
    for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True):
        found = thoughts.feed(text[start:end])
        assert all(part.text for part in found)
        parts += found
    parts += thoughts.finish()
    joined = tuple("".join(part.text for part in parts if part.thought is kind) for kind in (True, False))
    assert joined == parted(text, reasoning)
    kinds = [part.thought for part in parts]
    assert kinds == sorted(kinds, reverse=True), "a thought came after the answer began"


@settings(deadline=None)  # the machine may be busy
@given(TEXTS)
def test_without_a_declared_format_nothing_is_taken_away(text: str) -> None:
    assert parted(text, None) == ("", text)
