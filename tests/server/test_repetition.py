"""A text that goes round in circles is told from one that has equal lines."""

from __future__ import annotations

import pytest
from warmline_server.repetition import circles

PARAGRAPH = "The ledger is written by the clerk, who is asked by the owner of the ledger, who asks the clerk. "
TABLE = "".join(f"| {n} | yes |\n" for n in range(40))


@pytest.mark.parametrize(
    "text",
    ["Hello. " + " amen.\n" * 14, "ha " * 40, PARAGRAPH * 6, "Begin: " + "0, " * 140, "-" * 400],
    ids=["lines", "words", "paragraphs", "numbers", "rule"],
)
def test_a_loop(text: str) -> None:
    assert circles(text)


@pytest.mark.parametrize(
    "text",
    ["", "Amen.\n" * 5, PARAGRAPH * 5, TABLE, "<td></td>\n" * 9, "0 0 0 0 0 0 0 0\n" * 8, "-" * 120, "ha " * 40 + "so"],
    ids=["nothing", "a refrain", "paragraphs", "a table", "empty cells", "zeros", "a rule", "left again"],
)
def test_no_loop(text: str) -> None:
    assert not circles(text)


def test_it_is_told_while_it_streams_soon_after_it_began() -> None:
    text, told = "A prayer:\n", 0
    while not circles(text):
        text += " amen.\n"
        told += 1
    assert told == 14
