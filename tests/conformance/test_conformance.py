"""Warm equals a replay, bit for bit, whatever is done to the pool in between; and planted faults are seen."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from harness.faults import FAULTS, MIXED, Fault
from harness.llama_world import LlamaWorld
from harness.machine import machine, run_seeded
from harness.oracle import MismatchError, Oracle
from harness.world import World, operations
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

pytestmark = [pytest.mark.model, pytest.mark.slow, pytest.mark.timeout(1800)]

PROGRAMS = settings(
    max_examples=500,
    stateful_step_count=8,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
# A planted fault needs to be found, not to be made small.
PLANTED = settings(PROGRAMS, max_examples=300, stateful_step_count=20, phases=[Phase.generate], print_blob=False)


def test_500_programs(world: World, tmp_path: Path) -> None:
    oracle, tally = Oracle(world.replay, samples=6), Counter[str]()
    run_state_machine_as_test(machine(world, oracle, tmp_path / "kv", tally), settings=PROGRAMS)
    print(dict(sorted(tally.items())))
    # Hypothesis may stop a program early, and leaves none out.
    assert tally["programs"] >= 500
    assert tally["mismatches"] == 0
    for op in operations(world):
        assert tally[f"op:{op.name}"], f"no program ever did {op.name}"
    for source in ("live", "ram", "disk"):
        assert tally[f"reused:{source}"], f"nothing was ever reused from {source}"
    assert tally["resumed"]
    assert any(name.startswith("rejected:") for name in tally), "no damaged file was ever met"
    for identity, lineage, found in oracle.samples:
        assert world.elsewhere(identity, lineage) == found, "a fresh process gives other logits"


def test_longer_programs(world: World, tmp_path: Path) -> None:
    """Drawn evenly, as the bench draws them; Hypothesis prefers what is simple."""
    oracle, tally = Oracle(world.replay, samples=2), Counter[str]()
    for number in range(40):
        run_seeded(world, oracle, tmp_path / "kv", tally, f"long:{number}", steps=16)
    for source in ("live", "ram", "disk"):
        assert tally[f"reused:{source}"], f"nothing was ever reused from {source}"
    for identity, lineage, found in oracle.samples:
        assert world.elsewhere(identity, lineage) == found


def test_some_programs_on_the_whole_base(whole: LlamaWorld, tmp_path: Path) -> None:
    oracle, tally = Oracle(whole.replay, samples=1), Counter[str]()
    for number in range(5):
        run_seeded(whole, oracle, tmp_path / "kv", tally, f"whole:{number}", steps=8)
    assert tally["reused:live"] and tally["logits compared"] > 15
    for identity, lineage, found in oracle.samples:
        assert whole.elsewhere(identity, lineage) == found


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_planted_fault_is_caught(llama_world: LlamaWorld, tmp_path: Path, fault: Fault) -> None:
    oracle = Oracle(llama_world.replay)
    programs = machine(llama_world, oracle, tmp_path / "kv", Counter())
    with fault(llama_world), pytest.raises(AssertionError):
        run_state_machine_as_test(programs, settings=PLANTED)


@pytest.mark.parametrize("fault", MIXED, ids=lambda fault: fault.__name__)
def test_a_planted_fault_is_caught_by_logits_alone(llama_world: LlamaWorld, tmp_path: Path, fault: Fault) -> None:
    oracle = Oracle(llama_world.replay)

    def programs() -> None:
        for number in range(50):
            run_seeded(llama_world, oracle, tmp_path / "kv", Counter(), f"planted:{number}", steps=16, strict=False)

    with fault(llama_world), pytest.raises(MismatchError):
        programs()
