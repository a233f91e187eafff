"""Medians, quartiles, and ratios to the base that are taken round by round."""

from __future__ import annotations

import pytest
from bench_reports import label, report, run, runs
from warmline.benchmark.machine import busy
from warmline.benchmark.report import Report, Spread, measured
from warmline.benchmark.words import machine_words, number, titles, within


def test_a_spread_has_the_quartiles_of_what_was_seen() -> None:
    assert Spread.of([5, 1, 2, 4, 3]) == Spread(median=3, lower=2, upper=4, least=1, most=5, count=5)
    assert Spread.of([1, 2]) == Spread(median=1.5, lower=1.25, upper=1.75, least=1, most=2, count=2)
    assert Spread.of([7]) == Spread(median=7, lower=7, upper=7, least=7, most=7, count=1)


def test_a_slowdown_is_taken_round_by_round() -> None:
    # Its medians alone would say 2 / 1: what slowed both in one round is no matter of the adapter.
    base, variant = label("tiny"), label("acme", "dynamic")
    found = measured(variant, runs(1.5, 6, 2), (base, runs(1, 4, 1)), ()).slowdown
    assert found is not None
    assert (found.decode.median, found.decode.least, found.decode.most) == (1.5, 1.5, 2)
    assert found.prefill == found.cold_first == found.warm_first == found.load == found.decode


def test_a_round_that_only_one_of_them_had_is_left_out() -> None:
    base, variant = label("tiny"), label("acme", "dynamic")
    found = measured(variant, [run(0, 3.0), run(1, 9.0)], (base, [run(0, 1.5)]), ())
    assert found.slowdown is not None
    assert (found.slowdown.decode.median, found.slowdown.decode.count) == (2, 1)
    assert found.summary is not None
    assert found.summary.load_ms.count == 2
    assert measured(variant, [run(1)], (base, [run(0)]), ()).slowdown is None


def test_what_did_not_run_has_no_figures() -> None:
    found = measured(label("acme", "dynamic"), [], (label("tiny"), runs(1)), ())
    assert (found.summary, found.slowdown) == (None, None)


def test_a_report_survives_its_json() -> None:
    before = report()
    again = Report.model_validate_json(before.model_dump_json())
    assert again == before
    assert again.schema_version == 1


def test_a_reader_can_refuse_a_report_of_another_schema() -> None:
    with pytest.raises(ValueError, match="surprise"):
        Report.model_validate(report().model_dump() | {"surprise": 1})


def test_no_two_variants_have_one_name() -> None:
    one, other = label("tiny", identity="sha256:aaaaaa1"), label("tiny", identity="sha256:aaaaaa2")
    third = label("acme", "dynamic")
    variants = tuple(measured(each, [], None, ()) for each in (one, third))
    assert list(titles(report(variants=variants)).values()) == ["tiny (base)", "acme (dynamic)"]
    variants = tuple(measured(each, [], None, ()) for each in (one, label("tiny", backend="openvino")))
    assert list(titles(report(variants=variants)).values()) == ["tiny (base, llama.cpp)", "tiny (base, openvino)"]
    variants = tuple(measured(each, [], None, ()) for each in (one, other.model_copy(update={"identity": "sha256:b"})))
    assert list(titles(report(variants=variants)).values()) == ["tiny (base) aaaaaa", "tiny (base) b"]


def test_numbers_have_three_digits() -> None:
    assert [number(each) for each in (0.123, 1.2345, 12.345, 123.45, 12345.6)] == [
        "0.12",
        "1.23",
        "12.3",
        "123",
        "12,346",
    ]
    assert within(Spread.of([1, 2, 3])) == "2.00 (1.50-2.50)"


def test_the_machine_is_described() -> None:
    words = " ".join(machine_words(report()))
    assert "A CPU (x86_64), 4 physical, 8 logical cores, 1 thread used, 17.2 GB memory" in words
    assert "3 rounds in turn, 512 tokens read, 64 written" in words


def test_a_busy_machine_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    assert busy(1.9, 3.0, own_threads=3) is None
    assert "when the bench began: load 2.1 on 8 cores" in str(busy(2.1, 3.0, own_threads=3))
    assert "load 5.5, of which 3 is its own" in str(busy(1.9, 5.5, own_threads=3))
    assert busy(None, None, own_threads=3) is None
