"""Cuts a GGUF model or adapter down to its first layers: real weights, kernels and tokenizer, much less time.

What a cut model says is nonsense. Its KV, its batches and its adapters go through the same native code as the whole
model's, and that is what conformance is about.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from pathlib import Path

from warmline.artifacts.gguf import read_header
from warmline.artifacts.gguf_bytes import TENSOR_TYPES

_STRING, _ARRAY, _UINT32 = 8, 9, 4
_SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_ALIGNMENT = 32
_TYPE_IDS = {kind.name: number for number, kind in TENSOR_TYPES.items()}


def cut(source: Path, target: Path, layers: int, metadata: Mapping[str, int] | None = None) -> Path:
    """Write `source` without the tensors of layers from `layers` on; `metadata` replaces unsigned 32-bit values.

    Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
    """
    data = source.read_bytes()
    places, end = _metadata_places(data)
    keys = bytearray(data[24:end])
    for key, value in (metadata or {}).items():
        kind, at = places[key]
        if kind != _UINT32:
            raise ValueError(f"{key} is not an unsigned 32-bit number")
        struct.pack_into("<I", keys, at - 24, value)
    infos, blocks, offset, count = [], [], 0, 0
    for name, tensor in read_header(source).tensors.items():
        layer = re.match(r"blk\.(\d+)\.", name)
        if layer and int(layer[1]) >= layers:
            continue
        text = name.encode()
        kind = _TYPE_IDS[tensor.dtype]
        infos.append(struct.pack("<Q", len(text)) + text + struct.pack("<I", len(tensor.shape)))
        infos.append(struct.pack(f"<{len(tensor.shape)}QIQ", *tensor.shape, kind, offset))
        padding = -tensor.nbytes % _ALIGNMENT
        blocks.append(data[tensor.offset : tensor.offset + tensor.nbytes] + bytes(padding))
        offset += tensor.nbytes + padding
        count += 1
    version, _, n_kv = struct.unpack_from("<IQQ", data, 4)
    head = b"".join([b"GGUF", struct.pack("<IQQ", version, count, n_kv), keys, *infos])
    target.write_bytes(b"".join([head, bytes(-len(head) % _ALIGNMENT), *blocks]))
    return target


def negated(source: Path, target: Path) -> Path:
    """Write an adapter with every B negated (f16): other bytes of the same size that act the other way."""
    data = bytearray(source.read_bytes())
    for name, tensor in read_header(source).tensors.items():
        if name.endswith(".lora_b"):
            for at in range(tensor.offset + 1, tensor.offset + tensor.nbytes, 2):
                data[at] ^= 0x80
    target.write_bytes(data)
    return target


def _metadata_places(data: bytes) -> tuple[dict[str, tuple[int, int]], int]:
    """Return (type, offset of the value) of each metadata key, and where the metadata end."""
    places, at = {}, 24
    (n_kv,) = struct.unpack_from("<Q", data, 16)
    for _ in range(n_kv):
        (length,) = struct.unpack_from("<Q", data, at)
        key = data[at + 8 : at + 8 + length].decode()
        at += 8 + length
        (kind,) = struct.unpack_from("<I", data, at)
        at += 4
        places[key] = kind, at
        at = _after(data, kind, at)
    return places, at


def _after(data: bytes, kind: int, at: int) -> int:
    if kind == _STRING:
        return at + 8 + int(struct.unpack_from("<Q", data, at)[0])
    if kind != _ARRAY:
        return at + _SIZES[kind]
    kind, count = struct.unpack_from("<IQ", data, at)
    at += 12
    if kind != _STRING:
        return at + int(count) * _SIZES[kind]
    for _ in range(count):
        at += 8 + int(struct.unpack_from("<Q", data, at)[0])
    return at
