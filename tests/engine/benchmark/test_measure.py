"""One measurement: what is cold is proven cold, and what is measured is the variant that was asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fake_backend import FakeBackend, FakeModel, FakeSession, write_adapter, write_base
from openvino_variants import variant as openvino_variant
from smollm2 import ACME
from store_tools import filled
from warmline.benchmark.job import Job
from warmline.benchmark.measure import Bench
from warmline.benchmark.process import ask
from warmline.benchmark.prompt import TYPED, prompt
from warmline.errors import PromptError, VariantError, WarmlineError
from warmline.registry import Store
from warmline.variant import AdapterSpec, BaseRef, Profile, VariantFile


def bench_of(store: Store, name: str, backend: FakeBackend, **changes: Any) -> Bench:
    values = {"task": "measure", "prompt_tokens": 200, "decode_tokens": 8, "home": store.home}
    made = Bench(Job.model_validate(values | {"variant": store.resolve(name)} | changes))
    made._llama = backend  # type: ignore[assignment]  # no native code
    return made


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return filled(tmp_path / "home", tmp_path)


def test_prompts_have_exactly_so_many_tokens_and_no_two_rounds_share_their_beginning(tmp_path: Path) -> None:
    backend = FakeBackend()
    path = write_base(tmp_path / "base.gguf")
    model = FakeModel(backend, "sha256:0", backend.facts(path, ""))
    first, typed = prompt(model, 1, 3000, 0)
    second, _ = prompt(model, 1, 3000, 1)
    assert (len(first), len(typed), first[0]) == (3000, TYPED, 1)
    shared = next(at for at, (a, b) in enumerate(zip(first, second, strict=True)) if a != b)
    assert shared < 20
    assert prompt(model, None, 3000, 0)[0][:10] == first[1:11]


def test_a_run_reads_writes_and_goes_on(store: Store) -> None:
    backend = FakeBackend()
    found = bench_of(store, "acme", backend).measure()
    (session,) = backend.sessions
    assert (found.cold_reused, found.warm_prompt) == (0, 200 + TYPED)
    assert found.warm_reused == 200
    assert session.closed
    assert session.decodes == 8
    assert min(found.load_ms, found.cold_first_ms, found.warm_first_ms, found.decode_tokens_per_s) > 0
    assert found.prefill_tokens_per_s == pytest.approx(200_000 / found.cold_first_ms)
    assert found.memory.base == 4 * 1024 + 1024  # its tensors, as in the file
    assert found.memory.snapshot == len(session.save())


def test_a_prompt_that_was_there_makes_no_figure(store: Store) -> None:
    class Warm(FakeBackend):
        def make_session(self, adapters: Any, config: Any) -> FakeSession:
            session = super().make_session(adapters, config)
            session.tokens = prompt(self.models[-1], 1, 200, 0)[0][:50]
            return session

    with pytest.raises(WarmlineError, match="50 tokens") as raised:
        bench_of(store, "acme", Warm()).measure()
    assert raised.value.code == "bench.warm"


def test_a_context_that_is_too_small_is_refused_before_anything_is_loaded(store: Store) -> None:
    backend = FakeBackend()
    needed = 300 + TYPED + 8
    fits = VariantFile(name="fits", base=BaseRef(name="base"), profile=Profile(n_ctx=needed))
    store.add_variant(fits)
    store.add_variant(fits.model_copy(update={"name": "small", "profile": Profile(n_ctx=needed - 1)}))
    assert bench_of(store, "fits", backend, prompt_tokens=300).check().n_ctx == needed
    backend.loads.clear()
    with pytest.raises(PromptError, match=f"this bench needs {needed}") as raised:
        bench_of(store, "small", backend, prompt_tokens=300).check()
    assert raised.value.code == "prompt.room"
    assert backend.loads == []


def test_a_check_refuses_what_changes_nothing(store: Store) -> None:
    backend = FakeBackend()
    backend.effect = 0.0
    with pytest.raises(VariantError, match="changes nothing"):
        bench_of(store, "acme", backend).check()


def test_a_label_says_which_variant(store: Store, tmp_path: Path) -> None:
    store.add_model(write_base(tmp_path / "m.gguf", weights=b"\x05"), "baked", merged_from="base+style")
    store.add_variant(VariantFile(name="baked", base=BaseRef(name="baked")))
    store.add_variant(VariantFile(name="plain", base=BaseRef(name="base")))
    store.add_adapter(write_adapter(tmp_path / "o.gguf", weights=b"\x05"), "other", base="base")
    half = ({"name": "other", "scale": "0.5"}, {"name": "style"})
    store.add_variant(VariantFile.model_validate({"name": "two", "base": {"name": "base"}, "adapters": half}))
    labels = {name: bench_of(store, name, FakeBackend()).check() for name in ("acme", "baked", "plain", "two")}
    assert {name: each.kind for name, each in labels.items()} == {
        "acme": "dynamic",
        "baked": "merged",
        "plain": "base",
        "two": "dynamic",
    }
    assert labels["baked"].merged_from == "base+style"
    other, style = labels["two"].adapters
    assert (other.name, other.scale, other.effective_scale) == ("other", "0.5", "1")  # alpha 8, rank 4
    assert other.digest == store.get_adapter("other").digest
    assert style.digest == labels["acme"].adapters[0].digest
    assert len({each.identity for each in labels.values()}) == 4


def test_a_model_that_writes_what_is_typed_has_it_no_warmer(store: Store) -> None:
    backend = FakeBackend()
    model = FakeModel(backend, "sha256:0", backend.facts(store.resolve("acme").base.path, ""))
    backend.script = prompt(model, 1, 200, 0)[1]
    assert bench_of(store, "acme", backend).measure().warm_reused == 200


@pytest.mark.model
@pytest.mark.slow
def test_a_real_variant_is_measured_in_a_process_of_its_own(tmp_path: Path, base_gguf: Path) -> None:
    store = Store(tmp_path / "home")
    store.add_model(base_gguf, "smollm2")
    store.add_adapter(ACME, "acme-style", base="smollm2")
    store.add_variant(
        VariantFile(name="acme", base=BaseRef(name="smollm2"), adapters=(AdapterSpec(name="acme-style"),))
    )
    job = Job(task="check", variant=store.resolve("acme"), home=store.home, prompt_tokens=64, decode_tokens=4)
    label = ask(job).label
    assert label is not None
    assert (label.kind, label.backend) == ("dynamic", "llama.cpp")
    run = ask(job.model_copy(update={"task": "measure"})).run
    assert run is not None
    assert (run.cold_reused, run.warm_reused) == (0, 64)
    # Weights and KV are in the process, and nothing was before.
    assert run.memory.kv is not None
    assert run.memory.snapshot is not None
    assert 0 < run.memory.snapshot < run.memory.kv
    if run.memory.resident_peak is not None:
        assert run.memory.resident_before is not None
        assert run.memory.resident_before + run.memory.base < run.memory.resident_peak


@pytest.mark.model
@pytest.mark.slow
def test_a_real_variant_of_openvino_is_measured_alike(tmp_path: Path, openvino_base: Path) -> None:
    variant = openvino_variant(openvino_base, "acme")
    job = Job(task="measure", variant=variant, home=tmp_path, prompt_tokens=128, decode_tokens=4)
    run = ask(job).run
    assert run is not None
    assert run.cold_reused == 0
    assert 0 < run.warm_reused <= 128  # whole blocks of it, as far as is known
    assert run.memory.snapshot is None
    assert min(run.load_ms, run.decode_tokens_per_s, run.warm_first_ms) > 0
