"""Whole tiny models of the llama and qwen families as GGUF files: random weights, and a vocabulary of bytes.

Both readers run them: llama.cpp, and OpenVINO GenAI's. What makes each family what it is, is there and does not vanish:
qwen2's biases of Q, K and V, qwen3's norms of Q and K and its heads that are wider than the hidden size tells.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from warmline.artifacts.matrix import Array

HIDDEN, HEADS, KV_HEADS, FFN, BLOCKS = 64, 4, 2, 96, 2
CONTEXT = 512
ROPE_BASE, EPSILON = 1_000_000.0, 1e-6
ENDS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
_CONTROL, _NORMAL = 3, 1


def letters() -> list[str]:
    """Give the characters that byte-level BPE writes for the 256 bytes, in its own order."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [byte for byte in range(256) if byte not in plain]
    return [chr(byte) for byte in plain] + [chr(256 + at) for at in range(len(rest))]


def head_width(architecture: str) -> int:
    """Give the values in a head; qwen3 alone states it, apart from the hidden size."""
    return 32 if architecture == "qwen3" else HIDDEN // HEADS


def weights(architecture: str, *, tied: bool, seed: int = 1) -> dict[str, Array]:
    """Give all tensors by their names in GGUF; matrices as (outputs, inputs)."""
    random = np.random.default_rng(seed)
    width = head_width(architecture)
    q, kv, vocabulary = HEADS * width, KV_HEADS * width, 256 + len(_MERGES) + len(ENDS)

    def matrix(outputs: int, inputs: int) -> Array:
        return (random.standard_normal((outputs, inputs)) / np.sqrt(inputs)).astype(np.float32)

    def norm(size: int) -> Array:
        return (1 + random.standard_normal(size) / 4).astype(np.float32)

    found = {"token_embd.weight": matrix(vocabulary, HIDDEN) * 8, "output_norm.weight": norm(HIDDEN)}
    if not tied:
        found["output.weight"] = matrix(vocabulary, HIDDEN)
    for block in range(BLOCKS):
        sizes = {"attn_q": (q, HIDDEN), "attn_k": (kv, HIDDEN), "attn_v": (kv, HIDDEN), "attn_output": (HIDDEN, q)}
        sizes |= {"ffn_gate": (FFN, HIDDEN), "ffn_up": (FFN, HIDDEN), "ffn_down": (HIDDEN, FFN)}
        parts = {f"{name}.weight": matrix(*size) for name, size in sizes.items()}
        parts |= {"attn_norm.weight": norm(HIDDEN), "ffn_norm.weight": norm(HIDDEN)}
        if architecture == "qwen2":
            parts |= {f"{name}.bias": norm(sizes[name][0]) - 1 for name in ("attn_q", "attn_k", "attn_v")}
        if architecture == "qwen3":
            parts |= {f"attn_{name}_norm.weight": norm(width) for name in "qk"}
        found |= {f"blk.{block}.{name}": values for name, values in parts.items()}
    return found


# Some pairs that code is full of, so that text is not all single bytes.
_MERGES = ("Ġ Ġ", "e r", "i n", "r e", "ĠĠ ĠĠ", "d e", "de f")


def write_tiny(path: Path, architecture: str, kind: str, *, tied: bool = False, unpacked: bool = False) -> Path:
    """Write such a model, by gguf-py's writer.

    Parameters
    ----------
    kind
        Type of the blocks' matrices (``F16``, ``Q4_1``); head and embedding are F16, or Q8_0 with quantised blocks.
    unpacked
        Write all as F32, with the very values that `kind` leaves of them.
    """
    import gguf

    writer = gguf.GGUFWriter(path, architecture)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(HIDDEN)
    writer.add_block_count(BLOCKS)
    writer.add_feed_forward_length(FFN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_rope_freq_base(ROPE_BASE)
    writer.add_layer_norm_rms_eps(EPSILON)
    if architecture == "qwen3":
        writer.add_key_length(head_width(architecture))
        writer.add_value_length(head_width(architecture))
    writer.add_file_type(gguf.LlamaFileType[f"MOSTLY_{kind}"])
    tokens = [*letters(), *(merge.replace(" ", "") for merge in _MERGES), *ENDS]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(tokens)
    writer.add_token_types([_NORMAL] * (len(tokens) - len(ENDS)) + [_CONTROL] * len(ENDS))
    writer.add_token_merges(list(_MERGES))
    writer.add_eos_token_id(len(tokens) - 1)
    writer.add_pad_token_id(len(tokens) - len(ENDS))
    writer.add_add_bos_token(False)
    writer.add_chat_template("{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}")
    for name, values in weights(architecture, tied=tied).items():
        own = _type_of(name, values, kind)
        packed = gguf.quantize(values, own)
        if unpacked:
            writer.add_tensor(name, gguf.dequantize(packed, own).astype(np.float32))
        else:
            writer.add_tensor(name, packed, raw_dtype=own)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _type_of(name: str, values: Array, kind: str) -> Any:
    import gguf

    if values.ndim == 1:
        return gguf.GGMLQuantizationType.F32
    return gguf.GGMLQuantizationType["Q8_0" if kind != "F16" and not name.startswith("blk.") else kind]


def dense_logits(architecture: str, kind: str, tokens: list[int], *, tied: bool) -> Array:
    """Compute all logits, shape (tokens, vocabulary), in float64 and in the plain words of the papers."""
    import gguf

    of = {
        name: gguf.dequantize(gguf.quantize(values, _type_of(name, values, kind)), _type_of(name, values, kind)).astype(
            np.float64
        )
        for name, values in weights(architecture, tied=tied).items()
    }
    n, width = len(tokens), head_width(architecture)
    angles = np.arange(n)[:, None, None] * ROPE_BASE ** -(np.arange(0, width, 2) / width)

    def norm(x: Array, weight: str) -> Array:
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + EPSILON) * of[weight]

    def turned(x: Array) -> Array:
        """llama.cpp pairs a llama's neighbours, and the halves of a qwen's heads."""
        halves = (slice(0, None, 2), slice(1, None, 2))
        first, second = halves if architecture == "llama" else (slice(0, width // 2), slice(width // 2, None))
        found = np.empty_like(x)
        found[..., first] = x[..., first] * np.cos(angles) - x[..., second] * np.sin(angles)
        found[..., second] = x[..., second] * np.cos(angles) + x[..., first] * np.sin(angles)
        return found

    x = of["token_embd.weight"][tokens]
    for block in range(BLOCKS):
        at = f"blk.{block}."
        h = norm(x, f"{at}attn_norm.weight")
        q, k, v = (
            (h @ of[f"{at}attn_{part}.weight"].T + of.get(f"{at}attn_{part}.bias", 0)).reshape(n, -1, width)
            for part in "qkv"
        )
        if architecture == "qwen3":
            q, k = norm(q, f"{at}attn_q_norm.weight"), norm(k, f"{at}attn_k_norm.weight")
        k, v = (np.repeat(each, HEADS // KV_HEADS, 1) for each in (turned(k), v))
        scores = np.einsum("ihd,jhd->hij", turned(q), k) / np.sqrt(width)
        weight = np.exp(np.where(np.tril(np.ones((n, n), bool)), scores, -np.inf))
        weight /= weight.sum(-1, keepdims=True)
        x = x + np.einsum("hij,jhd->ihd", weight, v).reshape(n, -1) @ of[f"{at}attn_output.weight"].T
        h = norm(x, f"{at}ffn_norm.weight")
        gate = h @ of[f"{at}ffn_gate.weight"].T
        x = x + (gate / (1 + np.exp(-gate)) * (h @ of[f"{at}ffn_up.weight"].T)) @ of[f"{at}ffn_down.weight"].T
    return norm(x, "output_norm.weight") @ of.get("output.weight", of["token_embd.weight"]).T
