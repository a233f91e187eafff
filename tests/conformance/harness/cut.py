"""Cuts a GGUF model or adapter down to its first layers: real weights, kernels and tokenizer, much less time.

What a cut model says is nonsense. Its KV, its batches and its adapters go through the same native code as the whole
model's, and that is what conformance is about.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from warmline.artifacts.gguf import read_header
from warmline.artifacts.gguf_bytes import TENSOR_TYPES

_STRING, _ARRAY, _UINT32 = 8, 9, 4
_SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_ALIGNMENT = 32
_TOKENS, _MERGES = "tokenizer.ggml.tokens", "tokenizer.ggml.merges"
_PER_TOKEN = ("tokenizer.ggml.token_type", "tokenizer.ggml.scores")
_BY_TOKEN = ("token_embd.weight", "output.weight")
_TYPE_IDS = {kind.name: number for number, kind in TENSOR_TYPES.items()}


def cut(
    source: Path,
    target: Path,
    layers: int,
    metadata: Mapping[str, int] | None = None,
    vocabulary: int | None = None,
) -> Path:
    """Write `source` without the tensors of layers from `layers` on; `metadata` replaces unsigned 32-bit values.

    With `vocabulary` only so many tokens are left, the first ones, and only merges that are made of them and make them:
    of so few layers most of the time would go into the logits of all others.

    Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
    """
    data = source.read_bytes()
    replaced = dict(metadata or {})
    if vocabulary is not None:
        replaced["llama.vocab_size"] = vocabulary
    entries = list(_entries(data))
    if missing := set(metadata or ()) - {entry.key for entry in entries}:
        raise ValueError(f"there is no {missing.pop()} in {source.name}")
    kept = None if vocabulary is None else set(_strings(data, _only(entries, _TOKENS))[:vocabulary])
    keys = b"".join(_written(data, entry, replaced, vocabulary, kept) for entry in entries)
    infos, blocks, offset, count = [], [], 0, 0
    for name, tensor in read_header(source).tensors.items():
        layer = re.match(r"blk\.(\d+)\.", name)
        if layer and int(layer[1]) >= layers:
            continue
        text, shape, nbytes = name.encode(), tuple(tensor.shape), tensor.nbytes
        if vocabulary is not None and name in _BY_TOKEN:
            nbytes = nbytes // shape[-1] * vocabulary  # a row for each token
            shape = (*shape[:-1], vocabulary)
        kind = _TYPE_IDS[tensor.dtype]
        infos.append(struct.pack("<Q", len(text)) + text + struct.pack("<I", len(shape)))
        infos.append(struct.pack(f"<{len(shape)}QIQ", *shape, kind, offset))
        padding = -nbytes % _ALIGNMENT
        blocks.append(data[tensor.offset : tensor.offset + nbytes] + bytes(padding))
        offset += nbytes + padding
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


class _Entry(NamedTuple):
    """One of the metadata: its key, its type, and where in the file it begins, its value begins, and it ends."""

    key: str
    kind: int
    start: int
    value: int
    end: int


def _entries(data: bytes) -> Iterator[_Entry]:
    at = 24
    (n_kv,) = struct.unpack_from("<Q", data, 16)
    for _ in range(n_kv):
        start = at
        (length,) = struct.unpack_from("<Q", data, at)
        key = data[at + 8 : at + 8 + length].decode()
        at += 8 + length
        (kind,) = struct.unpack_from("<I", data, at)
        value = at + 4
        at = _after(data, kind, value)
        yield _Entry(key, kind, start, value, at)


def _only(entries: list[_Entry], key: str) -> _Entry:
    return next(entry for entry in entries if entry.key == key)


def _written(
    data: bytes, entry: _Entry, replaced: Mapping[str, int], vocabulary: int | None, kept: set[bytes] | None
) -> bytes:
    """Write one of the metadata as it is, with another number, or for fewer tokens."""
    head = data[entry.start : entry.value]
    if entry.key in replaced:
        if entry.kind != _UINT32:
            raise ValueError(f"{entry.key} is not an unsigned 32-bit number")
        return head + struct.pack("<I", replaced[entry.key])
    if vocabulary is None or kept is None or entry.kind != _ARRAY:
        return data[entry.start : entry.end]
    if entry.key == _TOKENS:
        return head + _array(_strings(data, entry)[:vocabulary])
    if entry.key == _MERGES:
        pairs = [(pair, pair.split(b" ", 1)) for pair in _strings(data, entry)]
        return head + _array([pair for pair, parts in pairs if {*parts, b"".join(parts)} <= kept])
    (kind,) = struct.unpack_from("<I", data, entry.value)
    if entry.key in _PER_TOKEN:
        begin = entry.value + 12
        return head + struct.pack("<IQ", kind, vocabulary) + data[begin : begin + vocabulary * _SIZES[kind]]
    return data[entry.start : entry.end]


def _strings(data: bytes, entry: _Entry) -> list[bytes]:
    found, at = [], entry.value + 12
    while at < entry.end:
        (length,) = struct.unpack_from("<Q", data, at)
        found.append(data[at + 8 : at + 8 + length])
        at += 8 + length
    return found


def _array(strings: list[bytes]) -> bytes:
    parts = (struct.pack("<Q", len(each)) + each for each in strings)
    return struct.pack("<IQ", _STRING, len(strings)) + b"".join(parts)


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
