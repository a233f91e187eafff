"""PEFT to GGUF: the same adapter comes out, under llama.cpp's names, in its row order, at PEFT's scale."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from gguf_writer import TENSOR_F16, U32, gguf, kv, kv_str, laid_out, u32
from safetensors_writer import large_folder, lora_tensors, names, peft_config, peft_folder
from smollm2 import ADAPTERS, base_path
from tiny_base import (
    BLOCKS,
    FFN,
    HEAD,
    HEADS,
    HIDDEN,
    KV_HEADS,
    MODULES,
    VOCAB,
    array,
    base_of,
    factors_of,
    read_by_the_reference,
)
from warmline.artifacts.architectures import ARCHITECTURES
from warmline.artifacts.convert import base_model, convert_peft
from warmline.artifacts.gguf import GGUFHeader, read_header
from warmline.artifacts.lora import read_adapter
from warmline.artifacts.matrix import Array
from warmline.backends.base import Abort, AdapterOnDisk, ContextConfig
from warmline.backends.llama import LlamaBackend
from warmline.digests import DigestCache


@pytest.fixture
def target(tmp_path: Path) -> Path:
    (tmp_path / "store").mkdir()
    return tmp_path / "store" / "adapter.gguf"


@pytest.fixture(scope="module")
def smollm2() -> GGUFHeader:
    return read_header(base_path())


# ---- the examples, against llama.cpp's own converter ----


@pytest.mark.parametrize(("name", "permuted"), [("acme-style", 30), ("fim-python", 60)])
def test_the_examples_come_out_as_llama_cpps_own_converter_made_them(
    name: str, permuted: int, smollm2: GGUFHeader, target: Path
) -> None:
    report = convert_peft(ADAPTERS / name, smollm2, target)
    theirs_path = ADAPTERS / name / "adapter.gguf"
    ours, theirs = read_header(target), read_header(theirs_path)
    ours_bytes, theirs_bytes = target.read_bytes(), theirs_path.read_bytes()
    assert list(ours.tensors) == list(theirs.tensors)
    for tensor in ours.tensors.values():
        same = theirs.tensors[tensor.name]
        assert (tensor.shape, tensor.dtype) == (same.shape, same.dtype)
        assert ours_bytes[tensor.offset :][: tensor.nbytes] == theirs_bytes[same.offset :][: same.nbytes]
    for key in ("general.architecture", "general.type", "adapter.type", "adapter.lora.alpha"):
        assert (ours.types[key], ours.metadata[key]) == (theirs.types[key], theirs.metadata[key])
    assert (report.n_permuted, report.widened, report.factor) == (permuted, False, 2.0)
    assert report.worst < 1
    assert report.nbytes == ours.file_size == len(ours_bytes)
    assert report.adapter == read_adapter(target)


def test_the_metadata_says_where_it_is_from(smollm2: GGUFHeader, tmp_path: Path, target: Path) -> None:
    folder = peft_folder(
        tmp_path / "my-adapter", lora_tensors({"model.layers.0.self_attn.v_proj": (576, 192)}), peft_config()
    )
    (folder / "README.md").write_text("---\nlicense: apache-2.0\n---\n")
    plain = convert_peft(folder, smollm2, target).adapter
    assert (plain.name, plain.license, plain.base_models) == ("my-adapter", "apache-2.0", ())
    config = peft_config(base_model_name_or_path="HuggingFaceTB/SmolLM2-135M-Instruct")
    (folder / "adapter_config.json").write_text(json.dumps(config))
    named = convert_peft(folder, smollm2, target, name="Other").adapter
    assert named.name == "Other"
    assert (named.base_models[0].organization, named.base_models[0].name) == ("HuggingFaceTB", "SmolLM2-135M-Instruct")


@pytest.mark.parametrize(
    ("declared", "expected"),
    [
        ("Qwen/Qwen2.5-Coder-0.5B", ("Qwen", "Qwen2.5-Coder-0.5B")),
        ("gpt2", (None, "gpt2")),
        ("/srv/somebody/models/secret-project/qwen", (None, "qwen")),
        ("./models/qwen/", (None, "qwen")),
        ("C:\\Users\\somebody\\qwen", (None, "qwen")),
        ("a\nb", (None, "a\\x0ab")),
        ("/", None),
        ("", None),
        (None, None),
    ],
)
def test_of_a_path_only_the_bases_name_is_kept(declared: str | None, expected: tuple[str | None, str] | None) -> None:
    found = base_model(declared)
    assert (found and (found.organization, found.name)) == expected


def test_the_same_folder_and_name_give_the_same_bytes(tmp_path: Path) -> None:
    folder = peft_folder(tmp_path / "a", factors_of("llama"))
    for name in ("one.gguf", "two.gguf"):
        convert_peft(folder, base_of("llama"), tmp_path / name)
    assert (tmp_path / "one.gguf").read_bytes() == (tmp_path / "two.gguf").read_bytes()


# ---- each architecture ----


@pytest.mark.parametrize("architecture", MODULES)
def test_each_architecture_gets_its_names_and_row_order(architecture: str, tmp_path: Path, target: Path) -> None:
    tensors = factors_of(architecture)
    report = convert_peft(peft_folder(tmp_path / "a", tensors), base_of(architecture), target)
    written = read_by_the_reference(target)
    expected = {}
    for block in range(BLOCKS):
        for module, (name, _, _) in MODULES[architecture].items():
            a, b = (array(tensors[half]) for half in names(f"model.layers.{block}.{module}"))
            if architecture == "llama" and name in ("attn_q", "attn_k"):
                n_heads = HEADS if name == "attn_q" else KV_HEADS
                b = b.reshape(n_heads, 2, -1, b.shape[1]).swapaxes(1, 2).reshape(b.shape)
            expected[f"blk.{block}.{name}.weight.lora_a"] = a
            expected[f"blk.{block}.{name}.weight.lora_b"] = b
    assert set(written) == set(expected)
    for name, values in expected.items():
        np.testing.assert_array_equal(written[name], values, name)
    assert report.n_permuted == (2 * BLOCKS if architecture == "llama" else 0)
    assert report.adapter.architecture == architecture


def test_every_architecture_is_tested() -> None:
    assert set(MODULES) == set(ARCHITECTURES)


@pytest.mark.parametrize("architecture", MODULES)
def test_the_output_layer_is_converted_where_the_base_has_its_own(
    architecture: str, tmp_path: Path, target: Path
) -> None:
    folder = peft_folder(tmp_path / "a", lora_tensors({"lm_head": (HIDDEN, VOCAB)}))
    report = convert_peft(folder, base_of(architecture), target)
    assert [pair.target for pair in report.adapter.pairs] == ["output.weight"]


@pytest.mark.parametrize("prefix", ["model.language_model.layers.", "language_model.model.layers."])
def test_the_text_part_of_a_gemma_with_eyes_is_converted(prefix: str, tmp_path: Path, target: Path) -> None:
    folder = peft_folder(tmp_path / "a", factors_of("gemma3", prefix=prefix))
    assert len(convert_peft(folder, base_of("gemma3"), target).adapter.pairs) == 7 * BLOCKS


@pytest.mark.parametrize("r", [1, 2, 3, 8, 64])
def test_rank_stabilised_lora_is_folded_into_alpha(r: int, tmp_path: Path, target: Path) -> None:
    """Rows 9 and 10: alpha / sqrt(r) must reach a runtime that knows only alpha / r."""
    tensors = factors_of("qwen2", r)
    folder = peft_folder(tmp_path / "a", tensors, peft_config(r, lora_alpha=16, use_rslora=True))
    report = convert_peft(folder, base_of("qwen2"), target)
    assert report.adapter.alpha == np.float32(16 * math.sqrt(r))
    assert report.factor == pytest.approx(16 / math.sqrt(r), rel=1e-7)
    folder = peft_folder(tmp_path / "b", tensors, peft_config(r, lora_alpha=16))
    report = convert_peft(folder, base_of("qwen2"), target)
    assert (report.adapter.alpha, report.factor) == (16.0, 16 / r)


@pytest.mark.parametrize(("dtype", "written"), [("F32", "f32"), ("F16", "f16"), ("BF16", "f32")])
def test_no_type_loses_anything(dtype: str, written: str, tmp_path: Path, target: Path) -> None:
    module = "model.layers.0.mlp.up_proj"
    rng = np.random.default_rng(1)
    # All magnitudes that the type has, its smallest ones included.
    bits = rng.integers(0, 2**32 if dtype == "F32" else 2**16, 8_192).astype("<u4" if dtype == "F32" else "<u2")
    numbers = array((dtype, bits.shape, bits.tobytes()))
    bits = bits[np.isfinite(numbers)][: 2 * (HIDDEN + FFN)]
    a, b = bits[: 2 * HIDDEN], bits[2 * HIDDEN :]
    halves = names(module)
    tensors = {halves[0]: (dtype, (2, HIDDEN), a.tobytes()), halves[1]: (dtype, (FFN, 2), b.tobytes())}
    report = convert_peft(peft_folder(tmp_path / "a", tensors), base_of("llama"), target)
    found = read_by_the_reference(target)
    for half, suffix in zip(halves, ("lora_a", "lora_b"), strict=True):
        np.testing.assert_array_equal(found[f"blk.0.ffn_up.weight.{suffix}"], array(tensors[half]))
    assert {t.dtype for pair in report.adapter.pairs for t in (pair.a, pair.b)} == {written}
    assert report.widened is (dtype == "BF16")


# ---- row order: attention itself as the judge ----


def rotated_as_hugging_face(x: Array, position: int) -> Array:
    """Rotate heads [n, d] whose pairs lie d/2 apart."""
    half = x.shape[1] // 2
    angle = position * 100.0 ** (-np.arange(half) / half)
    first, second = x[:, :half], x[:, half:]
    return np.hstack((first * np.cos(angle) - second * np.sin(angle), second * np.cos(angle) + first * np.sin(angle)))


def rotated_as_llama_cpp(x: Array, position: int) -> Array:
    """Rotate heads [n, d] whose pairs lie side by side, as llama.cpp does for the llama architecture."""
    half = x.shape[1] // 2
    angle = position * 100.0 ** (-np.arange(half) / half)
    turned = np.empty_like(x)
    turned[:, 0::2] = x[:, 0::2] * np.cos(angle) - x[:, 1::2] * np.sin(angle)
    turned[:, 1::2] = x[:, 1::2] * np.cos(angle) + x[:, 0::2] * np.sin(angle)
    return turned


def scores(query: Array, key: Array, rotate) -> Array:
    """Attention scores of one query at position 7 and one key at 3, each query head with its group's key head."""
    q, k = rotate(query.reshape(HEADS, HEAD), 7), rotate(key.reshape(KV_HEADS, HEAD), 3)
    return np.einsum("hd,hd->h", q, np.repeat(k, HEADS // KV_HEADS, axis=0))


def test_attention_with_the_converted_adapter_is_that_of_the_original(tmp_path: Path, target: Path) -> None:
    """The adapted projections, on a base whose own rows were put into llama.cpp's order, give the same scores."""
    rng = np.random.default_rng(3)
    tensors = factors_of("llama")
    report = convert_peft(peft_folder(tmp_path / "a", tensors), base_of("llama"), target)
    written = read_by_the_reference(target)
    x = rng.standard_normal(HIDDEN)
    theirs, ours, unmoved = [], [], []
    for module, name, n_heads in (("q_proj", "attn_q", HEADS), ("k_proj", "attn_k", KV_HEADS)):
        a, b = (array(tensors[half]).astype(float) for half in names(f"model.layers.1.self_attn.{module}"))
        weight = rng.standard_normal((n_heads * HEAD, HIDDEN))
        moved = weight.reshape(n_heads, 2, HEAD // 2, HIDDEN).swapaxes(1, 2).reshape(weight.shape)
        converted = (written[f"blk.1.{name}.weight.lora_{half}"].astype(float) for half in "ba")
        theirs.append((weight + report.factor * b @ a) @ x)
        ours.append((moved + report.factor * np.linalg.multi_dot([*converted, np.eye(HIDDEN)])) @ x)
        unmoved.append((moved + report.factor * b @ a) @ x)
    expected = scores(*theirs, rotated_as_hugging_face)
    np.testing.assert_allclose(scores(*ours, rotated_as_llama_cpp), expected, rtol=1e-9)
    assert not np.allclose(scores(*unmoved, rotated_as_llama_cpp), expected, rtol=1e-2)


# ---- the real model ----

TEXT = '"""Ledger."""\n\n\nclass Ledger:\n    """Money in cents."""\n\n\ndef transfer('


@pytest.fixture(scope="module")
def backend() -> Iterator[LlamaBackend]:
    backend = LlamaBackend(DigestCache())
    yield backend
    backend.close()


def greedy(backend: LlamaBackend, *paths: Path) -> str:
    """Complete TEXT by 32 tokens under these adapters."""
    digests = DigestCache()
    model = backend.load(base_path(), digests.digest(base_path()))
    adapters = [AdapterOnDisk(path.stem, path, digests.digest(path), 1.0) for path in paths]
    session = model.open_session(tuple(adapters), ContextConfig(n_ctx=512))
    try:
        session.prefill(model.tokenize(TEXT), Abort()).run()
        text = b""
        for _ in range(32):
            token = int(np.argmax(session.logits()))
            text += model.piece(token)
            session.decode(token, Abort())
        return text.decode("utf-8", "replace")
    finally:
        session.close()


@pytest.mark.model
@pytest.mark.parametrize("name", ["acme-style", "fim-python"])
def test_the_converted_example_writes_what_the_shipped_one_writes(
    name: str, backend: LlamaBackend, smollm2: GGUFHeader, target: Path
) -> None:
    convert_peft(ADAPTERS / name, smollm2, target)
    converted = greedy(backend, target)
    assert converted == greedy(backend, ADAPTERS / name / "adapter.gguf")
    assert converted != greedy(backend)


@pytest.mark.model
@pytest.mark.parametrize("dtype", ["F32", "BF16"])
def test_every_type_that_is_written_loads_and_works(
    dtype: str, backend: LlamaBackend, smollm2: GGUFHeader, tmp_path: Path, target: Path
) -> None:
    modules = {f"model.layers.{n}.self_attn.o_proj": (576, 576) for n in range(30)}
    config = peft_config(lora_alpha=0.01, use_rslora=True)
    convert_peft(peft_folder(tmp_path / "a", lora_tensors(modules, dtype=dtype), config), smollm2, target)
    assert greedy(backend, target)


# ---- memory ----

MEASURE = """
import sys
from pathlib import Path
from warmline.artifacts.convert import convert_peft
from warmline.artifacts.gguf import read_header

def peak():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM:"))

folder, base, target = sys.argv[1:]
header = read_header(base)
before = peak()
report = convert_peft(folder, header, target)
print(report.nbytes, peak() - before, report.n_permuted)
"""
LARGE_BLOCKS, LARGE_HIDDEN, LARGE_RANK = 35, 4_096, 64
LARGE = {
    "self_attn.q_proj": ("attn_q", LARGE_HIDDEN),
    "self_attn.k_proj": ("attn_k", LARGE_HIDDEN),
    "self_attn.v_proj": ("attn_v", LARGE_HIDDEN),
    "mlp.up_proj": ("ffn_up", 4 * LARGE_HIDDEN),
}


def write_large_base(path: Path) -> None:
    """Write a base of 8 GB, all of whose weights are a hole: the header alone is read."""
    weights = {
        f"blk.{block}.{name}.weight": ((LARGE_HIDDEN, outputs), TENSOR_F16)
        for block in range(LARGE_BLOCKS)
        for name, outputs in LARGE.values()
    }
    infos, data = laid_out(weights)
    head = gguf(
        [
            kv_str("general.architecture", "llama"),
            kv("llama.block_count", U32, u32(LARGE_BLOCKS)),
            kv("llama.attention.head_count", U32, u32(32)),
        ],
        infos,
    )
    with path.open("wb") as file:
        file.write(head)
        file.truncate(len(head) + data)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak is read from Linux's /proc")
@pytest.mark.parametrize(("dtype", "growth"), [("F16", 1), ("BF16", 2)])
def test_two_hundred_megabytes_pass_through_a_few(dtype: str, growth: int, tmp_path: Path) -> None:
    """The process that converts grows by less than 64 MB, the import of gguf-py included."""
    write_large_base(tmp_path / "base.gguf")
    modules = {
        f"model.layers.{block}.{module}": (LARGE_HIDDEN, outputs)
        for block in range(LARGE_BLOCKS)
        for module, (_, outputs) in LARGE.items()
    }
    nbytes = large_folder(tmp_path / "a", modules, LARGE_RANK, dtype)
    assert 190e6 < nbytes < 220e6
    command = [sys.executable, "-c", MEASURE, tmp_path / "a", tmp_path / "base.gguf", tmp_path / "out.gguf"]
    result = subprocess.run(command, capture_output=True, text=True, check=True, timeout=280)
    size, grown, permuted = map(int, result.stdout.split())
    print(f"{dtype}: {nbytes} bytes in, {size} out, {grown} more in memory at most")
    assert size >= growth * nbytes
    assert grown < 64 << 20
    assert permuted == 2 * LARGE_BLOCKS
