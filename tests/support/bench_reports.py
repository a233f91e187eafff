"""Reports of benches that nobody ran: figures and labels for tests of what is made of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from warmline.benchmark.report import AdapterLabel, Label, Machine, Memory, Report, Run, measured
from warmline.digests import bytes_digest

MIB = 1 << 20


def label(name: str, kind: str = "base", identity: str = "", **changes: Any) -> Label:
    """Give a label; a dynamic variant has one adapter at half its scale."""
    adapters = (AdapterLabel(name="style", digest="sha256:" + "5" * 64, scale="0.5", effective_scale="1"),)
    values = {
        "name": name,
        "kind": kind,
        "identity": identity or bytes_digest(name.encode()),
        "base": "tiny",
        "base_digest": "sha256:" + "b" * 64,
        "merged_from": "tiny+style" if kind == "merged" else None,
        "adapters": adapters if kind == "dynamic" else (),
        "backend": "llama.cpp",
        "backend_version": "1.2",
        "threads": 1,
        "n_ctx": 4096,
    }
    return Label.model_validate(values | changes)


def run(number: int = 0, seconds: float = 1.0, **changes: Any) -> Run:
    """Give a run that took so long for each of its parts."""
    memory = Memory(
        base=100 * MIB,
        adapters=MIB,
        kv=90 * MIB,
        snapshot=10 * MIB,
        resident_before=80 * MIB,
        resident_after=280 * MIB,
        resident_peak=300 * MIB,
    )
    values = {
        "round": number,
        "load_ms": 100 * seconds,
        "cold_first_ms": 1000 * seconds,
        "prefill_tokens_per_s": 500 / seconds,
        "warm_first_ms": 10 * seconds,
        "decode_tokens_per_s": 50 / seconds,
        "cold_reused": 0,
        "warm_prompt": 516,
        "warm_reused": 512,
        "memory": memory,
    }
    return Run.model_validate(values | changes)


def runs(*seconds: float) -> list[Run]:
    """Give a run for each round."""
    return [run(number, each) for number, each in enumerate(seconds)]


def report(base: str = "tiny", variant: str = "acme", seconds: Sequence[float] = (2, 2, 3), **changes: Any) -> Report:
    """Give a report of a base, its dynamic variant and its merged model."""
    plain = label(base), runs(1, 2, 1)
    dynamic, merged = label(variant, "dynamic"), label(f"{variant}-merged", "merged")
    machine = Machine(
        cpu="A CPU",
        architecture="x86_64",
        physical_cores=4,
        logical_cores=8,
        memory=16 << 30,
        memory_available=8 << 30,
        system="Linux-6",
        python="3.11.0",
        warmline="0.1.0",
        load_at_start=0.1,
        load_at_end=1.2,
    )
    values = {
        "created": "2026-01-01T00:00:00+00:00",
        "machine": machine,
        "rounds": 3,
        "prompt_tokens": 512,
        "decode_tokens": 64,
        "variants": (
            measured(*plain, None, ()),
            measured(dynamic, runs(*seconds), plain, ()),
            measured(merged, runs(1, 1, 1), plain, ("merged from tiny+style",)),
        ),
    }
    return Report.model_validate(values | changes)
