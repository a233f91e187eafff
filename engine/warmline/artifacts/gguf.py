"""Reads the header of a GGUF file (v2, v3), trusting nothing in it: the first code that touches a model or adapter.

No size that the file claims is allocated or looped over before it is checked against the bytes that are there and
against `Limits`. The file is read with positioned reads, not mapped: a mapped file that somebody truncates kills the
process. Wherever llama.cpp's own reader is stricter than the specification (tensor data without gaps, no arrays of
arrays), this one follows llama.cpp: what is accepted here must not fail there.

Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from __future__ import annotations

import math
import struct
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from warmline.artifacts.gguf_bytes import (
    ARRAY_ID,
    DOWNLOAD_AGAIN,
    FLOAT_TYPES,
    INTEGER_TYPES,
    OBJECT_BYTES,
    SCALARS,
    STRING_ID,
    TENSOR_TYPES,
    Cursor,
    Limits,
    Source,
    TensorType,
    ValueType,
    opened,
    shown,
    source_error,
    source_name,
)
from warmline.errors import ArtifactError

__all__ = ["GGUFHeader", "Limits", "SkippedArray", "Source", "TensorInfo", "Value", "read_header"]

MAGIC = b"GGUF"
VERSIONS = (2, 3)
DEFAULT_ALIGNMENT = 32
MIN_ALIGNMENT = 8
MAX_DIMS = 4
MAX_NAME_BYTES = 63  # GGML_MAX_NAME is 64 and counts the closing NUL
# The least that one entry takes in the file, so that a count can be checked before its loop starts:
# key length, one byte of key, type, one byte of value; name length, one byte, n_dims, one dimension, type, offset.
MIN_KV_BYTES = 8 + 1 + 4 + 1
MIN_TENSOR_BYTES = 8 + 1 + 4 + 8 + 4 + 8


@dataclass(frozen=True)
class SkippedArray:
    """An array that was walked and checked but not kept: its element type and its length."""

    type: str
    count: int


Scalar = int | float | bool | str
Value = Scalar | tuple[Scalar, ...] | SkippedArray


@dataclass(frozen=True)
class TensorInfo:
    """One tensor: its dimensions as in the file (fastest first), and where its data lies.

    ``offset`` is absolute, in bytes from the start of the file; ``dtype`` is a ggml name in lower case (``q4_1``).
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    offset: int
    nbytes: int

    @property
    def ne(self) -> tuple[int, int, int, int]:
        """ggml's view of the shape: always four dimensions, missing ones are 1."""
        ne = (*self.shape, 1, 1, 1)
        return ne[0], ne[1], ne[2], ne[3]

    @property
    def n_elements(self) -> int:
        """Product of all dimensions."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class GGUFHeader:
    """Everything a GGUF file says before its data, checked.

    ``types[key]`` is the exact type of ``metadata[key]``: ``u32``, ``str``, ``arr[str]`` and so on. llama.cpp aborts
    the process over a wrong one, so a value without its type is not enough. ``steps`` counts the loop turns that
    reading took; ``file`` names the source in errors.
    """

    file: str
    version: int
    metadata: Mapping[str, Value]
    types: Mapping[str, str]
    tensors: Mapping[str, TensorInfo]
    alignment: int
    data_offset: int
    file_size: int
    steps: int = field(compare=False)

    def get_str(self, key: str) -> str | None:
        """Return a string, or None where the key is absent; any other type is ``artifact.gguf.type``."""
        value = self.metadata.get(key)
        if value is None or isinstance(value, str):
            return value
        raise self.type_error(key, "str")

    def get_int(self, key: str) -> int | None:
        """Return an integer of any width, or None where the key is absent; else ``artifact.gguf.type``."""
        value = self.metadata.get(key)
        if value is None or (isinstance(value, int) and self.types[key] in INTEGER_TYPES):
            return value
        raise self.type_error(key, "integer")

    def get_float(self, key: str) -> float | None:
        """Return an f32 or f64, or None where the key is absent; any other type is ``artifact.gguf.type``."""
        value = self.metadata.get(key)
        if value is None or (isinstance(value, float) and self.types[key] in FLOAT_TYPES):
            return value
        raise self.type_error(key, "float")

    def check_types(self, expected: Mapping[str, str]) -> None:
        """Raise ``artifact.gguf.type`` for the first key that is present with another type than ``expected``."""
        for key, wanted in expected.items():
            if key in self.types and self.types[key] != wanted:
                raise self.type_error(key, wanted)

    def type_error(self, key: str, expected: str) -> ArtifactError:
        """The error for a value of the wrong type."""
        return ArtifactError(
            f"the value is of type {self.types[key]}, expected {expected}",
            code="artifact.gguf.type",
            file=self.file,
            field=shown(key),
            remedy=DOWNLOAD_AGAIN,
        )


def read_header(
    source: Source, *, limits: Limits | None = None, want_arrays: Collection[str] = (), label: str | None = None
) -> GGUFHeader:
    """Read and check everything before the tensor data.

    Parameters
    ----------
    source
        A path, an open descriptor, or a seekable binary file object. Open files keep their position.
    limits
        Caps on what the header may ask for; None for the defaults.
    want_arrays
        Keys of arrays to keep whatever their length (within ``limits.max_kept_bytes``), such as
        ``tokenizer.ggml.tokens``; other long arrays become `SkippedArray`.
    label
        What errors call the file; by default the path as given.

    Raises
    ------
    ArtifactError
        ``artifact.missing``, ``artifact.unreadable``, ``artifact.not_a_file`` for the source, and
        ``artifact.gguf.*`` for what it holds. Nothing else is raised, whatever the bytes are.
    """
    label = label or source_name(source)
    try:
        with opened(source, label) as (read_at, size):
            return _parse(Cursor(read_at, size, limits or Limits(), label), frozenset(want_arrays))
    except OSError as error:
        raise source_error(label, error) from error
    except MemoryError as error:
        raise ArtifactError(
            "not enough memory for the header",
            code="artifact.gguf.memory",
            file=label,
            remedy="Free some memory and try again",
        ) from error


# ---- the format ----


def _parse(cursor: Cursor, want: frozenset[str]) -> GGUFHeader:
    version = _version(cursor)
    n_tensors, n_kv = _counts(cursor)
    metadata: dict[str, Value] = {}
    types: dict[str, str] = {}
    for index in range(n_kv):
        cursor.step()
        cursor.field = f"key {index}"
        key = cursor.name("a key", cursor.limits.max_key_bytes)
        cursor.field = key
        if key in metadata:
            cursor.fail("duplicate_key", "the key is there twice")
        types[key], metadata[key] = _value(cursor, keep_all=key in want)
    alignment = _alignment(cursor, metadata, types)
    drafts: dict[str, _Draft] = {}
    for index in range(n_tensors):
        cursor.step()
        cursor.field = f"tensor {index}"
        name = cursor.name("a tensor name", MAX_NAME_BYTES)
        cursor.field = name
        if name in drafts:
            cursor.fail("duplicate_tensor", "the tensor is there twice")
        drafts[name] = _draft(cursor)
    # llama.cpp pads only if tensors follow.
    data_offset = _padded(cursor.position, alignment) if drafts else cursor.position
    return GGUFHeader(
        file=cursor.label,
        version=version,
        metadata=metadata,
        types=types,
        tensors=_placed(cursor, drafts, alignment, data_offset),
        alignment=alignment,
        data_offset=data_offset,
        file_size=cursor.size,
        steps=cursor.steps,
    )


def _version(cursor: Cursor) -> int:
    magic = cursor.take(min(len(MAGIC), cursor.size))
    if magic == b"vers":  # "version https://git-lfs..."
        cursor.fail("magic", "this looks like a Git LFS pointer, not the model", "Fetch the file with git lfs pull")
    if magic != MAGIC:
        cursor.fail("magic", "this is not a GGUF file", "Give a .gguf file, or convert the model to GGUF")
    version = cursor.u32()
    if version and version & 0xFFFF == 0:
        cursor.fail("endian", "this is a big-endian GGUF file", "Get the little-endian file of the same model")
    if version not in VERSIONS:
        cursor.fail("version", f"this is GGUF version {version}, and versions 2 and 3 can be read")
    return version


def _counts(cursor: Cursor) -> tuple[int, int]:
    n_tensors, n_kv = cursor.u64(), cursor.u64()
    if n_kv > cursor.limits.max_kv:
        cursor.fail("count", f"the header claims {n_kv} keys, the limit is {cursor.limits.max_kv}")
    if n_tensors > cursor.limits.max_tensors:
        cursor.fail("count", f"the header claims {n_tensors} tensors, the limit is {cursor.limits.max_tensors}")
    if n_kv * MIN_KV_BYTES + n_tensors * MIN_TENSOR_BYTES > cursor.remaining:
        cursor.fail("truncated", f"the header claims {n_kv} keys and {n_tensors} tensors, more than the file can hold")
    return n_tensors, n_kv


def _value(cursor: Cursor, keep_all: bool) -> tuple[str, Value]:
    type_id = cursor.u32()
    if type_id == STRING_ID:
        return "str", cursor.text("a string", cursor.limits.max_string_bytes)
    if type_id == ARRAY_ID:
        return _array(cursor, keep_all)
    kind = _scalar_type(cursor, type_id)
    return kind.name, _numbers(cursor, kind, 1)[0]


def _array(cursor: Cursor, keep_all: bool) -> tuple[str, Value]:
    type_id, count = cursor.u32(), cursor.u64()
    limits = cursor.limits
    if count > limits.max_array_elements:
        cursor.fail("count", f"an array of {count} elements, the limit is {limits.max_array_elements}")
    keep = keep_all or count <= limits.max_kept_elements
    if type_id == STRING_ID:
        return "arr[str]", _strings(cursor, count, keep)
    kind = _scalar_type(cursor, type_id)
    if keep:
        return f"arr[{kind.name}]", _numbers(cursor, kind, count)
    cursor.skip(count * kind.size)
    return f"arr[{kind.name}]", SkippedArray(kind.name, count)


def _strings(cursor: Cursor, count: int, keep: bool) -> Value:
    cursor.require(count * 8)
    cursor.step(count)
    if keep:
        # llama.cpp takes tokens as bytes; a few vocabularies hold pieces that are not whole characters.
        cap = cursor.limits.max_string_bytes
        return tuple(cursor.sized("a string", cap).decode("utf-8", "replace") for _ in range(count))
    cursor.skip_strings(count)
    return SkippedArray("str", count)


def _scalar_type(cursor: Cursor, type_id: int) -> ValueType:
    if type_id == ARRAY_ID:
        cursor.fail("type", "an array of arrays cannot be read")
    if type_id not in SCALARS:
        cursor.fail("type", f"the value type {type_id} is unknown")
    return SCALARS[type_id]


def _numbers(cursor: Cursor, kind: ValueType, count: int) -> tuple[Scalar, ...]:
    cursor.require(count * kind.size)
    cursor.keep(count * OBJECT_BYTES)
    numbers: tuple[Scalar, ...] = struct.unpack(f"<{count}{kind.letter}", cursor.take(count * kind.size))
    if kind.name != "bool":
        return numbers
    if any(number not in (0, 1) for number in numbers):
        cursor.fail("type", "a bool is neither 0 nor 1")
    return tuple(map(bool, numbers))


def _alignment(cursor: Cursor, metadata: dict[str, Value], types: dict[str, str]) -> int:
    cursor.field = "general.alignment"
    value = metadata.get("general.alignment", DEFAULT_ALIGNMENT)
    if types.get("general.alignment", "u32") != "u32" or not isinstance(value, int):
        cursor.fail("alignment", f"the alignment is of type {types['general.alignment']}, expected u32")
    highest = cursor.limits.max_alignment
    if value & (value - 1) or not MIN_ALIGNMENT <= value <= highest:
        cursor.fail("alignment", f"the alignment is {value}, not a power of two from {MIN_ALIGNMENT} to {highest}")
    return value


class _Draft(NamedTuple):
    """A tensor before its data is placed: the offset counts from the start of the data."""

    shape: tuple[int, ...]
    dtype: str
    offset: int
    nbytes: int


def _draft(cursor: Cursor) -> _Draft:
    n_dims = cursor.u32()
    if not 1 <= n_dims <= MAX_DIMS:
        cursor.fail("shape", f"the tensor has {n_dims} dimensions, allowed are 1 to {MAX_DIMS}")
    shape: tuple[int, ...] = struct.unpack(f"<{n_dims}Q", cursor.take(8 * n_dims))
    type_id = cursor.u32()
    if type_id not in TENSOR_TYPES:
        cursor.fail("tensor_type", f"the tensor has the unknown or removed type {type_id}")
    kind = TENSOR_TYPES[type_id]
    nbytes = _nbytes(cursor, shape, kind)
    return _Draft(shape, kind.name, cursor.u64(), nbytes)


def _nbytes(cursor: Cursor, shape: tuple[int, ...], kind: TensorType) -> int:
    elements = 1
    for dimension in shape:
        elements *= dimension
    if not 0 < elements < 2**63:
        cursor.fail("shape", f"the dimensions {list(shape)} hold no elements, or too many")
    if shape[0] % kind.block:
        cursor.fail("shape", f"a row of {shape[0]} elements is not a multiple of {kind.name}'s block of {kind.block}")
    nbytes = elements // kind.block * kind.size
    if nbytes >= 2**63:
        cursor.fail("shape", f"the dimensions {list(shape)} take too many bytes")
    return nbytes


def _padded(offset: int, alignment: int) -> int:
    return -(-offset // alignment) * alignment


def _placed(cursor: Cursor, drafts: dict[str, _Draft], alignment: int, data_offset: int) -> dict[str, TensorInfo]:
    """Place the tensors' data: aligned, one after another in the order of the header, inside the file."""
    expected = 0
    tensors: dict[str, TensorInfo] = {}
    for name, draft in drafts.items():
        cursor.field = name
        if draft.offset % alignment:
            cursor.fail("offset", f"the data starts at {draft.offset}, not a multiple of the alignment {alignment}")
        if draft.offset < expected:
            cursor.fail("overlap", f"the data starts at {draft.offset}, inside the data of the tensors before it")
        if draft.offset > expected:
            cursor.fail("offset", f"the data starts at {draft.offset}, expected {expected}: there is a gap")
        start = data_offset + draft.offset
        if start + draft.nbytes > cursor.size:
            missing = start + draft.nbytes - cursor.size
            cursor.fail("truncated", f"the file ends {missing} bytes before the tensor's data does")
        tensors[name] = TensorInfo(name, draft.shape, draft.dtype, start, draft.nbytes)
        expected = _padded(draft.offset + draft.nbytes, alignment)
    return tensors
