"""When the model is asked, and for how much: the typing rhythm, one line or several; and which guesses are too weak."""

from __future__ import annotations

import pytest
from pydantic import ValidationError
from warmline_server.suggest import Context
from warmline_server.suggest.confidence import is_weak
from warmline_server.suggest.extent import wants_lines
from warmline_server.suggest.rhythm import Rhythm
from warmline_server.suggest.settings import SuggestSettings

from .drawing import parse
from .golden import GOLDEN


def typing(every: float, answer: float | None) -> tuple[Rhythm, float]:
    """Give the rhythm after twenty keys, and the time of the last one."""
    rhythm, now = Rhythm(), 0.0
    for _ in range(20):
        now += every
        rhythm.typed(now)
    if answer is not None:
        rhythm.answered(answer)
    return rhythm, now


def test_nothing_is_waited_for_before_anything_is_known() -> None:
    assert Rhythm().wait(0.0, 0.3) == 0.0
    assert typing(0.1, None)[0].wait(2.0, 0.3) == 0.0


def test_an_answer_that_comes_before_the_next_key_is_asked_for_at_once() -> None:
    rhythm, now = typing(0.2, 0.05)
    assert rhythm.wait(now, 0.3) == 0.0


def test_an_answer_that_would_be_late_waits_until_the_next_key_fails_to_come() -> None:
    rhythm, now = typing(0.1, 0.5)
    assert rhythm.wait(now, 0.3) == pytest.approx(0.125)
    # What the editor itself waited counts.
    assert rhythm.wait(now + 0.1, 0.3) == pytest.approx(0.025)
    assert rhythm.wait(now + 0.2, 0.3) == 0.0


def test_the_setting_bounds_the_wait() -> None:
    rhythm, now = typing(0.6, 2.0)
    assert rhythm.wait(now, 0.3) == pytest.approx(0.3)
    assert rhythm.wait(now, 0.0) == 0.0


def test_a_pause_is_no_rhythm() -> None:
    rhythm, now = typing(0.1, 0.5)
    rhythm.typed(now + 60)
    assert rhythm.wait(now + 60, 0.3) == pytest.approx(0.125)


def test_how_fast_a_suggestion_is_typed_along_is_not_how_long_one_is_waited_for() -> None:
    rhythm, now = typing(0.6, 0.4)
    assert rhythm.wait(now, 0.3) == 0.0
    for _ in range(20):
        rhythm.had_one()
        now += 0.1
        rhythm.typed(now)
    assert rhythm.wait(now, 0.3) == 0.0
    for _ in range(20):  # the same keys without a suggestion
        now += 0.1
        rhythm.typed(now)
    assert rhythm.wait(now, 0.3) == pytest.approx(0.125, rel=0.1)


def test_the_first_answer_which_is_cold_is_not_the_usual_one() -> None:
    rhythm, now = typing(0.2, 20.0)
    assert rhythm.wait(now, 0.3) > 0.2
    rhythm.answered(0.1)
    assert rhythm.wait(now, 0.3) == 0.0
    # Nor is one that is cold again, later.
    for seconds in (0.1, 0.1, 20.0):
        rhythm.answered(seconds)
        assert rhythm.wait(now, 0.3) == 0.0


def test_answers_that_were_given_up_count_as_slow() -> None:
    rhythm, now = typing(0.1, None)
    rhythm.gave_up(0.1)
    assert rhythm.wait(now, 0.3) > 0.1
    for _ in range(20):
        rhythm.answered(0.02)
    assert rhythm.wait(now, 0.3) == 0.0


@pytest.mark.parametrize(
    ("drawing", "several"),
    [
        ("def f():\n    │\n", True),
        ("def f():│\n", True),
        ("x = call(│\n", True),
        ("x = call(│)\n", False),
        ("x = │\n", False),
        ("    return self.│\n", False),
        ("# a sentence │\n", False),
    ],
)
def test_several_lines_where_the_natural_end_is_further_down(drawing: str, several: bool) -> None:
    context, _ = parse(drawing)
    assert wants_lines(context, SuggestSettings(), explicit=False) is several
    assert wants_lines(context, SuggestSettings(), explicit=True)
    assert not wants_lines(context, SuggestSettings(lines="one"), explicit=True)
    assert wants_lines(context, SuggestSettings(lines="several"), explicit=False)


def test_a_brace_opens_a_block() -> None:
    assert wants_lines(Context("if (x) {", "\n}\n", "javascript"), SuggestSettings(), explicit=False)


@pytest.mark.parametrize(
    ("mean", "floor", "weak"), [(None, 0.9, False), (0.4, 0.5, True), (0.5, 0.5, False), (0.1, 0.0, False)]
)
def test_a_guess_below_the_floor_is_weak_and_one_of_unknown_probability_is_not(
    mean: float | None, floor: float, weak: bool
) -> None:
    assert is_weak(mean, floor) is weak


def test_each_number_has_its_unit_its_reason_and_its_bounds() -> None:
    numbers = {
        name: field
        for name, field in SuggestSettings.model_fields.items()
        if field.annotation in (int, float) and field.annotation is not bool
    }
    assert len(numbers) == 8
    for name, field in numbers.items():
        assert isinstance(field.json_schema_extra, dict)
        assert field.json_schema_extra["unit"] and field.json_schema_extra["reason"], name
        assert len(field.metadata) == 2, name
    assert all(field.description for field in SuggestSettings.model_fields.values())
    with pytest.raises(ValidationError):
        SuggestSettings(candidates=4)
    with pytest.raises(ValidationError):
        SuggestSettings.model_validate({"colour": "red"})


def test_every_filter_has_a_drawing() -> None:
    drawn = {reason for _, _, _, reason in GOLDEN.values()}
    assert drawn == {
        *("shown", "stop", "degenerate", "prose", "fence", "repeats-above", "repeats-suffix", "repeats-closer"),
        *("unbalanced", "repeats-lines", "block-end", "blank-lines", "whitespace"),
    }
