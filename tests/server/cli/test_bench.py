"""`warmline bench`: what is asked for stands beside its base and its merged model, and what was measured is kept."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_backend import write_base
from smollm2 import ACME, PACKAGE
from store_tools import acme, filled
from warmline.benchmark import process
from warmline.benchmark.report import Report
from warmline.host.paths import host_paths
from warmline.registry import Store
from warmline_server.cli.app import run

Run = Callable[..., Any]

# Answers as a worker would; what `{fault}` says comes before each measurement.
_WORKER = """
import os, signal, sys
sys.path.insert(0, {support!r})
from bench_reports import label, run
from warmline.benchmark.job import Answer, Job
from warmline.host.wire import ErrorInfo
job = Job.model_validate_json(sys.argv[1])
variant = job.variant
kind = "dynamic" if variant.adapters else "merged" if variant.base.merged_from else "base"
answer = Answer(label=label(variant.name, kind))
if job.task == "measure":
    answer = Answer(run=run(job.round, 3.0 if kind == "dynamic" else 2.0))
    {fault}
print(answer.model_dump_json())
"""
_INTERRUPT = "if (kind, job.round) == ('dynamic', 1): os.kill(os.getppid(), signal.SIGINT); import time; time.sleep(60)"
_FAIL = "if job.round == 1: answer = Answer(error=ErrorInfo(code='backend.decode', message='it burns'))"


@pytest.fixture
def store(home: Path, tmp_path: Path) -> Store:
    made = filled(home, tmp_path)
    made.add_model(write_base(tmp_path / "baked.gguf", weights=b"\x05"), "baked", merged_from="base+style")
    return made


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[[str], None]]:
    """Have jobs done by a script, and interrupts raised as in a terminal."""
    support = str(Path(__file__).resolve().parents[2] / "support")

    def use(fault: str = "pass") -> None:
        file = tmp_path / "worker.py"
        file.write_text(_WORKER.format(support=support, fault=fault))
        monkeypatch.setattr(process, "WORKER", (sys.executable, str(file)))

    monkeypatch.chdir(tmp_path)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield use
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_variant_is_shown_beside_its_base_and_its_merged_model(
    store: Store, worker: Callable[..., None], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    worker()
    page, data = tmp_path / "page.html", tmp_path / "data.json"
    assert run(["bench", "acme", "--runs", "2", "--html", str(page), "--output", str(data)]) == 0
    out = capsys.readouterr().out
    lines = out.splitlines()
    assert [line.split()[:2] for line in lines[1:4]] == [["base", "base"], ["acme", "dynamic"], ["baked", "merged"]]
    assert "style 555555555555 @ 0.5" in lines[2]
    assert "llama.cpp 1.2" in lines[2]
    assert "merged from base+style" in lines[3]
    ratios = lines[next(at for at, line in enumerate(lines) if line.startswith("times as long")) + 1 :]
    assert ratios[0].split()[:3] == ["acme", "(dynamic)", "1.50"]
    assert ratios[1].split()[:3] == ["baked", "(merged)", "1.00"]
    assert "PARTIAL" not in out
    assert "at work meanwhile" not in out
    report = Report.model_validate_json(data.read_text())
    assert [len(each.runs) for each in report.variants] == [2, 2, 2]
    assert report.variants[1].label.identity in page.read_text()


def test_json_is_the_report(store: Store, worker: Callable[..., None], capsys: pytest.CaptureFixture[str]) -> None:
    worker()
    assert run(["config", "set", "default-variant", "acme"]) == 0
    capsys.readouterr()
    assert run(["bench", "--runs", "1", "--prompt-tokens", "99", "--decode-tokens", "7", "--json"]) == 0
    report = Report.model_validate_json(capsys.readouterr().out)
    assert [each.label.name for each in report.variants] == ["base", "acme", "baked"]
    assert (report.rounds, report.prompt_tokens, report.decode_tokens) == (1, 99, 7)
    assert report.schema_version == 1


@pytest.mark.skipif(sys.platform == "win32", reason="a signal to this very process")
def test_an_interrupt_shows_what_was_measured(
    store: Store, worker: Callable[..., None], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    worker(_INTERRUPT)
    page = tmp_path / "page.html"
    assert run(["bench", "acme", "--runs", "9", "--html", str(page), "--json"]) == 130
    report = Report.model_validate_json(capsys.readouterr().out)
    assert report.partial is not None
    assert report.partial.code == "bench.interrupted"
    assert [len(each.runs) for each in report.variants] == [1, 1, 1]
    assert "Partial: interrupted" in page.read_text()


def test_a_fault_in_the_middle_shows_what_was_measured_and_fails(
    store: Store, worker: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    worker(_FAIL)
    assert run(["bench", "acme", "--runs", "2"]) == 1
    assert "PARTIAL: it burns; the figures below are of fewer rounds than 2" in capsys.readouterr().out


def test_an_engine_at_work_is_told(
    store: Store, worker: Callable[..., None], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    worker()

    async def at_work(paths: object) -> bool:
        return True

    monkeypatch.setattr("warmline.host.process.is_at_work", at_work)
    socket = host_paths(store.home).socket
    socket.touch()
    try:
        assert run(["bench", "acme", "--runs", "1"]) == 0
    finally:
        socket.unlink()
    assert "warning: the engine that serves editors was at work meanwhile" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "code", "field"),
    [
        (("bench", "nobody"), "variant.unknown", "VARIANT"),
        (("bench", "acme", "--backend", "openvino"), "variant.unknown", "VARIANT"),
        (("bench",), "config.no_workspace", None),
        (("bench", "acme", "--output", "nowhere/report.json"), "config.unwritable", None),
        (("bench", "acme", "--html", "."), "config.unwritable", None),
    ],
)
def test_what_cannot_be_measured_is_an_error(
    warmline: Run, store: Store, arguments: tuple[str, ...], code: str, field: str | None
) -> None:
    done = warmline(*arguments, "--json")
    assert done.code == 1
    assert (done.json["error"]["code"], done.json["error"]["field"]) == (code, field)


@pytest.fixture(scope="session")
def export_lora(repo: Path) -> Path:
    """llama.cpp's own program that merges; the test is skipped where it was not built."""
    command = [sys.executable, str(repo / "bench" / "llama_server.py"), "path", "llama-export-lora"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    if done.returncode:
        pytest.skip("llama-export-lora is not built: python bench/llama_server.py build")
    return Path(done.stdout.strip())


@pytest.mark.model
@pytest.mark.slow
def test_base_dynamic_and_merged_in_one_run(
    warmline: Run, home: Path, base_gguf: Path, export_lora: Path, tmp_path: Path
) -> None:
    """As docs/benchmarking.md says it."""
    merged = tmp_path / "acme-merged.gguf"
    command = [export_lora, "-m", base_gguf, "--lora", ACME, "-o", merged]
    subprocess.run(list(map(str, command)), check=True, capture_output=True, timeout=100)
    store = Store(home)
    store.add_model(PACKAGE, "smollm2")
    store.add_adapter(ACME, "acme-style", base="smollm2")
    store.add_variant(acme(base={"name": "smollm2"}, adapters=({"name": "acme-style"},)))
    store.add_model(merged, "acme-merged", merged_from="smollm2+acme-style")
    done = warmline("bench", "acme", "--runs", "1", "--prompt-tokens", "32", "--decode-tokens", "4", "--json")
    assert done.code == 0, done.err
    report = Report.model_validate(done.json)
    assert [(each.label.name, each.label.kind) for each in report.variants] == [
        ("smollm2", "base"),
        ("acme", "dynamic"),
        ("acme-merged", "merged"),
    ]
    base, dynamic, baked = report.variants
    assert len({each.label.identity for each in report.variants}) == 3
    assert base.label.base_digest == dynamic.label.base_digest != baked.label.base_digest
    assert dynamic.compared_with == baked.compared_with == base.label.identity
    assert all(each.slowdown is not None for each in (dynamic, baked))
    # The merged weights are wider than those of the base, and bring no adapter.
    assert baked.runs[0].memory.base > base.runs[0].memory.base
    assert (baked.runs[0].memory.adapters, dynamic.runs[0].memory.adapters > 0) == (0, True)
    assert json.loads(ACME.with_name("adapter.json").read_text())["digest"] == dynamic.label.adapters[0].digest
    assert not host_paths(home).socket.exists()  # the engine that serves editors was not started for it
