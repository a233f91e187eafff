"""Conversions that must not succeed: one case a rule, nothing left behind, and the proof catches a faulty converter."""

from __future__ import annotations

import errno
import os
import struct
from pathlib import Path

import numpy as np
import pytest
from gguf_writer import F32, U32, kv, kv_arr, kv_str, u32
from safetensors_writer import lora_tensors, names, peft_config, peft_folder
from smollm2 import base_path
from tiny_base import array, base_of, factors_of, read_by_the_reference
from warmline.artifacts import convert
from warmline.artifacts.convert import convert_peft
from warmline.artifacts.gguf import GGUFHeader, read_header
from warmline.errors import ArtifactError


def refusal(folder: Path, base: GGUFHeader, target: Path) -> ArtifactError:
    with pytest.raises(ArtifactError) as caught:
        convert_peft(folder, base, target)
    assert caught.value.remedy
    assert list(target.parent.glob("*.gguf")) == list(target.parent.glob(".*")) == []
    return caught.value


@pytest.fixture
def target(tmp_path: Path) -> Path:
    (tmp_path / "store").mkdir()
    return tmp_path / "store" / "adapter.gguf"


@pytest.fixture(scope="module")
def smollm2() -> GGUFHeader:
    return read_header(base_path())


# ---- the proof, at work ----


def test_a_converter_that_forgets_the_row_order_is_caught(
    tmp_path: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(convert, "interleaved", lambda m, heads: m.raw_chunks())
    error = refusal(peft_folder(tmp_path / "a", factors_of("llama")), base_of("llama"), target)
    assert (error.code, error.field, error.file) == (
        "artifact.convert.proof",
        "blk.0.attn_q.weight",
        str(target),
    )


def test_a_bit_that_flips_on_the_way_is_caught(tmp_path: Path, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = convert._written
    pieces = iter(range(10_000))

    def flipping(piece: bytes, dtype: str) -> bytes:
        piece = real(piece, dtype)
        return piece if next(pieces) != 8 else bytes([piece[0] ^ 1]) + piece[1:]

    monkeypatch.setattr(convert, "_written", flipping)
    error = refusal(peft_folder(tmp_path / "a", factors_of("qwen2")), base_of("qwen2"), target)
    assert (error.code, error.field) == ("artifact.convert.proof", "blk.0.ffn_gate.weight")


def test_a_wrong_alpha_is_caught(tmp_path: Path, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(convert, "native_alpha", lambda config: config.lora_alpha)
    folder = peft_folder(tmp_path / "a", factors_of("qwen2"), peft_config(use_rslora=True))
    assert refusal(folder, base_of("qwen2"), target).code == "artifact.convert.proof"


# ---- refusals ----


def with_keys(**keys: bytes | None) -> GGUFHeader:
    return base_of("llama", keys)


BASES = {
    "gpt2": (base_of("gpt2"), "artifact.convert.architecture", "general.architecture"),
    "a mixture of experts": (base_of("qwen3moe"), "artifact.convert.architecture", "general.architecture"),
    "architecture unknown": (base_of("nova"), "artifact.convert.architecture", "general.architecture"),
    "architecture missing": (
        with_keys(**{"general.architecture": None}),
        "artifact.convert.architecture",
        "general.architecture",
    ),
    "architecture no text": (
        with_keys(**{"general.architecture": kv("general.architecture", U32, u32(1))}),
        "artifact.gguf.type",
        "general.architecture",
    ),
    "an adapter": (
        with_keys(type=kv_str("general.type", "adapter")),
        "artifact.adapter.base",
        "general.type",
    ),
    "blocks missing": (with_keys(block_count=None), "artifact.convert.blocks", "llama.block_count"),
    "blocks without end": (
        with_keys(block_count=kv("llama.block_count", U32, u32(2**32 - 1))),
        "artifact.convert.blocks",
        "llama.block_count",
    ),
    "blocks a fraction": (
        with_keys(block_count=kv("llama.block_count", F32, struct.pack("<f", 2))),
        "artifact.gguf.type",
        "llama.block_count",
    ),
    "heads missing": (with_keys(head_count=None), "artifact.convert.heads", "llama.attention.head_count"),
    "no heads": (
        with_keys(head_count=kv("llama.attention.head_count", U32, u32(0))),
        "artifact.convert.heads",
        "llama.attention.head_count",
    ),
    "heads that do not divide": (
        with_keys(head_count=kv("llama.attention.head_count", U32, u32(5))),
        "artifact.convert.heads",
        "llama.attention.head_count",
    ),
    "heads of one row": (
        with_keys(head_count=kv("llama.attention.head_count", U32, u32(16))),
        "artifact.convert.heads",
        "llama.attention.head_count",
    ),
    "no key heads": (
        with_keys(head_count_kv=kv("llama.attention.head_count_kv", U32, u32(0))),
        "artifact.convert.heads",
        "llama.attention.head_count",
    ),
    "heads by layer": (
        with_keys(head_count_kv=kv_arr("llama.attention.head_count_kv", U32, 2, u32(2) * 2)),
        "artifact.gguf.type",
        "llama.attention.head_count_kv",
    ),
}


@pytest.mark.parametrize("case", BASES)
def test_a_base_that_adapters_cannot_be_converted_for(case: str, tmp_path: Path, target: Path) -> None:
    base, code, field = BASES[case]
    error = refusal(peft_folder(tmp_path / "a", factors_of("llama")), base, target)
    assert (error.code, error.file, error.field) == (code, "base.gguf", field)


LAYER = "model.layers.0.self_attn"
MISFITS = {
    # What gguf-py's map would answer for, though this architecture has no such module, comes first.
    "fused projection": ("llama", {f"{LAYER}.qkv_proj": (16, 32)}, "convert.module"),
    "another family's name": ("llama", {"model.layers.0.mlp.c_fc": (16, 24)}, "convert.module"),
    "GPT-J's name": ("llama", {"transformer.h.0.attn.q_proj": (16, 16)}, "convert.module"),
    "InternLM's name": ("llama", {"model.layers.0.attention.wq": (16, 16)}, "convert.module"),
    "gate of StarCoder": ("starcoder2", {"model.layers.0.mlp.gate_proj": (16, 24)}, "convert.module"),
    "query of Phi": ("phi3", {f"{LAYER}.q_proj": (16, 16)}, "convert.module"),
    "norm": ("qwen3", {f"{LAYER}.q_norm": (4, 4)}, "convert.module"),
    "embedding": ("llama", {"model.embed_tokens": (40, 16)}, "convert.module"),
    "image encoder": ("gemma3", {"model.vision_tower.layers.0.self_attn.q_proj": (16, 16)}, "convert.module"),
    "a model around another": ("qwen2", {"model.language_model.layers.0.mlp.up_proj": (16, 24)}, "convert.module"),
    "short name": ("llama", {"q_proj": (16, 16)}, "convert.module"),
    "expert": ("llama", {"model.layers.0.mlp.experts.0.up_proj": (16, 24)}, "convert.module"),
    "layer too high": ("llama", {"model.layers.2.self_attn.q_proj": (16, 16)}, "convert.module"),
    "layer far too high": ("llama", {"model.layers.99999.self_attn.q_proj": (16, 16)}, "convert.module"),
    "layer with a zero before": ("llama", {"model.layers.01.self_attn.q_proj": (16, 16)}, "convert.module"),
    "layer in other digits": ("llama", {"model.layers.١.self_attn.q_proj": (16, 16)}, "convert.module"),
    "newline at the end": ("llama", {f"{LAYER}.q_proj\n": (16, 16)}, "convert.module"),
    "two names for one": (
        "gemma3",
        {f"{LAYER}.q_proj": (16, 16), "model.language_model.layers.0.self_attn.q_proj": (16, 16)},
        "convert.module",
    ),
    "other inputs": ("llama", {f"{LAYER}.q_proj": (32, 16)}, "adapter.input_width"),
    "other outputs": ("llama", {f"{LAYER}.q_proj": (16, 24)}, "adapter.output_width"),
    "outputs that no heads divide": ("llama", {f"{LAYER}.k_proj": (16, 7)}, "adapter.output_width"),
}


@pytest.mark.parametrize("case", MISFITS)
def test_an_adapter_that_does_not_fit_the_base(case: str, tmp_path: Path, target: Path) -> None:
    """Row 11: the wrong base is refused by name or shape, before anything is written."""
    architecture, modules, code = MISFITS[case]
    error = refusal(peft_folder(tmp_path / "a", lora_tensors(modules)), base_of(architecture), target)
    assert error.code == f"artifact.{code}"
    assert error.field


def test_an_adapter_for_the_output_layer_of_a_tied_base(smollm2: GGUFHeader, tmp_path: Path, target: Path) -> None:
    folder = peft_folder(tmp_path / "a", lora_tensors({"lm_head": (576, 49_152)}))
    assert refusal(folder, smollm2, target).code == "artifact.adapter.tied"


def test_what_the_folder_is_refused_for_comes_through(tmp_path: Path, target: Path) -> None:
    folder = peft_folder(tmp_path / "a", factors_of("llama"), peft_config(use_dora=True))
    assert refusal(folder, base_of("llama"), target).code == "artifact.peft.dora"


# ---- writing ----


def test_a_failed_conversion_leaves_the_older_file(tmp_path: Path, target: Path) -> None:
    target.write_bytes(b"older")
    folder = peft_folder(tmp_path / "a", lora_tensors({f"{LAYER}.q_proj": (32, 16)}))
    with pytest.raises(ArtifactError):
        convert_peft(folder, base_of("llama"), target)
    assert target.read_bytes() == b"older"
    assert list(target.parent.iterdir()) == [target]


def test_a_full_disk_is_an_error_and_leaves_nothing(
    tmp_path: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(convert, "write", full)
    error = refusal(peft_folder(tmp_path / "a", factors_of("llama")), base_of("llama"), target)
    assert (error.code, error.file) == ("artifact.convert.write", str(target))


def test_a_folder_to_write_to_that_is_not_there(tmp_path: Path) -> None:
    folder = peft_folder(tmp_path / "a", factors_of("llama"))
    error = refusal(folder, base_of("llama"), tmp_path / "no" / "adapter.gguf")
    assert error.code == "artifact.convert.write"


def test_weights_cut_while_they_are_converted(tmp_path: Path, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = peft_folder(tmp_path / "a", factors_of("llama"))
    real = convert.lay_out

    def cutting(*args):
        os.truncate(folder / "adapter_model.safetensors", 4_000)
        return real(*args)

    monkeypatch.setattr(convert, "lay_out", cutting)
    assert refusal(folder, base_of("llama"), target).code == "artifact.unreadable"


def test_weights_replaced_while_they_are_converted_do_not_matter(
    tmp_path: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was checked is what is converted: the file stays open, and another one under its name is not looked at."""
    folder, tensors = tmp_path / "a", factors_of("qwen2")
    peft_folder(folder, tensors)
    real = convert.lay_out

    def replacing(*args):
        (folder / "adapter_model.safetensors").rename(folder / "old")
        peft_folder(folder, lora_tensors({f"{LAYER}.q_proj": (16, 16)}, seed=9))
        return real(*args)

    monkeypatch.setattr(convert, "lay_out", replacing)
    convert_peft(folder, base_of("qwen2"), target)
    a = array(tensors[names(f"{LAYER}.q_proj")[0]])
    np.testing.assert_array_equal(read_by_the_reference(target)["blk.0.attn_q.weight.lora_a"], a)
