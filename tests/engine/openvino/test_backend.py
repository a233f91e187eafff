"""OpenVINO with the real model: own pipelines, own KV, honest reuse, typed errors."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import smollm2
from openvino_variants import PEFT, Engine, variant
from safetensors_writer import lora_tensors, peft_config, peft_folder
from warmline.backends.base import Abort, AdapterOnDisk, ContextConfig
from warmline.backends.llama import LlamaBackend
from warmline.backends.openvino import OpenVinoBackend, OpenVinoModel
from warmline.backends.openvino_canary import probe
from warmline.backends.openvino_guarantee import remember, remembered
from warmline.backends.openvino_native import PRECISE
from warmline.backends.openvino_pipeline import BLOCK, CachedPrefixes, Recipe
from warmline.backends.openvino_session import OpenVinoSession
from warmline.digests import DigestCache
from warmline.store.folders import digest_folder
from warmline.variant import Sampling

pytestmark = [pytest.mark.model, pytest.mark.slow]

CODE = (smollm2.ROOT / "examples/ledger.py").read_text()[:1200]
GREEDY = Sampling()
CONFIG = ContextConfig(n_ctx=512, properties=tuple(PRECISE.items()))


@pytest.fixture(scope="module")
def digests() -> DigestCache:
    return DigestCache()


@pytest.fixture(scope="module")
def model(openvino_base: Path, digests: DigestCache, engine: Engine) -> OpenVinoModel:
    """The base, loaded by the engine's own backend: no more pipelines than the engine allows."""
    return engine.openvino.load(openvino_base, digest_folder(openvino_base, digests.digest_descriptor)[0])


@pytest.fixture(scope="module")
def acme(digests: DigestCache) -> AdapterOnDisk:
    path = PEFT["acme"] / "adapter_model.safetensors"
    return AdapterOnDisk("acme", path, digests.digest(path), 2.0)


def run(session: Any, prompt: list[int], count: int, sampling: Sampling = GREEDY) -> list[int]:
    abort = Abort()
    sampler = session.new_sampler(sampling)
    session.prefill(prompt, abort).run()
    found = [sampler.pick()]
    while len(found) < count:
        session.decode(found[-1], abort)
        found.append(sampler.pick())
    sampler.close()
    return found


def test_a_b_and_a_again_are_what_fresh_engines_say(engine: Engine, openvino_base: Path) -> None:
    a, b = variant(openvino_base, "acme"), variant(openvino_base)
    first = {name: engine.complete(of, CODE).done.text for name, of in (("a", a), ("b", b))}
    assert first["a"] != first["b"]
    again = engine.complete(a, CODE)
    assert again.done.text == first["a"]
    assert again.started.reused_estimated
    assert again.started.reused_tokens > again.started.prompt_tokens // 2  # its own pipeline was still warm
    llama = engine.complete(variant(smollm2.base_path(), "acme", backend="llama"), CODE)
    assert llama.started.reason == "identity:backend.name"
    assert llama.started.reused_tokens == 0
    assert llama.done.text == first["a"]
    fresh = Engine(effects=engine.effects)
    try:
        # One warm pipeline: the second one takes the first one's place, and the first one comes back without its KV.
        assert fresh.complete(b, CODE).done.text == first["b"]
        assert fresh.complete(a, CODE, document="other").done.text == first["a"]
        assert len(fresh.openvino.warm) == 1
        back = fresh.complete(b, CODE)
        assert (back.started.reason, back.started.reused_tokens) == ("evicted", 0)
        assert back.done.text == first["b"]
    finally:
        fresh.close()


def test_todays_prefix_cache_mixes_adapters_and_ours_does_not(
    model: OpenVinoModel, acme: AdapterOnDisk, digests: DigestCache, engine: Engine, tmp_path: Path
) -> None:
    engine.openvino.warm.make_room()
    recipe = Recipe(model.path, model.digest, (acme,), CONFIG)
    found = probe(recipe, model.tokenize(CODE)[:150], digests)
    assert found.own_apart
    assert found.shared_mixes, "this version keeps adapters apart by itself: one pipeline for all may be thought of"
    remember(tmp_path, found)
    assert remembered(tmp_path, found.version) == found
    assert remembered(tmp_path, "another") is None


def test_a_chat_that_a_completion_interrupts_says_what_it_would_have_said(engine: Engine, openvino_base: Path) -> None:
    of = variant(openvino_base, "acme")
    ask = "Write a Python function that adds two numbers, and explain it."
    whole = engine.chat(of, ask, max_tokens=40).done.text
    heard = engine.chat(of, ask, max_tokens=40)
    assert heard.first.wait(60)
    between = engine.complete(of, CODE[:400])
    assert not heard.over.is_set()
    assert heard.done.text == whole
    assert between.done.text
    assert engine.pool.counters["resumed_by_prefill"] >= 1


def test_cancelling_and_deadlines_end_within_a_token(engine: Engine, openvino_base: Path) -> None:
    of = variant(openvino_base, "acme")
    heard = engine.ask(of, CODE, max_tokens=200)
    assert heard.first.wait(60)
    heard.cancel()
    assert heard.done.outcome == "cancelled"
    assert engine.complete(of, CODE, max_predict_ms=1).done.outcome == "deadline"
    late = engine.complete(of, "import os\n" + CODE, max_prefill_ms=1).done
    assert (late.outcome, late.text) == ("deadline", "")
    assert engine.complete(of, CODE).done.text


def test_seeds_and_probabilities(model: OpenVinoModel, engine: Engine, openvino_base: Path) -> None:
    session = model.open_session([], CONFIG)
    prompt = model.tokenize(CODE)[:70]
    drawn = [run(session, prompt, 8, Sampling(temperature=0.9, seed=seed)) for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    sampler = session.new_sampler(Sampling())
    session.prefill(prompt, Abort()).run()
    token = sampler.pick()
    sure = sampler.probability(token)
    assert sure is not None
    assert 0 < sure <= 1
    assert sampler.probability(token + 1) is None
    session.close()


def test_reuse_is_never_less_than_we_say(openvino_base: Path, digests: DigestCache, engine: Engine) -> None:
    """A pipeline that computes one token a step: its steps tell what it really reused."""
    engine.openvino.warm.make_room()
    model = OpenVinoBackend(digests).load(openvino_base, digest_folder(openvino_base, digests.digest_descriptor)[0])
    session = model.open_session([], replace(CONFIG, n_ctx=160, n_batch=1))
    assert isinstance(session, OpenVinoSession)
    session._compute = lambda tokens: None  # type: ignore[method-assign]  # all is left to the request
    rng = np.random.default_rng(1)
    known: list[list[int]] = []
    kept = 0
    for _ in range(7):
        if known and rng.random() < 0.8:
            start = known[rng.integers(len(known))]
            prompt = start[: rng.integers(1, len(start) + 1)] + rng.integers(100, 40_000, rng.integers(0, 40)).tolist()
        else:
            prompt = rng.integers(100, 40_000, rng.integers(1, 110)).tolist()
        prompt = prompt[:150]
        sampler = session.new_sampler(GREEDY)
        said = session.prefill(prompt, Abort()).run()
        with patch.object(session, "step", wraps=session.step) as step:
            first = sampler.pick()
        really = len(prompt) - step.call_count
        assert said <= really, (said, really, len(prompt))
        assert really - said <= BLOCK or sum(map(len, known)) > 250
        kept += said
        session.decode(first, Abort())
        second = sampler.pick()
        sampler.close()
        known.append([*prompt, first, second])
    assert kept > 60
    model.close()


def test_what_is_cached_is_forgotten_from_the_oldest_on() -> None:
    cached = CachedPrefixes(4 * BLOCK)
    one, two = list(range(100)), list(range(1000, 1060))
    cached.add(one)
    assert cached.reused(one) == 96
    assert cached.reused(one[:96]) == 95
    assert cached.reused([*one[:70], 5, 5]) == 64
    cached.add(two)
    assert (cached.reused(one), cached.reused(two)) == (0, 32)
    cached.add([*two, 1, 2, 3, 4])
    assert cached.reused([*two, 1, 2, 3, 4, 5]) == 64


def resident_mib() -> int:
    rows = Path("/proc/self/status").read_text().splitlines()
    return next(int(row.split()[1]) // 1024 for row in rows if row.startswith("VmRSS"))


def test_a_pipelines_memory_comes_back(model: OpenVinoModel, engine: Engine) -> None:
    engine.openvino.warm.make_room()
    before = resident_mib()
    session = model.open_session([], CONFIG)
    run(session, model.tokenize(CODE)[:100], 4)
    grown = resident_mib() - before
    assert grown > 100
    (taken,) = engine.openvino.warm.taken[-1:]
    assert (model.path / "openvino_model.bin").stat().st_size < taken.nbytes < 2 * grown << 20
    session.close()
    assert resident_mib() - before < grown * 0.2


def test_a_budget_that_holds_one_pipeline_keeps_the_latest(
    openvino_base: Path, digests: DigestCache, engine: Engine
) -> None:
    """The count would let both stay; the real ones are as large as the budget."""
    engine.openvino.warm.make_room()
    size = (openvino_base / "openvino_model.bin").stat().st_size
    backend = OpenVinoBackend(digests, warm_pipelines=2, pipeline_bytes=size * 3 // 2)
    model = backend.load(openvino_base, digest_folder(openvino_base, digests.digest_descriptor)[0])
    first, second = (model.open_session([], replace(CONFIG, n_ctx=n_ctx)) for n_ctx in (128, 256))
    assert (first.resident, second.resident, len(backend.warm)) == (False, True, 1)
    assert run(second, model.tokenize(CODE)[:20], 2)
    backend.close()


def test_plain_text_never_becomes_a_special_token(model: OpenVinoModel, engine: Engine) -> None:
    specials = {model.facts.lookup(text) for text in model.facts.special_texts}
    assert len(specials) > 10
    path = smollm2.base_path()
    digests = DigestCache()
    other = LlamaBackend(digests).load(path, digests.digest(path))
    for text in sorted(model.facts.special_texts):
        for around in (text, f"a{text}b", text * 3, f"<{text}>", text[:-1] + text, f"\ud800{text}"):
            tokens = model.tokenize(around)
            assert not specials & set(tokens)
            assert b"".join(map(model.piece, tokens)).decode() == around.encode("utf-8", "replace").decode()
        assert model.tokenize_special(f"a{text}") == other.tokenize_special(f"a{text}")
        assert model.piece(model.facts.lookup(text) or 0) == b""
    for text in (CODE, CODE * 30, "", "日本語 é🎉\u2028x\r\n\t½", "don't 12345  \n\n  x"):
        assert model.tokenize(text) == other.tokenize(text)
    assert (model.facts.end_of_generation, model.facts.bos, model.facts.eos, model.facts.add_bos) == (
        other.facts.end_of_generation,
        other.facts.bos,
        other.facts.eos,
        other.facts.add_bos,
    )
    assert model.facts.special_texts == other.facts.special_texts
    assert model.facts.chat_template == other.facts.chat_template
    other.close()


def adapter_folder(folder: Path, change: Callable[[dict[str, Any]], None] = lambda _: None, **config: Any) -> Path:
    tensors = dict(lora_tensors({"model.layers.0.self_attn.q_proj": (576, 576)}))
    change(tensors)
    return peft_folder(folder, tensors, peft_config(**config))


def short_names(tensors: dict[str, Any]) -> None:
    for name in list(tensors):
        tensors[name.removeprefix("base_model.model.model.layers.0.self_attn.")] = tensors.pop(name)


def another_layer(tensors: dict[str, Any]) -> None:
    for name in list(tensors):
        tensors[name.replace("layers.0", "layers.99")] = tensors.pop(name)


def test_bad_input_gets_a_typed_error_with_a_remedy_and_the_engine_lives_on(
    engine: Engine, openvino_base: Path, tmp_path: Path
) -> None:
    corrupt = adapter_folder(tmp_path / "corrupt")
    (corrupt / "adapter_model.safetensors").write_bytes(b"\xff" * 64)
    bare = tmp_path / "bare"
    bare.mkdir()
    for name in ("openvino_model.xml", "openvino_model.bin", "config.json"):
        shutil.copy(openvino_base / name, bare / name)
    bad = {
        "artifact.backend": variant(openvino_base, smollm2.ACME),
        "artifact.peft.name": variant(openvino_base, adapter_folder(tmp_path / "short", short_names)),
        "artifact.peft.dora": variant(openvino_base, adapter_folder(tmp_path / "dora", use_dora=True)),
        "artifact.safetensors.header_size": variant(openvino_base, corrupt),
        "artifact.openvino.unmatched": variant(openvino_base, adapter_folder(tmp_path / "other", another_layer)),
        "artifact.openvino.tokenizer": variant(bare),
        "backend.device": variant(openvino_base, openvino={"device": "NPU"}),
        "backend.kv_type": variant(openvino_base, type_k="q4_0"),
        "artifact.folder": variant(smollm2.base_path()),
    }
    for code, of in bad.items():
        error = engine.refused(of)
        assert error.code == code, error
        assert error.remedy
        assert error.file == "v.json"
    assert engine.complete(variant(openvino_base, "acme"), CODE).done.text


def test_the_config_beside_the_weights_counts(engine: Engine, openvino_base: Path, tmp_path: Path) -> None:
    """A changed alpha is another identity although the weights are the same, and rsLoRA has a factor of its own."""
    folder = tmp_path / "a"
    shutil.copytree(PEFT["acme"], folder)
    of = variant(openvino_base, folder)
    seen = [engine.service.describe(of).adapters[0]]
    config = json.loads((folder / "adapter_config.json").read_text())
    for change in ({"lora_alpha": 2 * config["lora_alpha"]}, {"use_rslora": True}):
        (folder / "adapter_config.json").write_text(json.dumps(config | change))
        seen.append(engine.service.describe(of).adapters[0])
    assert [one.effective_scale for one in seen] == ["2", "4", "4"]
    assert len({one.digest for one in seen}) == 1
