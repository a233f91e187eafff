"""What a variant takes in memory, and what context fits: from the base's header alone, before anything is loaded.

KV sizes follow llama.cpp (llama-kv-cache.cpp, llama-hparams.cpp): for each layer that keeps KV, and each cell of the
context, a row of ``n_head_kv * key_length`` elements for K and one of ``n_head_kv * value_length`` for V, in the types
of the KV cache. Contexts are padded to 256 cells. A test compares these figures with what the library itself allocates.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from .artifacts.gguf import GGUFHeader, SkippedArray
from .artifacts.gguf_bytes import TENSOR_TYPES

# GGML_PAD(n_ctx, 256) in llama-context.cpp.
CONTEXT_PAD: Final = 256
_MAX_LAYERS: Final = 4096
_TYPES: Final = {kind.name: kind for kind in TENSOR_TYPES.values()}
# Keys by which a header tells of layers that keep a state of fixed size, and of KV that is kept compressed.
_RECURRENT: Final = ("ssm.", "wkv.", "shortconv.", "kda.")
_LATENT: Final = ("attention.kv_lora_rank", "attention.key_length_mla")
# Gemma 3n: only its first layers have KV of their own (models/gemma3n.cpp).
_GEMMA3N_KV_LAYERS: Final = 20


@dataclass(frozen=True, slots=True)
class Capacity:
    """Bytes, and tokens that fit. What cannot be told from the header is None, and `note` says why.

    Parameters
    ----------
    base_bytes, adapter_bytes
        Weights of the base, and of all adapters together.
    kv_bytes_per_token
        One cell of the context over all layers; sliding-window layers count in full, as they are kept here.
    n_ctx, kv_bytes
        The context in force and what its KV takes, padded as the library pads it.
    requested, n_ctx_train, clamped
        What the profile asked for, what the base was trained for, and whether the latter was the smaller.
    budget_bytes
        What weights and KV may take together, or None for no limit.
    fits_before, fits_after
        The largest context that the budget holds, at most `n_ctx_train`, without and with the adapters; 0 for none.
    swa_layers, n_layer
        Layers that look back only over a window, and all of them.
    """

    base_bytes: int
    adapter_bytes: int
    kv_bytes_per_token: int | None
    n_ctx: int
    kv_bytes: int | None
    requested: int
    n_ctx_train: int
    clamped: bool
    budget_bytes: int | None = None
    fits_before: int | None = None
    fits_after: int | None = None
    swa_layers: int = 0
    n_layer: int = 0
    note: str = ""

    @property
    def fits(self) -> bool | None:
        """Whether weights and KV stay within the budget; None where that cannot be told."""
        if self.budget_bytes is None or self.kv_bytes is None:
            return None
        return self.base_bytes + self.adapter_bytes + self.kv_bytes <= self.budget_bytes


def measure(
    base: GGUFHeader,
    *,
    n_ctx: int,
    n_ctx_train: int,
    type_k: str = "f16",
    type_v: str = "f16",
    adapter_bytes: int = 0,
    budget_bytes: int | None = None,
) -> Capacity:
    """Work out the memory of a variant.

    Parameters
    ----------
    n_ctx
        As the profile asks for it, in tokens.
    type_k, type_v
        Types of the KV cache.
    """
    base_bytes = sum(tensor.nbytes for tensor in base.tensors.values())
    rows, note = kv_rows(base)
    per_token = None if rows is None else sum(row_bytes(k, type_k) + row_bytes(v, type_v) for k, v in rows)
    in_force = min(n_ctx, n_ctx_train)
    n_layer = min(_number(base, "block_count") or 0, _MAX_LAYERS)
    return Capacity(
        base_bytes=base_bytes,
        adapter_bytes=adapter_bytes,
        kv_bytes_per_token=per_token,
        n_ctx=in_force,
        kv_bytes=None if per_token is None else per_token * padded(in_force),
        requested=n_ctx,
        n_ctx_train=n_ctx_train,
        clamped=in_force < n_ctx,
        budget_bytes=budget_bytes,
        fits_before=fitting(budget_bytes, base_bytes, per_token, n_ctx_train),
        fits_after=fitting(budget_bytes, base_bytes + adapter_bytes, per_token, n_ctx_train),
        swa_layers=sum(swa_pattern(base, n_layer)),
        n_layer=n_layer,
        note=note,
    )


def default_budget() -> int | None:
    """Return three quarters of the memory that this process may use: the machine's, or its control group's if less."""
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not a POSIX system
        return None
    with contextlib.suppress(OSError, ValueError):
        memory = min(memory, int(Path("/sys/fs/cgroup/memory.max").read_text("ascii")))
    return memory // 4 * 3


def fitting(budget_bytes: int | None, weights: int, per_token: int | None, n_ctx_train: int) -> int | None:
    """Return the largest context, in whole paddings, whose KV fits beside the weights; None where nothing limits it."""
    if budget_bytes is None or not per_token:
        return None
    room = max(0, budget_bytes - weights) // per_token
    return min(n_ctx_train, room // CONTEXT_PAD * CONTEXT_PAD)


def padded(n_ctx: int) -> int:
    """Return the cells that a context of `n_ctx` tokens is given."""
    return -(-n_ctx // CONTEXT_PAD) * CONTEXT_PAD


def row_bytes(elements: int, kind: str) -> int:
    """Return the bytes of a row of a KV type, quantised blocks counted whole."""
    found = _TYPES[kind]
    return -(-elements // found.block) * found.size


def kv_rows(base: GGUFHeader) -> tuple[list[tuple[int, int]] | None, str]:
    """Return the elements of K and V in one cell, for each layer that keeps KV; or None, and the reason."""
    architecture = base.metadata.get("general.architecture")
    if any(key.startswith(tuple(f"{architecture}.{state}" for state in _RECURRENT)) for key in base.metadata):
        return None, f"{architecture} keeps a recurrent state, whose size its header does not tell"
    if any(f"{architecture}.{key}" in base.metadata for key in _LATENT):
        return None, f"{architecture} keeps its KV in a compressed form"
    n_layer = _number(base, "block_count")
    embedding = _number(base, "embedding_length")
    heads = _by_layer(base, "attention.head_count", n_layer)
    if not n_layer or not embedding or heads is None:
        return None, "the header lacks the number of layers, their width or their heads"
    heads_kv = _by_layer(base, "attention.head_count_kv", n_layer) or heads
    width = embedding // next((count for count in heads if count), embedding)
    full = tuple(_number(base, f"attention.{name}_length") or width for name in ("key", "value"))
    windowed = tuple(
        _number(base, f"attention.{name}_length_swa") or size for name, size in zip(("key", "value"), full, strict=True)
    )
    swa = swa_pattern(base, n_layer)
    sizes = [windowed if window else full for window in swa]
    kept = _layers_with_kv(base, n_layer)
    rows = [(count * k, count * v) for count, (k, v) in zip(heads_kv[:kept], sizes[:kept], strict=True) if count]
    if not rows:
        return None, "the header tells of no layer that keeps KV"
    return rows, ""


def _layers_with_kv(base: GGUFHeader, n_layer: int) -> int:
    """The first layers, that have KV of their own; some bases let the last ones look into that of others."""
    if base.metadata.get("general.architecture") == "gemma3n":
        return min(n_layer, _GEMMA3N_KV_LAYERS)
    return max(0, n_layer - (_number(base, "attention.shared_kv_layers") or 0))


def swa_pattern(base: GGUFHeader, n_layer: int) -> list[bool]:
    """Tell for each layer whether it has a sliding window: by the header, or as the architecture is known to be."""
    if not _number(base, "attention.sliding_window"):
        return [False] * n_layer
    architecture = str(base.metadata.get("general.architecture"))
    pattern = base.metadata.get(f"{architecture}.attention.sliding_window_pattern")
    if isinstance(pattern, tuple) and len(pattern) >= n_layer:
        return [bool(each) for each in pattern[:n_layer]]
    known = {"gemma2": 2, "gemma3": 6, "gemma3n": 5, "gpt-oss": 2, "cohere2": 4}.get(architecture, 0)
    every = pattern if isinstance(pattern, int) and not isinstance(pattern, bool) else known
    # Every n-th layer looks at everything; 0 where all of them have the window.
    return [not every or (layer + 1) % every != 0 for layer in range(n_layer)]


def _number(base: GGUFHeader, key: str) -> int | None:
    value = base.metadata.get(f"{base.metadata.get('general.architecture')}.{key}")
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _by_layer(base: GGUFHeader, key: str, n_layer: int | None) -> list[int] | None:
    """Return a number for each layer: one number stands for all of them, an array has one each."""
    value = base.metadata.get(f"{base.metadata.get('general.architecture')}.{key}")
    if n_layer is None or n_layer > _MAX_LAYERS or isinstance(value, SkippedArray):
        return None
    if isinstance(value, tuple):
        numbers = [each for each in value if isinstance(each, int)]
        return numbers[:n_layer] if len(numbers) >= n_layer else None
    return [value] * n_layer if isinstance(value, int) and not isinstance(value, bool) else None
