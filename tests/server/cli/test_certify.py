"""`warmline certify` around a measurement that is handed in: what is written, compared and returned."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from certificate_tools import IDENTITY, label, suite_report
from warmline.benchmark.machine import describe
from warmline.certificate_store import Certificates
from warmline.certificates import read_certificate
from warmline.evaluation.report import Report
from warmline.host.wire import BackendStatus, BaseStatus, ContextStatus, VariantStatus
from warmline_server.cli import evaluating
from warmline_server.cli.app import run

BASE = "sha256:" + "b" * 64
HEADER = {"schema": 1, "name": "style", "kind": "style", "thresholds": [{"metric": "edit_similarity", "at_least": 0.2}]}
TASK = {"id": "one", "before": "def f(", "after": "def f(a):"}


class Bench:
    """What an evaluation will find."""

    def __init__(self) -> None:
        self.value = 0.5
        self.met = True
        self.plans: list[evaluating.Plan] = []

    async def evaluate(self, _output: Any, _home: Path, plan: evaluating.Plan) -> Any:
        self.plans.append(plan)
        (suite,) = plan.suites
        report = Report(
            variant=label("acme", IDENTITY, BASE, []),
            against=None,
            made_at="2026-01-01T00:00:00+00:00",
            machine=describe(),
            suites=(suite_report(self.value, met=self.met, digest=suite.digest),),
        )
        status = VariantStatus(
            variant="acme",
            identity=IDENTITY,
            base=BaseStatus(name="base", digest=BASE),
            adapters=(),
            backend=BackendStatus(name="llama.cpp", version="1"),
            context=ContextStatus(n_ctx=4096, clamped=False),
            fim="",
            template="",
            bos="",
        )
        return report, status, []


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    found = Bench()
    monkeypatch.setattr(evaluating, "evaluate", found.evaluate)
    return found


@pytest.fixture
def workspace(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "workspace"
    variants = folder / ".warmline" / "variants"
    variants.mkdir(parents=True)
    (folder / ".warmline" / "config.json").write_text('{"variant": "acme"}')
    (folder / "base.gguf").write_bytes(b"never read")
    profile = {"claims": ["completion"]}
    acme = {"name": "acme", "base": {"path": "../../base.gguf"}, "profile": profile}
    (variants / "acme.json").write_text(json.dumps(acme))
    (folder / "style.jsonl").write_text("".join(json.dumps(line) + "\n" for line in (HEADER, TASK)))
    monkeypatch.chdir(folder)
    return folder


def certify(*more: str) -> int:
    return run(["certify", "acme", "--suite", "style.jsonl", *more])


def test_a_pass_is_kept_and_a_failure_too(
    bench: Bench, workspace: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert certify("--output", "acme.cert.json") == 0
    assert "is certified: completion" in capsys.readouterr().out
    kept = Certificates(home).of(IDENTITY)
    assert kept is not None
    assert kept == read_certificate(workspace / "acme.cert.json")
    assert (kept.passed, kept.claims, dict(kept.subject)["base.digest"]) == (True, ("completion",), BASE)
    assert bench.plans[0].against is None  # it has no adapters: it is its base
    bench.met = False
    assert certify("--json") == 1
    assert not json.loads(capsys.readouterr().out)["passed"]
    kept = Certificates(home).of(IDENTITY)
    assert kept is not None
    assert not kept.passed


def test_check_compares_and_writes_nothing(
    bench: Bench, workspace: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert certify() == 0
    before = Certificates(home).path(IDENTITY).read_bytes()
    assert certify("--check") == 0
    capsys.readouterr()
    bench.value = 0.3
    assert certify("--check") == 1
    assert "worse: style: edit_similarity is 0.300, it was 0.500" in capsys.readouterr().out
    assert certify("--check", "--json") == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["passed"], len(found["reasons"])) == (False, 1)
    assert Certificates(home).path(IDENTITY).read_bytes() == before
    (workspace / "style.jsonl").write_text("".join(json.dumps(x) + "\n" for x in (HEADER | {"seed": 2}, TASK)))
    measured = len(bench.plans)
    assert certify("--check", "--json") == 1
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "certificate.suite"
    assert len(bench.plans) == measured  # refused before anything was asked


@pytest.mark.parametrize(
    "options",
    [("--last", "a.json"), ("--check", "--output", "a.json"), ("--output", "no/such/a.json"), ("--output", ".")],
    ids=["compared with nothing", "written nowhere", "no folder", "a folder"],
)
def test_no_option_is_left_out_in_silence(
    bench: Bench, workspace: Path, home: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...]
) -> None:
    """Without `--check`, `--last` would let a worse variant pass in CI; hours are not to end in a missing folder."""
    assert certify("--json", *options) == 2
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "usage"
    assert bench.plans == []
    assert Certificates(home).of(IDENTITY) is None
