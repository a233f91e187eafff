"""Reads the header of a safetensors file, trusting nothing in it; no tensor data is read.

The header's length is checked against a limit and against the file before it is read, its nesting before it is parsed,
and every tensor's place in the file before anyone uses it. The format allows neither gaps nor overlaps between tensors,
and whatever is accepted here must not fail in the reference reader.

Format: https://github.com/huggingface/safetensors#format
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from warmline.artifacts.bounded_json import BadJSON, is_text, parse_object
from warmline.artifacts.gguf_bytes import DOWNLOAD_AGAIN, ReadAt, Source, opened, shown, source_error, source_name
from warmline.errors import ArtifactError

__all__ = ["Limits", "SafetensorsHeader", "Source", "TensorEntry", "parse_header", "read_header"]

METADATA_KEY = "__metadata__"
TENSOR_KEYS = frozenset({"dtype", "shape", "data_offsets"})
MAX_DEPTH = 3  # the header, a tensor, its shape
MAX_DIMS = 8
_LENGTH = struct.Struct("<Q")

# Bits of one element. Types under a byte are packed, and must fill whole bytes.
DTYPE_BITS: Mapping[str, int] = {
    "BOOL": 8,
    "F4": 4,
    "F6_E2M3": 6,
    "F6_E3M2": 6,
    "U8": 8,
    "I8": 8,
    "F8_E5M2": 8,
    "F8_E4M3": 8,
    "F8_E8M0": 8,
    "F8_E4M3FNUZ": 8,
    "F8_E5M2FNUZ": 8,
    "I16": 16,
    "U16": 16,
    "F16": 16,
    "BF16": 16,
    "I32": 32,
    "U32": 32,
    "F32": 32,
    "C64": 64,
    "F64": 64,
    "I64": 64,
    "U64": 64,
}


@dataclass(frozen=True)
class Limits:
    """How much a header may ask for; a file over a limit is refused, never read in part.

    Parameters
    ----------
    max_header_bytes
        The JSON text. One tensor takes about 130 bytes; parsing may need twenty times the text in memory.
    max_tensors
        Entries; real adapters have some hundreds.
    max_name_bytes
        A tensor's name, and a key of the metadata.
    max_metadata_bytes
        All keys and values of ``__metadata__`` together.
    """

    max_header_bytes: int = 4 << 20
    max_tensors: int = 65_536
    max_name_bytes: int = 1_024
    max_metadata_bytes: int = 1 << 20


@dataclass(frozen=True)
class TensorEntry:
    """One tensor: its dimensions (slowest first), and where its data lies.

    ``dtype`` is the format's name (``F16``); ``offset`` is absolute, in bytes from the start of the file.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    offset: int
    nbytes: int


@dataclass(frozen=True)
class SafetensorsHeader:
    """Everything a safetensors file says before its data, checked; tensors are in the order of their data."""

    file: str
    metadata: Mapping[str, str]
    tensors: Mapping[str, TensorEntry]
    data_offset: int
    file_size: int


def read_header(source: Source, *, limits: Limits | None = None, label: str | None = None) -> SafetensorsHeader:
    """Read and check everything before the tensor data.

    Parameters
    ----------
    source
        A path, an open descriptor, or a seekable binary file object. Open files keep their position.
    limits
        Caps on what the header may ask for; None for the defaults.
    label
        What errors call the file; by default the path as given.

    Raises
    ------
    ArtifactError
        ``artifact.missing``, ``artifact.unreadable``, ``artifact.not_a_file`` for the source, and
        ``artifact.safetensors.*`` for what it holds. Nothing else is raised, whatever the bytes are.
    """
    label = label or source_name(source)
    try:
        with opened(source, label) as (read_at, size):
            return parse_header(read_at, size, limits=limits, label=label)
    except ArtifactError as error:
        if error.code == "artifact.not_a_file":
            error.remedy = "Give the .safetensors file itself"
        raise
    except OSError as error:
        raise source_error(label, error) from error


def parse_header(read_at: ReadAt, size: int, *, limits: Limits | None = None, label: str) -> SafetensorsHeader:
    """Do what `read_header` does, over positioned reads of an open file of ``size`` bytes."""
    limits = limits or Limits()
    try:
        raw = _header_bytes(label, read_at, size, limits)
        entries = _entries(label, raw, limits)
        metadata = _metadata(label, entries.pop(METADATA_KEY, {}), limits)
        if len(entries) > limits.max_tensors:
            _fail(label, "count", f"the header names {len(entries)} tensors, the limit is {limits.max_tensors}")
        data_offset = _LENGTH.size + len(raw)
        tensors = [_tensor(label, name, entry, data_offset, limits) for name, entry in entries.items()]
    except MemoryError as error:
        remedy = "Free some memory and try again"
        raise _error(label, "memory", "not enough memory for the header", None, remedy) from error
    return SafetensorsHeader(label, metadata, _placed(label, tensors, data_offset, size), data_offset, size)


def _error(label: str, rule: str, message: str, field: str | None = None, remedy: str = "") -> ArtifactError:
    where = None if field is None else shown(field)
    code = f"artifact.safetensors.{rule}"
    return ArtifactError(message, code=code, file=label, field=where, remedy=remedy or DOWNLOAD_AGAIN)


def _fail(label: str, rule: str, message: str, field: str | None = None, remedy: str = "") -> NoReturn:
    raise _error(label, rule, message, field, remedy)


# ---- the header as text ----


def _header_bytes(label: str, read_at: ReadAt, size: int, limits: Limits) -> bytes:
    """Read the JSON text, whose length the first eight bytes give."""
    if size < _LENGTH.size:
        _fail(label, "truncated", f"the file has {size} bytes, a header needs more")
    first = read_at(0, _LENGTH.size)
    if len(first) < _LENGTH.size:
        _fail(label, "truncated", "the file became shorter while it was read")
    _check_not_another_format(label, first)
    length = int(_LENGTH.unpack(first)[0])
    if length > limits.max_header_bytes:
        _fail(label, "header_size", f"the header claims {length} bytes, the limit is {limits.max_header_bytes}")
    if length > size - _LENGTH.size:
        _fail(label, "truncated", f"the header claims {length} bytes, and the file has {size - _LENGTH.size}")
    raw = read_at(_LENGTH.size, length)
    if len(raw) < length:
        _fail(label, "truncated", "the file became shorter while it was read")
    if not raw.startswith(b"{"):
        _fail(label, "json", "the header does not begin with '{'")
    return raw


def _check_not_another_format(label: str, first: bytes) -> None:
    if first == b"version ":  # "version https://git-lfs..."
        remedy = "Fetch the file with git lfs pull"
        _fail(label, "format", "this looks like a Git LFS pointer, not the weights", remedy=remedy)
    if first.startswith((b"PK\x03\x04", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")):
        # Unpickling runs code of the file's author.
        _fail(label, "pickle", "this is a pickle file under another name", remedy="Save the weights as safetensors")
    if first.startswith(b"GGUF"):
        _fail(label, "format", "this is a GGUF file", remedy="Give a .safetensors file here")


def _entries(label: str, raw: bytes, limits: Limits) -> dict[str, Any]:
    try:
        return parse_object(raw, max_depth=MAX_DEPTH, max_containers=2 + 3 * limits.max_tensors, floats=False)
    except BadJSON as error:
        raise _error(label, error.rule, error.message, error.key) from error


def _metadata(label: str, value: Any, limits: Limits) -> dict[str, str]:
    if not isinstance(value, dict):
        _fail(label, "metadata", "the metadata is not an object", METADATA_KEY)
    total = 0
    for key, text in value.items():
        if not isinstance(text, str):
            _fail(label, "metadata", "a value is not a string", f"{METADATA_KEY}.{key}")
        if not (is_text(key) and is_text(text)):
            _fail(label, "metadata", "a key or value is not valid text", f"{METADATA_KEY}.{key}")
        total += len(key.encode()) + len(text.encode())
    if total > limits.max_metadata_bytes:
        _fail(label, "metadata", f"the metadata takes {total} bytes, the limit is {limits.max_metadata_bytes}")
    return value


# ---- one tensor ----


def _tensor(label: str, name: str, entry: Any, data_offset: int, limits: Limits) -> TensorEntry:
    _check_name(label, name, limits)
    if not isinstance(entry, dict) or entry.keys() != TENSOR_KEYS:
        _fail(label, "entry", f"the entry must hold exactly {', '.join(sorted(TENSOR_KEYS))}", name)
    dtype = entry["dtype"]
    if not isinstance(dtype, str) or dtype not in DTYPE_BITS:
        _fail(label, "dtype", f"the type {shown(str(dtype))} is unknown", name)
    shape = _shape(label, name, entry["shape"])
    begin, end = _offsets(label, name, entry["data_offsets"])
    nbytes = _nbytes(label, name, dtype, shape)
    if end - begin != nbytes:
        _fail(label, "size", f"{dtype} {list(shape)} takes {nbytes} bytes, the offsets give {end - begin}", name)
    return TensorEntry(name, dtype, shape, data_offset + begin, nbytes)


def _check_name(label: str, name: str, limits: Limits) -> None:
    # Every character takes a byte at least, so a name over the limit is not even encoded.
    long = len(name) > limits.max_name_bytes
    if not long and (not name or "\0" in name or not is_text(name)):
        _fail(label, "name", "a tensor's name is empty or no valid text", name)
    if long or len(name.encode()) > limits.max_name_bytes:
        _fail(label, "name", f"a tensor's name is longer than {limits.max_name_bytes} bytes", name)


def _shape(label: str, name: str, value: Any) -> tuple[int, ...]:
    # bool is an int to Python, and no dimension.
    if not isinstance(value, list) or not all(type(n) is int and 0 <= n < 2**63 for n in value):
        _fail(label, "shape", "the shape is not a list of whole numbers from 0", name)
    if len(value) > MAX_DIMS:
        _fail(label, "shape", f"the tensor has {len(value)} dimensions, the limit is {MAX_DIMS}", name)
    return tuple(value)


def _offsets(label: str, name: str, value: Any) -> tuple[int, int]:
    whole = isinstance(value, list) and len(value) == 2 and all(type(n) is int and 0 <= n < 2**63 for n in value)
    if not whole:
        _fail(label, "offsets", "data_offsets is not a pair of whole numbers from 0", name)
    begin, end = value
    if begin > end:
        _fail(label, "offsets", f"the data ends at {end}, before it begins at {begin}", name)
    return begin, end


def _nbytes(label: str, name: str, dtype: str, shape: tuple[int, ...]) -> int:
    elements = 1
    for dimension in shape:
        elements *= dimension
        # The reference multiplies in 64 bits, one dimension after another, and refuses what does not fit.
        if elements >= 2**63:
            _fail(label, "shape", f"the dimensions {list(shape)} hold too many elements", name)
    bits = elements * DTYPE_BITS[dtype]
    if bits % 8 or bits >= 2**63:
        _fail(label, "shape", f"{dtype} {list(shape)} does not fill whole bytes, or too many", name)
    return bits // 8


# ---- all of them ----


def _placed(label: str, tensors: list[TensorEntry], data_offset: int, size: int) -> dict[str, TensorEntry]:
    """Put the tensors in the order of their data, which must fill the rest of the file exactly."""
    tensors.sort(key=lambda tensor: (tensor.offset, tensor.nbytes))
    expected = data_offset
    for tensor in tensors:
        start, end = tensor.offset - data_offset, tensor.offset + tensor.nbytes
        if tensor.offset < expected:
            _fail(label, "overlap", f"the data starts at {start}, inside the data of another tensor", tensor.name)
        if tensor.offset > expected:
            message = f"the data starts at {start}, expected {expected - data_offset}: there is a gap"
            _fail(label, "gap", message, tensor.name)
        if end > size:
            _fail(label, "truncated", f"the file ends {end - size} bytes before the tensor's data does", tensor.name)
        expected = end
    if expected != size:
        _fail(label, "gap", f"{size - expected} bytes at the end of the file belong to no tensor")
    return {tensor.name: tensor for tensor in tensors}
