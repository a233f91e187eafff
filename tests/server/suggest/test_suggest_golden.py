"""Golden suggestions: each drawing is the document with what may be inserted, from the raw text beside it."""

from typing import Any

import pytest
from warmline_server.suggest import Context, suggest

from .drawing import draw, parse
from .golden import CASES, GOLDEN


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_what_users_complained_of_is_not_shown(case: dict[str, Any]) -> None:
    context = Context(case["before"], case["after"], case["language"])
    assert suggest(context, case["raw"]).text == case["show"]


@pytest.mark.parametrize("name", GOLDEN)
def test_the_drawing_is_what_is_shown(name: str) -> None:
    language, drawing, raw, reason = GOLDEN[name]
    context, _ = parse(drawing, language)
    suggestion = suggest(context, raw)
    assert draw(context, suggestion) == drawing
    assert suggestion.reason == reason


def test_one_line_when_several_are_not_wanted() -> None:
    context, inserted = parse("x = │⟦1⟧\n")
    assert suggest(context, "1\ny = 2\n", multiline=False).text == inserted


def test_a_stop_of_the_profile_ends_the_text() -> None:
    context = Context("x = ", "\n", "python", stops=("\n\n", "# END"))
    assert suggest(context, "1\ny = 2\r\n\r\nz = 3").text == "1\ny = 2"
    assert suggest(context, "1 # END # more").text == "1"


def test_a_mixed_document_gets_the_line_end_it_uses_most() -> None:
    context = Context("a = 1\r\nb = 2\r\nc = 3\nif a:\r\n    ", "", "python")
    assert suggest(context, "d()\n    e()").text == "d()\r\n    e()"


@pytest.mark.parametrize("drawing", ["no cursor", "two│cursors│", "x│⟦open"])
def test_a_drawing_that_says_nothing_is_refused(drawing: str) -> None:
    with pytest.raises(ValueError, match=r"cursor|insertion"):
        parse(drawing)


def test_a_drawing_reads_as_it_is_drawn() -> None:
    context, inserted = parse("f(│⟦a,\n  b⟧)\n")
    assert (context.before, inserted, context.after) == ("f(", "a,\n  b", ")\n")
