"""What a suite's task is asked as, and what of a reply counts."""

from __future__ import annotations

import pytest
from warmline.evaluation.run import Reply
from warmline.variant import Reasoning
from warmline_server.acp.options import describe_row
from warmline_server.answering import thought_apart
from warmline_server.listing import Row

IDENTITY = "sha256:" + "1" * 64


@pytest.mark.parametrize(
    ("text", "marks", "shown", "whole"),
    [
        ("<think>3 + 4</think>\n\n7", Reasoning(), "7", True),
        (" <think>x</think>7", Reasoning(), "7", True),
        ("3 + 4</think>7", Reasoning(prompted=True), "7", True),
        ("7", Reasoning(), None, False),
        ("<think>never closed", Reasoning(), None, False),
        ("<think>x</think>", Reasoning(), "", False),
        ("<think>x</think>7 <think>y</think>", Reasoning(), "7 <think>y</think>", False),
        ("it is <think>x</think>7", Reasoning(), "7", False),
        ("3 + 4</think>7", Reasoning(), "7", False),
        ("[T]x[/T]7", Reasoning(open="[T]", close="[/T]"), "7", True),
        ("<think>x</think>7", None, "<think>x</think>7", False),
    ],
)
def test_thoughts_are_apart_from_the_answer(text: str, marks: Reasoning | None, shown: str | None, whole: bool) -> None:
    found = thought_apart(Reply(text, IDENTITY, 1.0), marks)
    assert (found.text, found.well_formed) == (shown, whole)


def test_the_agents_choice_says_how_a_variant_stands() -> None:
    row = Row(found=None, selected=True, base="qwen", base_trust="user", certificate="void: scale changed")  # type: ignore[arg-type]
    assert describe_row(row).endswith("certificate: void: scale changed")
