"""The example adapter against its base and against noise of its shape: measured, certified, made void, interrupted."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from random_adapter import random_twin
from warmline.digests import DigestCache

pytestmark = [pytest.mark.model, pytest.mark.slow]

COUNT = "4"
Warmline = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, examples: Path) -> Path:
    """The example workspace, where `acme` and `noise`, its adapter's twin of noise, claim completion."""
    folder = tmp_path_factory.mktemp("certify") / "workspace"
    shutil.copytree(examples, folder)
    variants = folder / ".warmline" / "variants"
    acme = json.loads((variants / "acme.json").read_text())
    acme["profile"] = {"claims": ["completion"]}
    (variants / "acme.json").write_text(json.dumps(acme))
    twin = random_twin(folder / "adapters/acme-style/adapter.gguf", folder / "adapters/noise/adapter.gguf")
    path = "../../adapters/noise/adapter.gguf"
    acme["adapters"] = [{"name": "noise", "path": path, "digest": DigestCache().digest(twin)}]
    (variants / "noise.json").write_text(json.dumps(acme | {"name": "noise"}))
    return folder


@pytest.fixture(scope="module")
def warmline(place: Path, entry: list[str]) -> Warmline:
    """Run a command in the workspace, all with one store, in which its adapters are approved."""
    environment = os.environ | {"WARMLINE_HOME": str(place.parent / "home"), "NO_COLOR": "1"}

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*entry, *arguments], cwd=place, env=environment, capture_output=True, text=True, timeout=280, check=False
        )

    for name in ("acme", "noise"):
        assert run("trust", "add", "--workspace", ".", "--variant", name, "--yes").returncode == 0
    return run


@pytest.fixture(scope="module")
def certified(warmline: Warmline) -> dict[str, Any]:
    done = warmline("certify", "acme", "--suite", "style", "--count", COUNT, "--json", "--output", "acme.cert.json")
    assert done.returncode == 0, (done.stdout, done.stderr)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def figure(suite: dict[str, Any], metric: str) -> dict[str, Any]:
    found: dict[str, Any] = next(each for each in suite["figures"] if each["metric"] == metric)
    return found


def test_the_adapter_beats_its_base(certified: dict[str, Any], place: Path) -> None:
    assert certified["passed"]
    suite = certified["suites"][0]
    assert figure(suite, "edit_similarity")["difference"]["low"] > 0.2
    label, base = certified["variant"], certified["against"]
    assert (label["kind"], base["kind"], base["adapters"]) == ("dynamic", "base", [])
    assert label["identity"] != base["identity"]
    assert label["adapters"][0]["scale"] == "1"
    assert json.loads((place / "acme.cert.json").read_text())["variant"] == label


def test_noise_of_the_same_shape_fails(warmline: Warmline, certified: dict[str, Any]) -> None:
    done = warmline("certify", "noise", "--suite", "style", "--count", COUNT, "--json")
    assert done.returncode == 1, done.stderr
    found = json.loads(done.stdout)
    assert not found["passed"]
    assert figure(found["suites"][0], "edit_similarity")["difference"]["low"] <= 0
    rows = {row["name"]: row["certificate"] for row in json.loads(warmline("variant", "list", "--json").stdout)}
    assert rows["acme"] == "certified"
    assert rows["noise"].startswith("failed: style: edit_similarity over the base")
    assert rows["base"] == "none"  # what its adapters are worth is nothing of the base's


def test_check_finds_it_as_good_and_noise_worse(warmline: Warmline, certified: dict[str, Any]) -> None:
    same = warmline("certify", "acme", "--suite", "style", "--count", COUNT, "--check", "--json")
    assert (same.returncode, json.loads(same.stdout)["reasons"]) == (0, [])
    last = ("--last", "acme.cert.json")
    worse = warmline("certify", "noise", "--suite", "style", "--count", COUNT, "--check", "--json", *last)
    assert worse.returncode == 1
    assert any("edit_similarity is" in reason for reason in json.loads(worse.stdout)["reasons"])


def test_a_changed_scale_makes_it_void_everywhere(warmline: Warmline, certified: dict[str, Any], place: Path) -> None:
    def said() -> set[str]:
        row = next(row for row in json.loads(warmline("variant", "list", "--json").stdout) if row["name"] == "acme")
        shown = json.loads(warmline("variant", "show", "acme", "--json").stdout)
        status = json.loads(warmline("status", "--variant", "acme", "--json").stdout)
        return {row["certificate"], shown["certificate"], status["certificate"]}

    assert said() == {"certified"}
    file = place / ".warmline" / "variants" / "acme.json"
    before = file.read_text()
    changed = json.loads(before)
    changed["adapters"][0]["scale"] = 0.5
    file.write_text(json.dumps(changed))
    try:
        assert said() == {"void: scale changed"}
    finally:
        file.write_text(before)
    assert said() == {"certified"}


@pytest.fixture
def evaluating(place: Path, entry: list[str], warmline: Warmline) -> Iterator[Callable[[], subprocess.Popen[str]]]:
    """Start the same evaluation as a process, and wait for its first answers."""
    started: list[subprocess.Popen[str]] = []
    home = place.parent / "home"

    def start() -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [*entry, *EVAL],
            cwd=place,
            env=os.environ | {"WARMLINE_HOME": str(home), "NO_COLOR": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        deadline = time.monotonic() + 120
        while len(rows(home)) < 2:
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.05)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


EVAL = ("eval", "acme", "--suite", "style", "--count", "3", "--seed", "9")


def rows(home: Path) -> list[str]:
    return [line for path in (home / "evaluation/partial").glob("*.jsonl") for line in path.read_text().splitlines()]


def answers(report: str) -> dict[tuple[str, str], str]:
    (suite,) = json.loads(report)["suites"]
    return {(row["side"], row["task"]): row["text"] for row in suite["rows"]}


def test_an_interrupt_keeps_what_was_measured(
    evaluating: Callable[[], subprocess.Popen[str]], warmline: Warmline, place: Path
) -> None:
    process = evaluating()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "the same command goes on from there" in err
    kept = rows(place.parent / "home")
    assert 2 <= len(kept) < 6
    resumed = warmline(*EVAL, "--json")
    assert resumed.returncode == 0, resumed.stderr
    found = json.loads(resumed.stdout)["suites"][0]["rows"]
    assert all(json.loads(line) in found for line in kept)
    assert rows(place.parent / "home") == []
    whole = warmline(*EVAL, "--json")
    assert answers(resumed.stdout) == answers(whole.stdout)  # to the letter, however much was there before


def test_a_variant_that_disappears_ends_it(evaluating: Callable[[], subprocess.Popen[str]], place: Path) -> None:
    adapter = place / "adapters/acme-style/adapter.gguf"
    process = evaluating()
    aside = adapter.rename(adapter.with_suffix(".aside"))
    try:
        _, err = process.communicate(timeout=60)
    finally:
        aside.rename(adapter)
    assert process.returncode == 1
    assert "evaluation.stopped" in err
    assert len(rows(place.parent / "home")) >= 2


def test_code_of_the_model_runs_in_the_sandbox(warmline: Warmline) -> None:
    done = warmline("eval", "acme", "--suite", "humaneval-infill", "--count", "1", "--run-code", "--json")
    assert done.returncode == 0, done.stderr
    (suite,) = json.loads(done.stdout)["suites"]
    assert len(suite["rows"]) == 2
    assert {"pass_at_1", "kept_rate", "latency_ms"} & set(suite["rows"][0]["scores"])
