"""Writes a small GGUF file (v3) by struct, one chunk of one tensor at a time.

gguf-py's writer keeps tensors in memory (its temporary file stays there up to 256 MB), while an adapter of 200 MB must
pass through in a few. What is written here is what `gguf.read_header` reads, byte for byte where data lies.

Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import BinaryIO

from warmline.artifacts.gguf import DEFAULT_ALIGNMENT, MAGIC, TensorInfo
from warmline.artifacts.gguf_bytes import STRING_ID, TENSOR_TYPES

VERSION = 3
_U32_ID, _F32_ID = 4, 6
_TYPE_IDS = {kind.name: type_id for type_id, kind in TENSOR_TYPES.items()}

# A float is written as f32 and an int as u32: the types that llama.cpp reads an adapter's keys by.
Metadata = Mapping[str, str | int | float]


@dataclass(frozen=True)
class NewTensor:
    """A tensor to write: dimensions fastest first, and a function that gives its bytes piece by piece."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    nbytes: int
    pieces: Callable[[], Iterator[bytes]]


@dataclass(frozen=True)
class Layout:
    """A header ready to be written, and where each tensor's data will lie."""

    header: bytes
    tensors: tuple[TensorInfo, ...]


def lay_out(metadata: Metadata, tensors: Sequence[NewTensor]) -> Layout:
    """Build the header and place the tensors one after another, each at a multiple of the default alignment."""
    head = [MAGIC, struct.pack("<IQQ", VERSION, len(tensors), len(metadata))]
    head += [_entry(key, value) for key, value in metadata.items()]
    offset = 0
    offsets = []
    for tensor in tensors:
        head.append(_info(tensor, offset))
        offsets.append(offset)
        offset = _padded(offset + tensor.nbytes)
    raw = b"".join(head)
    header = raw + bytes(_padded(len(raw)) - len(raw))
    infos = (
        TensorInfo(t.name, t.shape, t.dtype, len(header) + at, t.nbytes) for t, at in zip(tensors, offsets, strict=True)
    )
    return Layout(header, tuple(infos))


def write(file: BinaryIO, layout: Layout, tensors: Sequence[NewTensor]) -> int:
    """Write header and tensors from the file's current position, which must be its start; return the bytes written."""
    position = file.write(layout.header)
    for info, tensor in zip(layout.tensors, tensors, strict=True):
        position += file.write(bytes(info.offset - position))
        for piece in tensor.pieces():
            position += file.write(piece)
    return position + file.write(bytes(_padded(position) - position))


def _entry(key: str, value: str | int | float) -> bytes:
    if isinstance(value, str):
        return _text(key) + struct.pack("<I", STRING_ID) + _text(value)
    if isinstance(value, int):
        return _text(key) + struct.pack("<II", _U32_ID, value)
    return _text(key) + struct.pack("<If", _F32_ID, value)


def _info(tensor: NewTensor, offset: int) -> bytes:
    n_dims = len(tensor.shape)
    return _text(tensor.name) + struct.pack(f"<I{n_dims}QIQ", n_dims, *tensor.shape, _TYPE_IDS[tensor.dtype], offset)


def _text(value: str) -> bytes:
    raw = value.encode("utf-8")
    return struct.pack("<Q", len(raw)) + raw


def _padded(offset: int) -> int:
    return -(-offset // DEFAULT_ALIGNMENT) * DEFAULT_ALIGNMENT
