"""llama.cpp on a real base: replays are bit-identical, adapters never mix, a stop stops."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from smollm2 import ACME, FIM, base_path
from warmline.backends.base import Abort, Aborted, AdapterOnDisk, ContextConfig
from warmline.backends.llama import LlamaBackend, LlamaModel
from warmline.backends.llama_session import LlamaSession
from warmline.digests import DigestCache
from warmline.errors import ArtifactError, BackendError
from warmline.variant import Sampling

pytestmark = pytest.mark.model
DIGESTS = DigestCache()
TEXT = '"""Ledger."""\n\n\nclass Ledger:\n    """Money in cents."""\n\n\ndef transfer('
GREEDY = Sampling()


def adapter(path: Path, scale: float = 1.0) -> AdapterOnDisk:
    return AdapterOnDisk(path.parent.name, path, DIGESTS.digest(path), scale)


@pytest.fixture(scope="module")
def backend() -> Iterator[LlamaBackend]:
    backend = LlamaBackend(DIGESTS)
    yield backend
    backend.close()


@pytest.fixture(scope="module")
def model(backend: LlamaBackend) -> LlamaModel:
    path = base_path()
    return backend.load(path, DIGESTS.digest(path))


def open_session(model: LlamaModel, *adapters: AdapterOnDisk, n_ctx: int = 512, **config: object) -> LlamaSession:
    session = model.open_session(adapters, ContextConfig(n_ctx=n_ctx, record=True, **config))
    assert isinstance(session, LlamaSession)
    return session


def pick(session: LlamaSession, sampling: Sampling = GREEDY) -> int:
    sampler = session.new_sampler(sampling)
    try:
        return sampler.pick()
    finally:
        sampler.close()


def go_on(model: LlamaModel, session: LlamaSession, count: int) -> tuple[str, list[np.ndarray]]:
    """Decode greedily; return the text and the logits before each token."""
    text, logits = b"", []
    for _ in range(count):
        logits.append(session.logits())
        token = pick(session)
        assert token == int(np.argmax(logits[-1]))
        text += model.piece(token)
        session.decode(token, Abort())
    return text.decode("utf-8", "replace"), logits


def complete(model: LlamaModel, text: str, *adapters: AdapterOnDisk, count: int = 16) -> str:
    session = open_session(model, *adapters)
    try:
        session.prefill(model.tokenize(text), Abort()).run()
        return go_on(model, session, count)[0]
    finally:
        session.close()


def test_facts_from_the_vocabulary_alone_are_those_of_the_loaded_model(backend: LlamaBackend) -> None:
    path = base_path()
    digest = DIGESTS.digest(path)
    fresh = LlamaBackend(DIGESTS)
    try:
        alone, loaded = fresh.facts(path, digest), backend.load(path, digest).facts
        for name in alone.__dataclass_fields__:
            if name != "lookup":
                assert getattr(alone, name) == getattr(loaded, name)
        assert alone.lookup("<issue_start>") == loaded.lookup("<issue_start>") == 8
        assert alone.lookup("two words") is None
        assert (alone.n_ctx_train, alone.bos, alone.eos, alone.add_bos) == (8192, 1, 2, False)
    finally:
        fresh.close()


def test_the_version_tells_the_build(backend: LlamaBackend) -> None:
    release, _, build = backend.version.partition("+")
    assert release
    assert len(build) == 12


@pytest.mark.parametrize(
    "text", ["", "x", "def f():\n\treturn 'é😀'\r\n", "<|im_start|>system", " leading", "\x00\x0c\u2028", "\ud800"]
)
def test_tokens_give_the_text_back_and_never_become_special(model: LlamaModel, text: str) -> None:
    tokens = model.tokenize(text)
    assert b"".join(map(model.piece, tokens)) == text.encode("utf-8", "replace")
    assert not set(tokens) & {0, 1, 2}


def test_special_texts_become_tokens_only_where_asked(model: LlamaModel) -> None:
    assert model.tokenize_special("<|im_start|>") == [1]


def test_typing_on_reuses_all_but_the_end(model: LlamaModel) -> None:
    session = open_session(model)
    prompt = model.tokenize(TEXT)
    assert session.prefill(prompt, Abort()).run() == 0
    longer = model.tokenize(TEXT + "self")
    reused = session.prefill(longer, Abort()).run()
    assert reused >= len(prompt) - 1
    assert list(session.tokens) == longer
    assert session.prefill(longer, Abort()).run() == len(longer) - 1
    session.close()


@pytest.mark.parametrize("adapters", [(), (ACME,), (ACME, FIM)], ids=["base", "one", "two"])
def test_a_replay_of_the_same_calls_is_bit_identical(model: LlamaModel, adapters: tuple[Path, ...]) -> None:
    used = [adapter(path) for path in adapters]
    session = open_session(model, *used)
    session.prefill(model.tokenize(TEXT), Abort()).run()
    go_on(model, session, 5)
    session.prefill(model.tokenize("something else entirely"), Abort()).run()
    session.prefill(model.tokenize("something else, and more of it"), Abort()).run()
    session.prefill(model.tokenize(TEXT + "a"), Abort()).run()
    again = open_session(model, *used)
    again.replay(session.lineage)
    assert list(again.tokens) == list(session.tokens)
    np.testing.assert_array_equal(again.logits(), session.logits())
    assert go_on(model, again, 4)[0] == go_on(model, session, 4)[0]
    session.close()
    again.close()


def test_a_planted_fault_breaks_that_equality(model: LlamaModel) -> None:
    """KV of another adapter under the same tokens: the oracle must see it, or it proves nothing."""
    clean, dirty = open_session(model), open_session(model, adapter(ACME))
    prompt = model.tokenize(TEXT)
    for session in (clean, dirty):
        session.prefill(prompt[:-1], Abort()).run()
    dirty._lib.llama_set_adapters_lora(dirty._context, None, 0, None)
    for session in (clean, dirty):
        session.prefill(prompt, Abort()).run()
    assert not np.array_equal(clean.logits(), dirty.logits())
    clean.close()
    dirty.close()


def test_row_6_base_after_adapters_is_a_process_that_never_loaded_one(model: LlamaModel, tmp_path: Path) -> None:
    for adapters in ([adapter(ACME)], [adapter(ACME), adapter(FIM, -0.5)]):
        complete(model, TEXT, *adapters)
    session = open_session(model)
    session.prefill(model.tokenize(TEXT), Abort()).run()
    _, logits = go_on(model, session, 64)
    here = [hashlib.sha256(one.tobytes()).hexdigest() for one in logits]
    script = tmp_path / "fresh.py"
    script.write_text(FRESH)
    steps = json.dumps(session.lineage)
    done = subprocess.run(
        [sys.executable, str(script), str(base_path())], input=steps, capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == here
    assert len(set(here)) == 64
    session.close()


FRESH = """
import hashlib, json, sys
from pathlib import Path
from warmline.backends.base import Abort, ContextConfig
from warmline.backends.llama import LlamaBackend
from warmline.digests import DigestCache
digests = DigestCache()
model = LlamaBackend(digests).load(Path(sys.argv[1]), digests.digest(sys.argv[1]))
session = model.open_session([], ContextConfig(n_ctx=512))
prefill, *decodes = json.load(sys.stdin)
seen = []
session.replay([prefill])
for step in decodes:
    seen.append(hashlib.sha256(session.logits().tobytes()).hexdigest())
    session.replay([step])
print(json.dumps(seen))
"""


def test_row_16_two_adapters_differ_from_each_alone(model: LlamaModel) -> None:
    a, b = adapter(ACME), adapter(FIM)
    texts = [complete(model, TEXT, *used) for used in ([], [a], [b], [a, b])]
    assert len(set(texts)) == 4


def test_row_3_every_scale_acts(model: LlamaModel) -> None:
    logits = []
    for scale in (1.0, 0.5, -1.0, -0.001):
        session = open_session(model, adapter(ACME, scale))
        session.prefill(model.tokenize(TEXT), Abort()).run()
        logits.append(session.logits())
        session.close()
    for index, one in enumerate(logits):
        assert not any(np.array_equal(one, other) for other in logits[index + 1 :])


def test_sessions_of_several_identities_stand_side_by_side(model: LlamaModel) -> None:
    """A, then B, then A again: A's own KV, reused, gives what A alone gives."""
    prompt = model.tokenize(TEXT)
    a, b, base = open_session(model, adapter(ACME)), open_session(model, adapter(FIM)), open_session(model)
    before = []
    for session in (a, b, base):
        session.prefill(prompt, Abort()).run()
        before.append(session.logits())
    for session, logits in zip((a, b, base), before, strict=True):
        assert session.prefill(prompt, Abort()).run() == len(prompt) - 1
        again = open_session(model, *([adapter(ACME)] if session is a else [adapter(FIM)] if session is b else []))
        again.replay(session.lineage)
        np.testing.assert_array_equal(session.logits(), again.logits())
        assert pick(session) == int(np.argmax(logits))
        again.close()
    for session in (a, b, base):
        session.close()


def test_an_adapter_is_loaded_once(model: LlamaModel) -> None:
    complete(model, TEXT, adapter(ACME), count=1)
    loaded = model.adapters_loaded
    complete(model, TEXT, adapter(ACME, 0.25), count=1)
    assert model.adapters_loaded == loaded


def test_effect_is_measured(model: LlamaModel, tmp_path: Path) -> None:
    assert model.probe_effect(adapter(ACME)) > 1
    assert model.probe_effect(adapter(ACME)) == model.probe_effect(adapter(ACME))
    still = without_b(ACME, tmp_path / "still.gguf")
    assert model.probe_effect(adapter(still)) == 0
    assert np.isnan(model.probe_effect(adapter(poisoned(ACME, tmp_path / "nan.gguf"))))


def without_b(source: Path, target: Path) -> Path:
    """Copy an adapter with every B zeroed: it loads, and changes nothing."""
    return rewrite(source, target, lambda data: bytes(len(data)))


def poisoned(source: Path, target: Path) -> Path:
    """Copy an adapter with NaN in B."""
    return rewrite(source, target, lambda data: b"\x00\x7e" * (len(data) // 2))


def rewrite(source: Path, target: Path, change: object) -> Path:
    from warmline.artifacts.gguf import read_header

    assert callable(change)
    data = bytearray(source.read_bytes())
    for name, tensor in read_header(source).tensors.items():
        if name.endswith(".lora_b"):
            data[tensor.offset : tensor.offset + tensor.nbytes] = change(
                bytes(data[tensor.offset : tensor.offset + tensor.nbytes])
            )
    target.write_bytes(data)
    return target


def test_a_prefill_is_stopped_and_goes_on_from_the_batches_that_were_done(model: LlamaModel) -> None:
    session = open_session(model, n_ctx=4096, n_batch=64)
    prompt = (model.tokenize(TEXT) * 60)[:1500]
    abort = Abort()
    seen = threading.Event()

    def watch() -> None:
        while len(session.tokens) < 128:
            seen.wait(0.001)
        abort.set("cancelled")

    thread = threading.Thread(target=watch)
    thread.start()
    with pytest.raises(Aborted):
        session.prefill(prompt, abort).run()
    thread.join()
    kept = len(session.tokens)
    assert 128 <= kept < len(prompt)
    assert kept % 64 == 0
    assert session.prefill(prompt[:400], Abort()).run() == min(kept, 399)
    again = open_session(model, n_ctx=4096, n_batch=64)
    again.replay(session.lineage)
    np.testing.assert_array_equal(again.logits(), session.logits())
    session.close()
    again.close()


def test_a_decode_in_flight_is_stopped_by_native_polling(model: LlamaModel) -> None:
    """One batch, no boundary to stop at: only the poll inside the graph can end it."""
    session = open_session(model, n_ctx=2048, n_batch=2048)
    prompt = (model.tokenize(TEXT) * 90)[:2000]
    abort = Abort()
    threading.Timer(0.05, abort.set, ("cancelled",)).start()
    with pytest.raises(Aborted):
        session.prefill(prompt, abort).run()
    assert len(session.tokens) == 0
    short = prompt[:20]
    assert session.prefill(short, Abort()).run() == 0
    fresh = open_session(model, n_ctx=2048, n_batch=2048)
    fresh.prefill(short, Abort()).run()
    np.testing.assert_array_equal(fresh.logits(), session.logits())
    session.close()
    fresh.close()


def test_sampling_with_a_seed_is_repeatable_and_temperature_acts(model: LlamaModel) -> None:
    def sampled(seed: int) -> list[int]:
        sampling = Sampling(temperature=1.5, top_k=0, top_p=1, seed=seed)
        session = open_session(model)
        session.prefill(model.tokenize(TEXT), Abort()).run()
        sampler = session.new_sampler(sampling)
        tokens = []
        for _ in range(12):
            tokens.append(sampler.pick())
            session.decode(tokens[-1], Abort())
        session.close()
        return tokens

    assert sampled(1) == sampled(1)
    assert len({tuple(sampled(seed)) for seed in range(4)}) > 1


def test_a_tokens_probability_is_the_softmax_of_the_models_own_logits(model: LlamaModel) -> None:
    session = open_session(model)
    session.prefill(model.tokenize(TEXT), Abort()).run()
    exact = np.exp(session.logits().astype(np.float64))
    exact /= exact.sum()
    for sampling in (GREEDY, Sampling(temperature=1.5, top_k=2, seed=3)):
        sampler = session.new_sampler(sampling)
        for token in (sampler.pick(), 0, 1000):
            assert sampler.probability(token) == pytest.approx(exact[token], rel=1e-4)
        sampler.close()
    session.close()


def test_a_prompt_longer_than_the_context_is_an_error(model: LlamaModel) -> None:
    session = open_session(model, n_ctx=256)
    with pytest.raises(BackendError) as caught:
        session.prefill([5] * 300, Abort()).run()
    assert caught.value.code == "backend.prompt"
    session.close()


def test_a_full_context_is_an_error_and_the_session_lives_on(model: LlamaModel) -> None:
    session = open_session(model, n_ctx=256)
    session.prefill([5] * 256, Abort()).run()
    with pytest.raises(BackendError) as caught:
        session.decode(5, Abort())
    assert caught.value.code == "backend.decode"
    assert session.prefill([5] * 10, Abort()).run() == 9
    session.close()


def test_a_file_that_changed_after_it_was_verified_is_not_loaded(model: LlamaModel, tmp_path: Path) -> None:
    path = rewrite(ACME, tmp_path / "adapter.gguf", lambda data: data[::-1])
    verified = adapter(path)
    path.write_bytes(FIM.read_bytes())
    with pytest.raises(ArtifactError) as caught:
        model.open_session([verified], ContextConfig(n_ctx=256))
    assert caught.value.code == "artifact.digest"


def test_a_base_that_is_cut_or_rewritten_while_it_is_resident_changes_nothing(
    backend: LlamaBackend, model: LlamaModel, tmp_path: Path
) -> None:
    path = tmp_path / "base.gguf"
    shutil.copyfile(base_path(), path)
    resident = backend.load(path, DIGESTS.digest(path))
    assert str(path) not in Path("/proc/self/maps").read_text()
    with path.open("r+b") as file:
        file.truncate(1000)
    assert complete(resident, TEXT) == complete(model, TEXT)


def test_what_llama_cpp_refuses_comes_with_its_own_words(model: LlamaModel, tmp_path: Path) -> None:
    from gguf_writer import lora

    path = tmp_path / "adapter.gguf"
    path.write_bytes(lora({"blk.99.attn_q.weight.lora_a": ([576, 4], 1), "blk.99.attn_q.weight.lora_b": ([4, 576], 1)}))
    with pytest.raises(ArtifactError) as caught:
        model.open_session([adapter(path)], ContextConfig(n_ctx=256))
    assert caught.value.code == "artifact.adapter.load"
    assert "blk.99" in caught.value.message
