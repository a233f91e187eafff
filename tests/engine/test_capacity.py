"""What a variant takes: worked out from headers by hand here, and against what llama.cpp really allocates."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import gguf_writer as w
import pytest
from fake_backend import FakeBackend, write_adapter, write_base
from gemma3 import base_path as gemma3_path
from hypothesis import given
from hypothesis import strategies as st
from warmline.artifacts.gguf import GGUFHeader, read_header
from warmline.capacity import CONTEXT_PAD, Capacity, kv_rows, measure, padded, row_bytes, swa_pattern
from warmline.digests import DigestCache
from warmline.variant import Profile, ResolvedAdapter, ResolvedBase, ResolvedVariant
from warmline.verified import Verifier


def header(architecture: str = "llama", **keys: int | list[int] | list[bool]) -> GGUFHeader:
    given = {"block_count": 4, "embedding_length": 64, "attention__head_count": 8} | keys
    kvs = [w.kv_str("general.architecture", architecture)]
    for key, value in given.items():
        name = f"{architecture}.{key.replace('__', '.')}"
        if isinstance(value, list):
            kind, size = (w.BOOL, 1) if isinstance(value[0], bool) else (w.U32, 4)
            kvs.append(w.kv_arr(name, kind, len(value), b"".join(int(v).to_bytes(size, "little") for v in value)))
        else:
            kvs.append(w.kv(name, w.U32, w.u32(value)))
    infos, size = w.laid_out({"x.weight": ((64, 10), w.TENSOR_F16)})
    return read_header(io.BytesIO(w.gguf(kvs, infos, data=size)), label="b")


@pytest.mark.parametrize(
    ("base", "rows"),
    [
        (header(), [(64, 64)] * 4),
        (header(attention__head_count_kv=2), [(16, 16)] * 4),
        (header(attention__head_count_kv=2, attention__key_length=32, attention__value_length=16), [(64, 32)] * 4),
        (header(attention__head_count_kv=[2, 0, 1, 0]), [(16, 16), (8, 8)]),
        (header("gemma4", attention__head_count_kv=1, attention__shared_kv_layers=1), [(8, 8)] * 3),
        (
            header(
                "gemma4",
                attention__head_count_kv=1,
                attention__key_length=16,
                attention__value_length=16,
                attention__key_length_swa=4,
                attention__value_length_swa=2,
                attention__sliding_window=32,
                attention__sliding_window_pattern=[True, True, True, False],
            ),
            [(4, 2)] * 3 + [(16, 16)],
        ),
        (header("gemma3n", block_count=30, attention__head_count_kv=1), [(8, 8)] * 20),
        (header("mamba", ssm__state_size=16), None),
        (header("deepseek2", attention__kv_lora_rank=512), None),
        (header(attention__head_count=[8, 8]), None),
        (header(attention__head_count=0), None),
        (header(block_count=0), None),
        (header(block_count=2**31), None),
    ],
)
def test_rows_of_a_cell(base: GGUFHeader, rows: Any) -> None:
    found, note = kv_rows(base)
    assert found == rows
    assert bool(note) is (rows is None)


@pytest.mark.parametrize(
    ("base", "layers"),
    [
        (header(), 0),
        (header("mistral", attention__sliding_window=4096), 4),
        (header("gemma3", block_count=18, attention__sliding_window=512), 15),
        (header("gemma2", attention__sliding_window=512), 2),
        (header("x", attention__sliding_window=512, attention__sliding_window_pattern=4), 3),
        (header("x", attention__sliding_window=5, attention__sliding_window_pattern=[True, False, False, False]), 1),
    ],
)
def test_layers_with_a_window_are_noted(base: GGUFHeader, layers: int) -> None:
    capacity = measure(base, n_ctx=512, n_ctx_train=512)
    assert (capacity.swa_layers, sum(swa_pattern(base, capacity.n_layer))) == (layers, layers)


@pytest.mark.parametrize(
    ("kind", "size"),
    [("f32", 256), ("f16", 128), ("bf16", 128), ("q8_0", 68), ("q5_1", 48), ("q4_0", 36), ("q4_1", 40)],
)
def test_quantised_rows_are_whole_blocks(kind: str, size: int) -> None:
    assert row_bytes(64, kind) == size


def test_before_and_after_the_adapter() -> None:
    base = header(attention__head_count_kv=2)
    per_token = 4 * 2 * 16 * 2
    budget = 64 * 10 * 2 + per_token * 1024
    before = measure(base, n_ctx=9999, n_ctx_train=4096, budget_bytes=budget)
    assert (before.kv_bytes_per_token, before.base_bytes) == (per_token, 1280)
    assert (before.n_ctx, before.requested, before.clamped) == (4096, 9999, True)
    assert (before.fits_before, before.fits_after, before.fits) == (1024, 1024, False)
    after = measure(base, n_ctx=768, n_ctx_train=4096, budget_bytes=budget, adapter_bytes=1)
    assert (after.fits_before, after.fits_after, after.fits, after.clamped) == (1024, 768, True, False)
    assert after.kv_bytes == per_token * 768
    none = measure(base, n_ctx=768, n_ctx_train=4096, budget_bytes=10)
    assert (none.fits_before, none.fits) == (0, False)
    assert measure(base, n_ctx=768, n_ctx_train=4096).fits is None


@given(st.integers(1, 1 << 20), st.integers(256, 1 << 20), st.integers(0, 1 << 40), st.integers(0, 1 << 30))
def test_what_fits_really_fits_and_more_does_not(n_ctx: int, train: int, budget: int, adapter: int) -> None:
    capacity = measure(
        header(attention__head_count_kv=2), n_ctx=n_ctx, n_ctx_train=train, budget_bytes=budget, adapter_bytes=adapter
    )
    per_token, weights = capacity.kv_bytes_per_token or 0, capacity.base_bytes + adapter
    fits = capacity.fits_after
    assert fits is not None
    assert fits <= (capacity.fits_before or 0) <= train
    assert not fits or weights + per_token * (fits // CONTEXT_PAD * CONTEXT_PAD) <= budget
    if fits + CONTEXT_PAD <= train:
        assert weights + per_token * (fits + CONTEXT_PAD) > budget
    assert padded(n_ctx) % CONTEXT_PAD == 0
    assert 0 <= padded(n_ctx) - n_ctx < CONTEXT_PAD


def test_a_status_tells_the_capacity(tmp_path: Path) -> None:
    variant = ResolvedVariant(
        name="v",
        backend="llama",
        base=ResolvedBase(name="b", path=write_base(tmp_path / "b.gguf")),
        adapters=(
            ResolvedAdapter.model_validate({"name": "a", "path": write_adapter(tmp_path / "a.gguf"), "scale": 1}),
        ),
        profile=Profile(n_ctx=9999),
        file="v.json",
    )
    verifier = Verifier(FakeBackend(), DigestCache(), lambda digest: True)
    status = verifier.verify(variant).status()
    capacity = status.capacity
    assert isinstance(capacity, Capacity)
    assert (capacity.adapter_bytes, capacity.clamped, capacity.n_ctx) == (2 * (64 * 4 + 4 * 32), True, 8192)
    assert capacity.budget_bytes
    again = type(status).model_validate_json(status.model_dump_json())
    assert again == status
    assert again.capacity == capacity


SCRIPT = """
import sys
import llama_cpp as l
lines = []
log = l.llama_log_callback(lambda level, text, data: lines.append(text.decode("utf-8", "replace")))
l.llama_log_set(log, None)
params = l.llama_model_default_params()
params.n_gpu_layers = 0
model = l.llama_model_load_from_file(sys.argv[1].encode(), params)
config = l.llama_context_default_params()
config.n_ctx, config.n_batch, config.n_ubatch = int(sys.argv[2]), 32, 32
config.type_k, config.type_v = int(sys.argv[3]), int(sys.argv[4])
context = l.llama_init_from_model(model, config)
print("".join(lines))
l.llama_free(context)
"""
TYPE_IDS = {"f32": 0, "f16": 1, "q4_0": 2, "q8_0": 8}


def allocated(model: Path, n_ctx: int, type_k: str, type_v: str) -> tuple[int, int]:
    """Let the library make a context, in a process of its own; give bytes and cells of its KV, as its log says."""
    arguments = [str(model), str(n_ctx), str(TYPE_IDS[type_k]), str(TYPE_IDS[type_v])]
    done = subprocess.run([sys.executable, "-c", SCRIPT, *arguments], capture_output=True, text=True, check=True)
    found = re.findall(r"llama_kv_cache: size = +([\d.]+) MiB \( *(\d+) cells", done.stdout)
    assert found, done.stdout[-3000:]
    return sum(round(float(size) * (1 << 20)) for size, _ in found), max(int(cells) for _, cells in found)


@pytest.mark.model
@pytest.mark.parametrize(
    ("n_ctx", "type_k", "type_v"),
    [(300, "f16", "f16"), (2048, "f16", "f16"), (1024, "q8_0", "q4_0"), (512, "f32", "f32")],
)
def test_the_library_allocates_what_we_say(base_gguf: Path, n_ctx: int, type_k: str, type_v: str) -> None:
    total, cells = allocated(base_gguf, n_ctx, type_k, type_v)
    capacity = measure(read_header(base_gguf), n_ctx=n_ctx, n_ctx_train=8192, type_k=type_k, type_v=type_v)
    assert cells == padded(n_ctx)
    assert capacity.kv_bytes is not None
    assert abs(capacity.kv_bytes - total) <= 0.011 * (1 << 20)  # the log has two decimals of a MiB
    if type_k == type_v == "f16":
        assert capacity.kv_bytes_per_token == 30 * 2 * 3 * 64 * 2


@pytest.mark.model
@pytest.mark.slow
def test_a_base_with_a_sliding_window_too(repo: Path) -> None:
    model = gemma3_path()
    base = read_header(model)
    total, cells = allocated(model, 2048, "f16", "f16")
    capacity = measure(base, n_ctx=2048, n_ctx_train=32768)
    assert (capacity.n_layer, capacity.swa_layers) == (18, 15)
    assert capacity.kv_bytes is not None
    assert cells == 2048
    assert abs(capacity.kv_bytes - total) <= 0.021 * (1 << 20)


@pytest.mark.model
def test_a_full_context_saves_as_many_bytes_as_we_say(base_gguf: Path) -> None:
    """`llama_state_seq_get_size` of n tokens: n cells of KV, and a small head."""
    from warmline.backends.base import Abort, ContextConfig
    from warmline.backends.llama import LlamaBackend

    backend = LlamaBackend(DigestCache())
    loaded = backend.load(base_gguf, DigestCache().digest(base_gguf))
    try:
        session = loaded.open_session([], ContextConfig(n_ctx=512))
        session.prefill(list(range(100, 400)), Abort()).run()
        saved = len(session.save())
    finally:
        backend.close()
    per_token = measure(read_header(base_gguf), n_ctx=512, n_ctx_train=8192).kv_bytes_per_token
    assert per_token
    assert 300 * per_token <= saved <= 300 * (per_token + 64) + 4096
