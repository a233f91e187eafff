"""A job in a process of its own: its answer, its faults, and its end whatever happens here."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest
from bench_reports import label
from warmline.benchmark import process
from warmline.benchmark.job import Answer, Job
from warmline.errors import TrustError, WarmlineError
from warmline.host.wire import ErrorInfo
from warmline.variant import Profile, ResolvedBase, ResolvedVariant


def job() -> Job:
    base = ResolvedBase(name="tiny", path=Path("tiny.gguf"))
    variant = ResolvedVariant(name="acme", backend="llama", base=base, adapters=(), profile=Profile(), file="acme.json")
    return Job(task="check", variant=variant, home=Path("home"), prompt_tokens=16, decode_tokens=4)


def stand_in(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    monkeypatch.setattr(process, "WORKER", (sys.executable, "-c", code))


def test_the_answer_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = Answer(label=label("acme"))
    stand_in(monkeypatch, f"print({answer.model_dump_json()!r})")
    assert process.ask(job()) == answer


def test_an_error_comes_back_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = Answer(error=ErrorInfo(code="trust.unapproved", message="not approved", file="acme.json", field="base"))
    stand_in(monkeypatch, f"print({answer.model_dump_json()!r})")
    with pytest.raises(TrustError, match="not approved") as raised:
        process.ask(job())
    assert (raised.value.file, raised.value.field) == ("acme.json", "base")


def test_one_that_dies_leaves_its_last_words(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, "import os, sys; sys.stderr.write('out of memory\\n\\n'); sys.stderr.flush(); os.abort()")
    with pytest.raises(WarmlineError, match="ended with -6: out of memory") as raised:
        process.ask(job())
    assert raised.value.code == "bench.crashed"


@pytest.mark.skipif(sys.platform == "win32", reason="a signal to this very process")
def test_an_interrupt_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    note = tmp_path / "pid"
    stand_in(
        monkeypatch,
        f"import os, signal, time; open({str(note)!r}, 'w').write(str(os.getpid()));"
        "os.kill(os.getppid(), signal.SIGINT); time.sleep(60)",
    )
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        began = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            process.ask(job())
        assert time.monotonic() - began < 30
    finally:
        signal.signal(signal.SIGINT, before)
    with pytest.raises(ProcessLookupError):
        os.kill(int(note.read_text()), 0)
