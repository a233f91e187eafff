"""What went wrong elsewhere, row by row: which tests here would fail if it went wrong with us.

The rows are public reports about other servers of adapters (llama-server, vLLM, Ollama and others). Each is held by
tests that are named below; this file proves that they exist, and holds those of rows 1, 2 and 4 on a real base.
"""

from __future__ import annotations

import ast
import threading
from collections.abc import Iterator, Sequence
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from smollm2 import ACME, FIM, base_path
from warmline.backends.llama import LlamaBackend
from warmline.digests import DigestCache
from warmline.errors import WarmlineError
from warmline.host.service import EngineService
from warmline.host.wire import CompletionRequest, Done, Event, Started
from warmline.kv.pool import ContextPool
from warmline.variant import Profile, ResolvedAdapter, ResolvedBase, ResolvedVariant

LLAMA, SERVICE, HERE = "engine/backends/test_llama.py", "engine/host/test_service.py", "engine/test_field_rows.py"
STORE, RULES = "engine/test_registry_store.py", "engine/test_validation.py"
OPENVINO, EFFECT = "engine/openvino/test_backend.py", "engine/openvino/test_effect.py"
CONFORMANCE, SLIDING = "conformance/test_conformance.py", "conformance/test_sliding_window.py"

# row: (what must hold, tests as file::function)
ROWS: dict[int, tuple[str, tuple[str, ...]]] = {
    1: ("A, then B on one prompt: 0 tokens reused", (f"{HERE}::test_row_1_another_adapter_reuses_nothing",)),
    2: (
        "A, then base; A at 1.0, then at 0.5: 0 tokens reused",
        (
            f"{HERE}::test_row_2_no_adapter_and_another_scale_reuse_nothing",
            f"{SERVICE}::test_each_reuse_has_its_named_reason",
        ),
    ),
    3: (
        "every scale is identity, negative ones too",
        (f"{LLAMA}::test_row_3_every_scale_acts", "engine/test_identity.py::test_the_handed_table"),
    ),
    4: (
        "evict A, ask B, return to A: right KV each time",
        (
            f"{HERE}::test_row_4_back_after_eviction_with_its_own_kv",
            "engine/kv/test_pool.py::test_what_leaves_for_want_of_room_comes_back_to_its_own_identity",
            f"{CONFORMANCE}::test_500_programs",
        ),
    ),
    5: (
        "a snapshot of A is refused for B and for the base",
        (
            "engine/kv/test_disk.py::test_the_file_of_another_identity_under_this_ones_name",
            "engine/kv/test_disk.py::test_an_identity_whose_digest_collides",
        ),
    ),
    6: (
        "the base variant is a process that never loaded an adapter",
        (f"{LLAMA}::test_row_6_base_after_adapters_is_a_process_that_never_loaded_one",),
    ),
    7: (
        "same name, other bytes: another identity; a file replaced while warm is noticed",
        (
            f"{SERVICE}::test_row_7_a_file_replaced_while_warm_is_another_identity",
            "engine/test_identity.py::test_the_handed_table",
        ),
    ),
    8: (
        "identity is canonical and domain-separated: crafted names cannot collide",
        (
            "engine/test_identity.py::test_equal_encodings_mean_equal_identities",
            "engine/test_identity.py::test_text_moved_between_neighbouring_fields_is_another_identity",
        ),
    ),
    9: (
        "an adapter that loads and changes nothing is refused",
        (
            f"{SERVICE}::test_row_9_an_adapter_without_effect_is_refused",
            f"{LLAMA}::test_effect_is_measured",
            f"{OPENVINO}::test_bad_input_gets_a_typed_error_with_a_remedy_and_the_engine_lives_on",
            f"{RULES}::test_each_rule_refuses_its_file",
        ),
    ),
    10: (
        "the effective scale is computed once, shown, and alpha and rsLoRA are in it",
        (
            f"{STORE}::test_a_peft_folder_gives_the_same_digest_wherever_it_lies",
            f"{STORE}::test_a_peft_folder_is_used_as_it_is_on_openvino",
            "engine/artifacts/test_peft.py::test_rank_stabilised_lora_divides_by_the_root",
            f"{EFFECT}::test_the_native_scale_is_the_dense_sum",
            f"{EFFECT}::test_both_backends_change_alike",
            f"{OPENVINO}::test_the_config_beside_the_weights_counts",
            f"{SERVICE}::test_describing_loads_nothing_and_says_everything",
        ),
    ),
    11: (
        "an adapter on the wrong base is refused by digest or by shape, else labelled unverified",
        (
            f"{SERVICE}::test_an_adapter_made_for_another_base_is_refused",
            f"{STORE}::test_curated_needs_a_catalogs_word_and_the_very_base",
            f"{RULES}::test_strict_for_curated_and_permissive_for_the_users_own",
            "engine/test_catalog.py::test_an_adapter_for_another_base_is_refused_whatever_the_names",
        ),
    ),
    12: (
        "a rewrite with the same size and restored mtime is noticed",
        (
            "engine/test_digests.py::test_row_12_same_size_and_restored_mtime_is_noticed",
            f"{STORE}::test_verify_hashes_afresh",
        ),
    ),
    13: (
        "a native crash costs one suggestion, and what crashed is named",
        (
            "engine/host/test_host.py::test_a_killed_host_costs_one_suggestion",
            "engine/host/test_host.py::test_what_crashed_natively_twice_is_refused_until_released",
        ),
    ),
    14: (
        "the BOS policy is explicit and in the identity",
        (f"{SLIDING}::test_bos_stands_in_front_of_every_prompt", "engine/test_identity.py::test_the_handed_table"),
    ),
    15: (
        "reused tokens are measured, never assumed",
        (
            f"{SLIDING}::test_what_the_window_lost_is_measured_and_computed_anew",
            f"{SLIDING}::test_a_snapshot_that_lost_its_window_is_refused",
            "engine/kv/test_pool.py::test_kv_that_the_backend_refuses_is_not_tried_again",
        ),
    ),
    16: (
        "a variant of two adapters differs from each alone",
        (f"{LLAMA}::test_row_16_two_adapters_differ_from_each_alone",),
    ),
    17: (
        "every field survives every hop, zero and default included",
        (
            "engine/host/test_wire.py::test_whatever_is_sent_arrives_through_the_real_channel",
            f"{STORE}::test_row_17_every_field_survives_the_file",
        ),
    ),
    18: (
        "a declared digest is compared with the bytes that are loaded",
        (
            f"{SERVICE}::test_a_wrong_digest_is_refused_at_its_field",
            f"{LLAMA}::test_a_file_that_changed_after_it_was_verified_is_not_loaded",
        ),
    ),
    19: (
        "the digest of a model folder covers its weights",
        (f"{STORE}::test_row_19_a_folders_digest_covers_its_weights_and_names",),
    ),
    20: (
        "template digest and backend version come from what runs",
        (
            f"{LLAMA}::test_the_version_tells_the_build",
            "engine/prompts/test_chat.py::test_the_digest_is_over_the_bytes_that_are_rendered",
        ),
    ),
    21: ("names and paths are not identity", (f"{SERVICE}::test_renaming_the_same_bytes_keeps_the_kv",)),
    22: (
        "a chat template from a model file runs no code and ends in time",
        (
            "engine/prompts/test_chat.py::test_an_escape_or_a_mutation_is_refused",
            "engine/prompts/test_chat.py::test_a_hostile_template_ends_within_the_bound",
        ),
    ),
    23: (
        "a malformed GGUF neither crashes nor hangs",
        (
            "engine/artifacts/test_gguf.py::test_each_rule_has_its_error",
            "engine/artifacts/test_gguf.py::test_no_mutation_of_a_base_hurts",
            "bench/test_registry_benches.py::test_mutated_headers_neither_crash_nor_hang_nor_take_much_memory",
        ),
    ),
    24: (
        "a malformed safetensors header neither crashes nor hangs",
        (
            "engine/artifacts/test_safetensors.py::test_each_rule_has_its_error",
            "engine/artifacts/test_safetensors.py::test_no_mutation_of_a_real_header_hurts",
            "bench/test_registry_benches.py::test_mutated_headers_neither_crash_nor_hang_nor_take_much_memory",
        ),
    ),
    25: (
        "pickles are refused outright",
        (
            f"{STORE}::test_row_25_pickles_are_refused_by_their_names",
            "engine/artifacts/test_peft.py::test_a_pickle_renamed_to_safetensors_is_refused",
        ),
    ),
    26: (
        "names and digests are strict, and no link leads out of the store",
        (
            f"{STORE}::test_row_26_names_that_cannot_be_used",
            f"{STORE}::test_row_26_a_digest_never_becomes_another_path",
            f"{STORE}::test_row_26_links_in_the_store_are_not_followed",
            "engine/test_registry.py::test_row_26_a_workspace_names_only_files_inside_itself",
        ),
    ),
}


@cache
def functions_of(file: Path) -> frozenset[str]:
    tree = ast.parse(file.read_text("utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def test_every_row_is_there() -> None:
    assert list(ROWS) == list(range(1, 27))


@pytest.mark.parametrize("row", ROWS)
def test_the_tests_of_a_row_exist(row: int, repo: Path) -> None:
    holds, tests = ROWS[row]
    assert holds
    assert tests
    for node in tests:
        file, _, name = node.partition("::")
        assert name in functions_of(repo / "tests" / file), node


# ---- rows 1, 2 and 4, on a real base with real adapters ----

TEXT = "def transfer(amount, source, target):\n    " + "# move money between accounts, carefully\n    " * 8


class Heard:
    """Collects one request's events."""

    def __init__(self) -> None:
        self.started: Started | None = None
        self.text = ""
        self.failure: WarmlineError | None = None
        self.over = threading.Event()

    def receive(self, events: Sequence[Event]) -> None:
        for event in events:
            if isinstance(event, Started):
                self.started = event
            elif isinstance(event, Done):
                self.text = event.text
                self.over.set()

    def error(self, error: WarmlineError) -> None:
        self.failure = error
        self.over.set()


class Engine:
    """An engine with room for so many live contexts."""

    def __init__(self, max_live: int) -> None:
        digests = DigestCache()
        self.pool = ContextPool(max_live=max_live)
        self.service = EngineService(LlamaBackend(digests), digests, lambda digest: True, pool=self.pool)

    def ask(self, *adapters: Path, scale: str = "1") -> tuple[int, str, str]:
        """Complete; give the tokens that were reused, the reason, and the text."""
        variant = ResolvedVariant(
            name="v",
            backend="llama",
            base=ResolvedBase(name="smollm2", path=base_path()),
            adapters=tuple(ResolvedAdapter(name=p.parent.name, path=p, scale=Decimal(scale)) for p in adapters),
            profile=Profile.model_validate({"n_ctx": 512, "max_tokens": 6, "fim": {"order": "prefix-only"}}),
            file="v.json",
        )
        heard = Heard()
        self.service.complete(CompletionRequest(client="c", document="d", variant=variant, prefix=TEXT), heard)
        assert heard.over.wait(120)
        assert heard.failure is None, heard.failure
        assert heard.started is not None
        return heard.started.reused_tokens, heard.started.reason, heard.text


@pytest.fixture
def engine(request: Any) -> Iterator[Engine]:
    engine = Engine(getattr(request, "param", 4))
    yield engine
    engine.service.close()


@pytest.mark.model
def test_row_1_another_adapter_reuses_nothing(engine: Engine) -> None:
    assert engine.ask(ACME)[:2] == (0, "cold")
    assert engine.ask(FIM)[:2] == (0, "identity:adapters[0].digest")
    assert engine.ask(FIM)[0] > 50


@pytest.mark.model
def test_row_2_no_adapter_and_another_scale_reuse_nothing(engine: Engine) -> None:
    assert engine.ask(ACME)[0] == 0
    assert engine.ask()[:2] == (0, "identity:adapters")
    assert engine.ask(ACME, scale="0.5")[:2] == (0, "identity:adapters")
    assert engine.ask(ACME, scale="1.5")[:2] == (0, "identity:adapters[0].scale")
    assert engine.ask(ACME)[0] > 50  # its own KV is still there


@pytest.mark.model
@pytest.mark.parametrize("engine", [1], indirect=True)
def test_row_4_back_after_eviction_with_its_own_kv(engine: Engine) -> None:
    """One live context: each request evicts the other's; what comes back is its own, and answers as it did before."""
    for adapter in (ACME, FIM):
        assert engine.ask(adapter)[0] == 0
    warm = {}
    for adapter in (ACME, FIM):
        reused, reason, warm[adapter] = engine.ask(adapter)
        assert (reused > 50, reason) == (True, "warm")
    for adapter in (ACME, FIM):
        assert engine.ask(adapter)[2] == warm[adapter]
    assert warm[ACME] != warm[FIM]
    assert engine.pool.counters
