"""Taking turns: the order changes, an identity is measured once, and what was measured before a fault is kept."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from bench_reports import label, run
from warmline.benchmark import machine
from warmline.benchmark.job import Answer, Job
from warmline.benchmark.report import Report
from warmline.benchmark.rounds import Settings, bench
from warmline.benchmark.subjects import Subject
from warmline.errors import BackendError, WarmlineError
from warmline.variant import Profile, ResolvedBase, ResolvedVariant


def subject(name: str, base: int | None = None) -> Subject:
    found = ResolvedBase(name=name, path=Path(name))
    return Subject(
        ResolvedVariant(name=name, backend="llama", base=found, adapters=(), profile=Profile(), file=name), base
    )


SUBJECTS = [subject("tiny"), subject("acme", 0), subject("baked", 0)]


class Worker:
    """Answers as a process would; `fault` is asked before each measurement."""

    def __init__(self, fault: Callable[[Job], None] = lambda job: None) -> None:
        self.jobs: list[Job] = []
        self.fault = fault

    def __call__(self, job: Job) -> Answer:
        self.jobs.append(job)
        if job.task == "check":
            return Answer(label=label("tiny" if job.variant.name == "twin" else job.variant.name))
        self.fault(job)
        return Answer(run=run(job.round, 2.0 if job.variant.name == "acme" else 1.0))

    @property
    def measured(self) -> list[str]:
        return [job.variant.name for job in self.jobs if job.task == "measure"]


def ran(worker: Worker, rounds: int = 3, subjects: list[Subject] = SUBJECTS) -> Report:
    return bench(subjects, Settings(rounds, 100, 10), Path("home"), lambda *_: None, worker=worker)


def test_all_take_turns_and_none_is_always_first() -> None:
    worker = Worker()
    report = ran(worker)
    assert [job.task for job in worker.jobs[:3]] == ["check"] * 3
    assert worker.measured == ["tiny", "acme", "baked", "acme", "baked", "tiny", "baked", "tiny", "acme"]
    assert {(job.prompt_tokens, job.decode_tokens) for job in worker.jobs} == {(100, 10)}
    assert [[each.round for each in one.runs] for one in report.variants] == [[0, 1, 2]] * 3
    assert report.partial is None


def test_each_is_compared_with_its_base() -> None:
    base, acme, baked = ran(Worker()).variants
    assert (base.compared_with, base.slowdown) == (None, None)
    assert acme.compared_with == baked.compared_with == base.label.identity
    assert acme.slowdown is not None
    assert baked.slowdown is not None
    assert (acme.slowdown.decode.median, baked.slowdown.decode.median) == (2, 1)


def test_one_identity_is_measured_once_whatever_its_names() -> None:
    worker = Worker()
    report = ran(worker, 1, [subject("tiny"), subject("acme", 0), subject("twin"), subject("baked", 2)])
    assert worker.measured == ["tiny", "acme", "baked"]
    assert {each.compared_with for each in report.variants[1:]} == {report.variants[0].label.identity}


def test_progress_counts_to_the_end() -> None:
    seen: list[tuple[str, int, int]] = []
    bench(SUBJECTS[:2], Settings(2, 100, 10), Path("home"), lambda *all_: seen.append(all_), worker=Worker())
    assert [done for _, done, _ in seen] == list(range(6))
    assert {total for _, _, total in seen} == {6}
    assert seen[2][0] == "tiny, round 1 of 2"


def test_an_interrupt_keeps_what_was_measured() -> None:
    def fault(job: Job) -> None:
        if (job.variant.name, job.round) == ("baked", 1):
            raise KeyboardInterrupt

    report = ran(Worker(fault))
    assert report.partial is not None
    assert report.partial.code == "bench.interrupted"
    assert [len(each.runs) for each in report.variants] == [1, 2, 1]
    assert report.variants[1].slowdown is not None
    assert report.variants[1].slowdown.decode.count == 1


def test_an_interrupt_before_anything_was_measured_leaves_nothing() -> None:
    def fault(job: Job) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ran(Worker(fault))


def test_a_variant_that_fails_in_the_middle_leaves_a_partial_report() -> None:
    def fault(job: Job) -> None:
        if (job.variant.name, job.round) == ("acme", 1):
            raise BackendError("it burns", code="backend.decode", file="/secret/place.json", remedy="Put it out")

    report = ran(Worker(fault))
    assert report.partial is not None
    assert (report.partial.code, report.partial.message) == ("backend.decode", "it burns")
    assert "/secret" not in report.model_dump_json()
    assert [len(each.runs) for each in report.variants] == [1, 1, 1]


def test_one_that_fails_at_once_is_an_error() -> None:
    def fault(job: Job) -> None:
        raise BackendError("it burns", code="backend.decode")

    with pytest.raises(BackendError, match="burns"):
        ran(Worker(fault))


def test_nothing_is_measured_when_one_cannot_be_used() -> None:
    class Refusing(Worker):
        def __call__(self, job: Job) -> Answer:
            if job.variant.name == "baked":
                raise WarmlineError("no such file", code="artifact.missing")
            return super().__call__(job)

    worker = Refusing()
    with pytest.raises(WarmlineError, match="no such file"):
        ran(worker)
    assert worker.measured == []


def test_a_busy_machine_is_in_the_report(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "load", lambda: 99.0)
    report = ran(Worker(), 1)
    assert (report.machine.load_at_start, report.machine.load_at_end) == (99, 99)
    assert "busy when the bench began" in report.warnings[0]
