"""Scores, intervals and thresholds: what is said of a variant is what its answers say."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from warmline.evaluation.intervals import difference, interval
from warmline.evaluation.metrics import compare
from warmline.evaluation.reading import Suite
from warmline.evaluation.rows import Row
from warmline.evaluation.summary import summarise
from warmline.evaluation.tasks import Expect, Header, Hole, Threshold


@pytest.mark.parametrize(
    ("text", "wanted", "expected"),
    [
        ("return a", "return a", (1.0, 1.0, 1.0)),
        ("return a  ", "return a\nmore", (1.0, 1.0, 8 / 10)),
        ("return b", "return a", (0.0, 0.875, 7 / 8)),
        ("x", "return a", (0.0, 0.0, 0.0)),
        ("return a\nnoise", "return a\nmore", (1.0, 1.0, 9 / 14)),
    ],
)
def test_scores(text: str, wanted: str, expected: tuple[float, float, float]) -> None:
    found = compare(text, wanted)
    assert (found["first_line_exact"], found["edit_similarity"], found["kept_rate"]) == pytest.approx(expected)
    assert found["shown"] == 1


@pytest.mark.parametrize("nothing", [None, ""])
def test_nothing_shown_scores_nothing_and_is_not_kept_or_lost(nothing: str | None) -> None:
    assert compare(nothing, "x") == {"first_line_exact": 0.0, "edit_similarity": 0.0, "shown": 0.0}


def test_expectations() -> None:
    expect = Expect(contains=("Paris",), absent=("london",), any_of=("it ", "was"), max_chars=20)
    assert expect.holds("It is PARIS.")
    assert not expect.holds("It is Paris, not London.")
    assert not expect.holds("Paris")
    assert not expect.holds("It is Paris, the capital of France.")
    assert not Expect(absent=("x",)).holds("  ")


def test_an_interval_covers_what_it_should() -> None:
    """Of many samples of a known mean, about 95 of 100 intervals hold it."""
    chance = np.random.default_rng(3)
    held = 0
    for number in range(200):
        found = interval([float(each) for each in chance.random(100) < 0.3], number)
        assert found is not None
        held += found.low <= 0.3 <= found.high
    assert 0.88 <= held / 200 <= 0.99


def test_pairing_finds_what_two_intervals_do_not() -> None:
    """A small gain on every task drowns in the spread between tasks, unless the two are paired."""
    chance = np.random.default_rng(1)
    base = [float(each) for each in chance.random(60)]
    better = [each + 0.02 for each in base]
    one, other, paired = interval(better, 1), interval(base, 1), difference(better, base, 1)
    assert one is not None
    assert other is not None
    assert paired is not None
    assert one.low < other.high
    assert paired.value == pytest.approx(0.02)
    assert 0 < paired.low <= paired.high < 0.03


def test_a_difference_without_cause_is_not_called_one() -> None:
    chance = np.random.default_rng(2)
    excluded = 0
    for number in range(100):
        one, other = ([float(each) for each in chance.random(50) < 0.4] for _ in range(2))
        found = difference(one, other, number)
        assert found is not None
        excluded += not found.low <= 0 <= found.high
    assert excluded <= 12


values = st.lists(st.one_of(st.none(), st.floats(-1e6, 1e6)), min_size=1, max_size=30)


@settings(max_examples=60, deadline=None)
@given(values, st.booleans())
def test_an_interval_is_deterministic_and_in_order(data: list[float | None], median: bool) -> None:
    found = interval(data, 7, median=median)
    assert found == interval(data, 7, median=median)
    present = [each for each in data if each is not None]
    if not present:
        assert found is None
        return
    assert found is not None
    middle = float(np.median(present)) if median else math.fsum(present) / len(present)
    assert found.value == pytest.approx(middle, rel=1e-6, abs=1e-4)
    assert found.low <= found.high
    assert min(present) - 1e-5 <= found.low
    assert found.high <= max(present) + 1e-5
    assert found.n == len(present)


def suite_of(*thresholds: Threshold, tasks: int = 20) -> Suite:
    header = Header(schema_version=1, name="s", kind="holes", thresholds=thresholds)
    return Suite(
        header, tuple(Hole(id=f"t{n}", before="a", wanted="b") for n in range(tasks)), "sha256:" + "0" * 64, ""
    )


def rows_of(variant: float, against: float | None = None, tasks: int = 20) -> list[Row]:
    rows = [Row(side="variant", task=f"t{n}", scores={"edit_similarity": variant}) for n in range(tasks)]
    if against is not None:
        rows += [Row(side="against", task=f"t{n}", scores={"edit_similarity": against}) for n in range(tasks)]
    return rows


@pytest.mark.parametrize(
    ("threshold", "variant", "against", "met"),
    [
        (Threshold(metric="edit_similarity", at_least=0.5), 0.5, None, True),
        (Threshold(metric="edit_similarity", at_least=0.5), 0.49, None, False),
        (Threshold(metric="edit_similarity", at_most=0.5), 0.51, None, False),
        (Threshold(metric="edit_similarity", over_base=0), 0.6, 0.5, True),
        (Threshold(metric="edit_similarity", over_base=0), 0.5, 0.5, False),
        (Threshold(metric="edit_similarity", over_base=-0.1), 0.45, 0.5, True),
        (Threshold(metric="edit_similarity", over_base=0), 0.6, None, False),
        (Threshold(metric="pass_at_1", at_least=0), 0.6, None, False),
    ],
)
def test_thresholds(threshold: Threshold, variant: float, against: float | None, met: bool) -> None:
    report = summarise(suite_of(threshold), rows_of(variant, against), has_adapters=True)
    assert report.passed is met
    assert threshold.metric in report.verdicts[0].reason


def test_a_base_is_not_held_to_be_better_than_itself() -> None:
    thresholds = Threshold(metric="edit_similarity", over_base=0), Threshold(metric="edit_similarity", at_least=0.1)
    report = summarise(suite_of(*thresholds), rows_of(0.5), has_adapters=False)
    assert [each.threshold for each in report.verdicts] == [thresholds[1]]
