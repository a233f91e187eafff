"""Tiny bases of each architecture that adapters are converted for, and adapters that fit them."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
from gguf_writer import TENSOR_F16, U32, gguf, kv, kv_str, laid_out, u32
from safetensors_writer import lora_tensors
from warmline.artifacts.gguf import GGUFHeader, read_header
from warmline.artifacts.matrix import Array

HIDDEN, HEADS, KV_HEADS, FFN, VOCAB, BLOCKS = 16, 4, 2, 24, 40, 2
HEAD = HIDDEN // HEADS
KV = KV_HEADS * HEAD

ATTENTION = {
    "self_attn.q_proj": ("attn_q", HIDDEN, HIDDEN),
    "self_attn.k_proj": ("attn_k", HIDDEN, KV),
    "self_attn.v_proj": ("attn_v", HIDDEN, KV),
    "self_attn.o_proj": ("attn_output", HIDDEN, HIDDEN),
}
GATED = {
    "mlp.gate_proj": ("ffn_gate", HIDDEN, FFN),
    "mlp.up_proj": ("ffn_up", HIDDEN, FFN),
    "mlp.down_proj": ("ffn_down", FFN, HIDDEN),
}
# Written out by hand: what each architecture's modules are called on both sides, and their inputs and outputs.
MODULES = {
    "llama": {**ATTENTION, **GATED},
    "qwen2": {**ATTENTION, **GATED},
    "qwen3": {**ATTENTION, **GATED},
    "gemma3": {**ATTENTION, **GATED},
    "starcoder2": {**ATTENTION, "mlp.c_fc": ("ffn_up", HIDDEN, FFN), "mlp.c_proj": ("ffn_down", FFN, HIDDEN)},
    "phi3": {
        "self_attn.qkv_proj": ("attn_qkv", HIDDEN, HIDDEN + 2 * KV),
        "self_attn.o_proj": ("attn_output", HIDDEN, HIDDEN),
        "mlp.gate_up_proj": ("ffn_up", HIDDEN, 2 * FFN),
        "mlp.down_proj": ("ffn_down", FFN, HIDDEN),
    },
}
LLAMA = MODULES["llama"]


def base_of(architecture: str, keys: dict[str, bytes | None] | None = None) -> GGUFHeader:
    """Give the header of a tiny base; ``keys`` replaces, adds or removes entries."""
    tensors = {"token_embd.weight": ((HIDDEN, VOCAB), TENSOR_F16), "output.weight": ((HIDDEN, VOCAB), TENSOR_F16)}
    for block in range(BLOCKS):
        for name, inputs, outputs in MODULES.get(architecture, LLAMA).values():
            tensors[f"blk.{block}.{name}.weight"] = ((inputs, outputs), TENSOR_F16)
    entries: dict[str, bytes | None] = {
        "general.architecture": kv_str("general.architecture", architecture),
        "block_count": kv(f"{architecture}.block_count", U32, u32(BLOCKS)),
        "head_count": kv(f"{architecture}.attention.head_count", U32, u32(HEADS)),
        "head_count_kv": kv(f"{architecture}.attention.head_count_kv", U32, u32(KV_HEADS)),
    }
    entries.update(keys or {})
    infos, data = laid_out(tensors)
    raw = gguf([entry for entry in entries.values() if entry is not None], infos, data=data)
    return read_header(io.BytesIO(raw), label="base.gguf")


def factors_of(architecture: str, r: int = 2, dtype: str = "F32", prefix: str = "model.layers."):
    """Give an adapter for all modules of such a base."""
    modules = {
        f"{prefix}{block}.{module}": (inputs, outputs)
        for block in range(BLOCKS)
        for module, (_, inputs, outputs) in MODULES[architecture].items()
    }
    return lora_tensors(modules, r, dtype)


def array(tensor: tuple[str, tuple[int, ...], bytes]) -> Array:
    """Give the values of a tensor as it stands in safetensors."""
    dtype, shape, raw = tensor
    if dtype == "BF16":
        return (np.frombuffer(raw, "<u2").astype("<u4") << 16).view("<f4").reshape(shape)
    return np.frombuffer(raw, {"F32": "<f4", "F16": "<f2"}[dtype]).reshape(shape)


def read_by_the_reference(path: Path) -> dict[str, Array]:
    """Read a file that was written here with gguf-py's reader: row by row, as the arrays that llama.cpp will see."""
    import gguf as reference

    return {tensor.name: np.array(tensor.data) for tensor in reference.GGUFReader(path).tensors}
