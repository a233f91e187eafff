"""A base with a sliding window: reuse only what is there, fall back where it is not, and bits as in a replay."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import gemma3
import numpy as np
import pytest
from harness.gemma3_world import cut_world, window_only
from harness.llama_world import LlamaWorld
from harness.machine import machine, run_seeded
from harness.oracle import Oracle
from harness.replaying import replay
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test
from warmline.backends.base import Abort, ContextConfig
from warmline.backends.llama import LlamaBackend, LlamaModel
from warmline.backends.llama_session import LlamaSession
from warmline.digests import DigestCache
from warmline.prompts.layout import completion_prompt
from warmline.prompts.window import Window

pytestmark = [pytest.mark.model, pytest.mark.slow, pytest.mark.timeout(1200)]

PROGRAMS = settings(
    max_examples=25,
    stateful_step_count=8,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
TEXT = "def transfer(ledger, account_id, total_cents):\n    return ledger.move(account_id, total_cents)\n"


@pytest.fixture(scope="module")
def sliding(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LlamaWorld]:
    """Contexts that keep all KV of all layers (as the engine makes them)."""
    made = cut_world(tmp_path_factory.mktemp("sliding"))
    yield made
    made.close()


@pytest.fixture
def forgetful(tmp_path: Path) -> Iterator[LlamaWorld]:
    """Contexts that forget what the window has passed: here trims and restores fail."""
    with window_only():
        stems = (0, 40, 250, 300, 330)
        made = cut_world(tmp_path, n_ctx=1024, stem_tokens=stems, longest=400)
        yield made
        made.close()


def test_programs(sliding: LlamaWorld, tmp_path: Path) -> None:
    oracle, tally = Oracle(sliding.replay, samples=2), Counter[str]()
    run_state_machine_as_test(machine(sliding, oracle, tmp_path / "kv", tally), settings=PROGRAMS)
    assert tally["reused:live"] and tally["reused:ram"] and tally["resumed"]
    assert tally["refused"] == 0, "a context of full size lost what a snapshot needs"
    for identity, lineage, found in oracle.samples:
        assert sliding.elsewhere(identity, lineage) == found


def test_programs_where_early_kv_is_lost(forgetful: LlamaWorld, tmp_path: Path) -> None:
    oracle, tally = Oracle(forgetful.replay), Counter[str]()
    for number in range(8):
        run_seeded(forgetful, oracle, tmp_path / "kv", tally, f"forgetful:{number}", steps=8)
    assert tally["reused:live"] and tally["logits compared"] > 25


def opened(world: LlamaWorld) -> LlamaSession:
    world.identity("base")
    session = world.open("base")
    assert isinstance(session, LlamaSession)
    return session


def long_prompt(world: LlamaWorld, tokens: int) -> list[int]:
    return (world.model.tokenize(TEXT) * 20)[:tokens]


def test_what_the_window_lost_is_measured_and_computed_anew(forgetful: LlamaWorld) -> None:
    prompt = long_prompt(forgetful, 500)
    session, fresh = opened(forgetful), opened(forgetful)
    session.prefill(prompt, Abort()).run()
    assert session._lib.llama_memory_seq_pos_min(session._memory, 0) > 0, "the context forgot nothing"
    # A step back within what is left is reused, one that needs more is not.
    assert session.prefill([*prompt[:480], 7], Abort()).run() == 480
    assert session.prefill([*prompt[:200], 7], Abort()).run() == 0
    fresh.prefill([*prompt[:200], 7], Abort()).run()
    np.testing.assert_array_equal(session.logits(), fresh.logits())
    session.close()
    fresh.close()


@pytest.mark.parametrize("tokens", [20, 33, 200])
def test_a_snapshot_comes_back_with_all_that_may_be_trimmed(sliding: LlamaWorld, tokens: int) -> None:
    prompt = long_prompt(sliding, tokens)
    session, other, again = opened(sliding), opened(sliding), opened(sliding)
    session.prefill(prompt, Abort()).run()
    assert other.restore(prompt, session.save(), session.lineage)
    assert other.prefill([*prompt[: tokens // 2], 7], Abort()).run() == tokens // 2
    moved = [*session.lineage, ("moved", tokens), *other.lineage[len(session.lineage) :]]
    for _ in replay(again, moved):
        pass
    np.testing.assert_array_equal(other.logits(), again.logits())
    for one in (session, other, again):
        one.close()


def test_a_snapshot_that_lost_its_window_is_refused(forgetful: LlamaWorld) -> None:
    """What is left of a sequence after a cut in the middle is no beginning of it."""
    prompt = long_prompt(forgetful, 500)
    session = opened(forgetful)
    session.prefill(prompt, Abort()).run()
    data = session.save()
    assert not session.restore(prompt[:300], data)
    assert list(session.tokens) == []
    assert session.prefill(prompt[:20], Abort()).run() == 0
    session.close()


def test_bos_stands_in_front_of_every_prompt(sliding: LlamaWorld) -> None:
    assert sliding.identity("base").bos == "bos:2"
    verified = sliding._verified["base"]
    window = Window(prefix=TEXT, suffix="", first_line=0, last_line=2, clipped_start=False, clipped_end=False)
    prompt = completion_prompt(
        window,
        verified.fim,
        tokenize=sliding.model.tokenize,
        bos=verified.bos,
        path="a.py",
        n_ctx=256,
        max_tokens=16,
    )
    assert prompt == [2, *sliding.model.tokenize(TEXT)]


@pytest.fixture
def model() -> Iterator[LlamaModel]:
    """All eighteen layers and a window of 512, as the file is."""
    path = gemma3.base_path()
    digests = DigestCache()
    backend = LlamaBackend(digests)
    yield backend.load(path, digests.digest(path))
    backend.close()


def test_the_whole_base_beyond_its_window(model: LlamaModel) -> None:
    """Restored, trimmed and typed on after 600 tokens: nothing is prefilled twice, and a replay gives the bits."""
    config = ContextConfig(n_ctx=1024, threads=1, record=True)
    session, other, again, moved = [model.open_session([], config) for _ in range(4)]
    assert isinstance(again, LlamaSession) and isinstance(moved, LlamaSession)
    prompt = [2, *(model.tokenize(TEXT) * 40)][:600]
    session.prefill(prompt, Abort()).run()
    session.decode(7, Abort())
    begun = list(session.lineage)
    assert other.restore(session.tokens, session.save(), begun)
    longer = [*prompt[:590], *model.tokenize("# and on")]
    assert session.prefill(longer, Abort()).run() == 590
    assert other.prefill(longer, Abort()).run() == 590
    again.replay(session.lineage)
    np.testing.assert_array_equal(session.logits(), again.logits())
    for _ in replay(moved, [*begun, ("moved", 601), *other.lineage[len(begun) :]]):
        pass
    np.testing.assert_array_equal(other.logits(), moved.logits())
    # Sums in another order move logits as another split into batches does; KV of other tokens moves them by 10.
    assert abs(session.logits() - other.logits()).max() < 3
    for one in (session, other, again, moved):
        one.close()
