"""Gemma 3 270M, a base with a sliding window, whole or cut to six layers (five that slide, one that does not)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from gemma3 import base_path
from gguf_writer import TENSOR_F16, kv_str, lora
from warmline.artifacts.gguf import read_header
from warmline.backends.native import llama

from .cut import cut, negated
from .llama_world import LlamaWorld

LAYERS, HIDDEN, HEADS, RANK = 6, 640, 4 * 256, 4
WINDOW = 32
VARIANTS = {"base": (), "A": (("a", "1"),), "A@0.5": (("a", "0.5"),)}


def cut_world(folder: Path, **options: Any) -> LlamaWorld:
    """Six of eighteen layers, and a window of 32 tokens instead of 512: short prompts leave it."""
    changed = {"gemma3.block_count": LAYERS, "gemma3.attention.sliding_window": WINDOW}
    base = cut(base_path(), folder / "base.gguf", LAYERS, changed)
    first = write_adapter(folder / "a-0.gguf")
    versions = {"a": (first, negated(first, folder / "a-1.gguf"))}
    return LlamaWorld(folder, base, versions, VARIANTS, trims=False, moves=True, **options)


def write_adapter(path: Path) -> Path:
    """Write an adapter of seeded noise on every query projection: nobody has trained one that may be kept here."""
    shapes: dict[str, tuple[Sequence[int], int]] = {}
    for layer in range(LAYERS):
        shapes[f"blk.{layer}.attn_q.weight.lora_a"] = ([HIDDEN, RANK], TENSOR_F16)
        shapes[f"blk.{layer}.attn_q.weight.lora_b"] = ([RANK, HEADS], TENSOR_F16)
    path.write_bytes(lora(shapes, {"general.architecture": kv_str("general.architecture", "gemma3")}))
    noise, data = np.random.default_rng(0), bytearray(path.read_bytes())
    for tensor in read_header(path).tensors.values():
        values = noise.normal(0, 0.05, tensor.nbytes // 2).astype("<f2")
        data[tensor.offset : tensor.offset + tensor.nbytes] = values.tobytes()
    path.write_bytes(data)
    return path


@contextmanager
def window_only() -> Iterator[None]:
    """Let new contexts keep no more than the window (llama.cpp's `swa_full` off), so that trims can fail."""
    real = llama().llama_context_default_params

    def params() -> Any:
        found = real()
        found.swa_full = False
        return found

    with patch.object(llama(), "llama_context_default_params", params):
        yield
