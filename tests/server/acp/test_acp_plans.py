"""Plans: an answer's text appears as it is decoded, whatever the pieces; nothing else ever does."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from warmline_server.acp.formats import NEUTRAL
from warmline_server.acp.formats.answer_text import AnswerText
from warmline_server.acp.plans import Answer, BadPlan, ToolCall


@given(st.text(), st.integers(1, 7), st.booleans())
def test_an_answer_is_found_whole_however_it_is_cut(text: str, step: int, ascii_only: bool) -> None:
    raw = json.dumps({"answer": text}, ensure_ascii=ascii_only)
    found = AnswerText()
    said = [found.feed(raw[at : at + step]) for at in range(0, len(raw), step)]
    assert "".join(said) == text
    assert NEUTRAL.parse(raw) == Answer(text)


@given(st.text(st.characters(), max_size=20))
def test_what_was_said_is_what_is_parsed_also_with_halves_of_characters(text: str) -> None:
    raw = json.dumps({"answer": text + "\ud83d"})
    found = AnswerText()
    assert Answer("".join(map(found.feed, raw))) == NEUTRAL.parse(raw)


@pytest.mark.parametrize(
    "raw",
    [
        '{"tool": "read_file", "arguments": {"path": "answer"}}',
        '{"tool": "x", "answer": "no"}',
        'text {"answer": "no"}',
        '["answer", "no"]',
        '{"arguments": {"answer": "no"}}',
    ],
)
def test_nothing_else_is_shown(raw: str) -> None:
    found = AnswerText()
    assert "".join(map(found.feed, raw)) == ""


def test_text_after_the_answer_is_not_shown() -> None:
    found = AnswerText()
    assert found.feed('{"answer": "yes", "tool": "x"} {"answer": "no"}') == "yes"


@pytest.mark.parametrize(
    "raw",
    [
        *("", "{", "[]", "null", '{"answer": 1}', '{"answer": "a", "tool": "b"}', '{"tool": 1, "arguments": {}}'),
        *("{}", '{"tool": "a", "arguments": []}', '{"answer": "a"} x', '{"answer": "a", "answer": "b"}', "[" * 5000),
    ],
)
def test_what_is_no_plan(raw: str) -> None:
    with pytest.raises(BadPlan):
        NEUTRAL.parse(raw)


def test_a_call() -> None:
    assert NEUTRAL.parse('{"tool": "a", "arguments": {"n": 1}}') == ToolCall("a", {"n": 1})
    assert NEUTRAL.parse(NEUTRAL.said(Answer('a "quoted"\nline'), None).content) == Answer('a "quoted"\nline')
