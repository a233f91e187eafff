"""The bytes under a GGUF header: opening a source, reading it within limits, and how many bytes each type takes.

The type figures come from the GGUF specification (ggml, docs/gguf.md) and from ggml's type table (ggml.h, libggml's
``ggml_blck_size`` and ``ggml_type_size``); a test compares them with the installed library.
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import BinaryIO, NamedTuple, NoReturn

from warmline.errors import ArtifactError

Source = str | os.PathLike[str] | int | BinaryIO
ReadAt = Callable[[int, int], bytes]

_CHUNK = 256 << 10
# Charged against max_kept_bytes for each kept object, over its bytes in the file.
OBJECT_BYTES = 64
_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")

DOWNLOAD_AGAIN = "Download or convert the file again"


class ValueType(NamedTuple):
    """A scalar GGUF metadata type: its name in messages, its ``struct`` letter and its bytes in the file."""

    name: str
    letter: str
    size: int


STRING_ID = 8
ARRAY_ID = 9

SCALARS: Mapping[int, ValueType] = {
    0: ValueType("u8", "B", 1),
    1: ValueType("i8", "b", 1),
    2: ValueType("u16", "H", 2),
    3: ValueType("i16", "h", 2),
    4: ValueType("u32", "I", 4),
    5: ValueType("i32", "i", 4),
    6: ValueType("f32", "f", 4),
    7: ValueType("bool", "B", 1),  # read as a byte: only 0 and 1 are valid
    10: ValueType("u64", "Q", 8),
    11: ValueType("i64", "q", 8),
    12: ValueType("f64", "d", 8),
}
INTEGER_TYPES = frozenset({"u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64"})
FLOAT_TYPES = frozenset({"f32", "f64"})


class TensorType(NamedTuple):
    """A ggml tensor type: elements in a block, and bytes of a block."""

    name: str
    block: int
    size: int


# Holes (4, 5, 31-33, 36-38) are types that ggml has removed: a file that holds one cannot be loaded any more.
TENSOR_TYPES: Mapping[int, TensorType] = {
    0: TensorType("f32", 1, 4),
    1: TensorType("f16", 1, 2),
    2: TensorType("q4_0", 32, 18),
    3: TensorType("q4_1", 32, 20),
    6: TensorType("q5_0", 32, 22),
    7: TensorType("q5_1", 32, 24),
    8: TensorType("q8_0", 32, 34),
    9: TensorType("q8_1", 32, 36),
    10: TensorType("q2_k", 256, 84),
    11: TensorType("q3_k", 256, 110),
    12: TensorType("q4_k", 256, 144),
    13: TensorType("q5_k", 256, 176),
    14: TensorType("q6_k", 256, 210),
    15: TensorType("q8_k", 256, 292),
    16: TensorType("iq2_xxs", 256, 66),
    17: TensorType("iq2_xs", 256, 74),
    18: TensorType("iq3_xxs", 256, 98),
    19: TensorType("iq1_s", 256, 50),
    20: TensorType("iq4_nl", 32, 18),
    21: TensorType("iq3_s", 256, 110),
    22: TensorType("iq2_s", 256, 82),
    23: TensorType("iq4_xs", 256, 136),
    24: TensorType("i8", 1, 1),
    25: TensorType("i16", 1, 2),
    26: TensorType("i32", 1, 4),
    27: TensorType("i64", 1, 8),
    28: TensorType("f64", 1, 8),
    29: TensorType("iq1_m", 256, 56),
    30: TensorType("bf16", 1, 2),
    34: TensorType("tq1_0", 256, 54),
    35: TensorType("tq2_0", 256, 66),
    39: TensorType("mxfp4", 32, 17),
    40: TensorType("nvfp4", 64, 36),
    41: TensorType("q1_0", 128, 18),
    42: TensorType("q2_0", 64, 18),
}


@dataclass(frozen=True)
class Limits:
    """How much a header may ask for; a file over a limit is refused, never read in part.

    Parameters
    ----------
    max_kv, max_tensors
        Entries. Real bases have some dozens of keys and some thousands of tensors.
    max_key_bytes
        65535 in the specification.
    max_string_bytes
        One string, kept or skipped.
    max_array_elements
        One array, kept or skipped.
    max_kept_elements
        Longer arrays become `SkippedArray`, except those that the caller wants.
    max_kept_bytes
        Bytes of keys, names and values that stay in memory, a small charge for each object included. Python may
        need up to four times as much for text outside the basic plane.
    max_alignment
        Bytes; ggml uses 32.
    max_steps
        Loop turns over the whole file: one for each key, each string of an array and each tensor.
    """

    max_kv: int = 16_384
    max_tensors: int = 65_536
    max_key_bytes: int = 65_535
    max_string_bytes: int = 32 << 20
    max_array_elements: int = 1 << 26
    max_kept_elements: int = 1_024
    max_kept_bytes: int = 64 << 20
    max_alignment: int = 1 << 16
    max_steps: int = 4_000_000


def shown(text: str, limit: int = 80) -> str:
    """Return text from a file as it may stand in a message: control characters escaped, long text cut."""
    cut = text[:limit]
    safe = "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in cut)
    return safe + ("…" if len(text) > limit else "")


# ---- the source ----


def source_name(source: Source) -> str:
    """What errors call a source: its path as given, where it has one."""
    if isinstance(source, int):
        return f"<descriptor {source}>"
    if isinstance(source, (str, os.PathLike)):
        return os.fspath(source)
    name = getattr(source, "name", None)
    return name if isinstance(name, str) else "<open file>"


def source_error(label: str, error: Exception) -> ArtifactError:
    """The error for a source that cannot be opened or read."""
    if isinstance(error, FileNotFoundError):
        return ArtifactError(
            "there is no such file", code="artifact.missing", file=label, remedy="Check the path, or download the file"
        )
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return ArtifactError(
        f"the file cannot be read: {reason}",
        code="artifact.unreadable",
        file=label,
        remedy="Check the path and its permissions",
    )


def read_exactly(read_at: ReadAt, at: int, count: int, label: str, field: str) -> bytes:
    """Read ``count`` bytes from offset ``at``; ``artifact.unreadable``, of a tensor `field`, where the file ends."""
    try:
        data = read_at(at, count)
    except OSError as error:
        raise source_error(label, error) from error
    if len(data) < count:
        raise ArtifactError(
            "the file became shorter while it was read",
            code="artifact.unreadable",
            file=label,
            field=field,
            remedy="Leave the file alone until it is installed, and try again",
        )
    return data


@contextmanager
def opened(source: Source, label: str) -> Iterator[tuple[ReadAt, int]]:
    """Give positioned reads over a source, and its size in bytes."""
    if isinstance(source, int):
        yield _descriptor(source, label)
    elif isinstance(source, (str, os.PathLike)):
        try:
            # Without O_NONBLOCK, opening a FIFO waits for its writer for ever.
            fd = os.open(source, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
        except ValueError as error:  # a NUL or a lone surrogate in the path
            raise source_error(label, error) from error
        try:
            yield _descriptor(fd, label)
        finally:
            os.close(fd)
    else:
        try:
            fd = source.fileno()
        except (OSError, ValueError):  # in memory, or closed: seeking tells
            yield from _file_object(source, label)
        else:
            yield _descriptor(fd, label)


def _descriptor(fd: int, label: str) -> tuple[ReadAt, int]:
    try:
        status = os.fstat(fd)
    except OverflowError as error:  # no descriptor is that large
        raise source_error(label, error) from error
    if not stat.S_ISREG(status.st_mode):
        kind = "a folder" if stat.S_ISDIR(status.st_mode) else "a device, pipe or socket"
        raise ArtifactError(
            f"this is {kind}, not a file", code="artifact.not_a_file", file=label, remedy="Give the .gguf file itself"
        )
    return lambda offset, count: _fully(lambda at, n: os.pread(fd, n, at), offset, count), status.st_size


def _fully(read_once: ReadAt, offset: int, count: int) -> bytes:
    """Read until ``count`` bytes are there or the file ends; one call may give less."""
    data = read_once(offset, count)
    while len(data) < count and (more := read_once(offset + len(data), count - len(data))):
        data += more
    return data


def _file_object(source: BinaryIO, label: str) -> Iterator[tuple[ReadAt, int]]:
    def read_once(offset: int, count: int) -> bytes:
        source.seek(offset)
        return source.read(count)

    try:
        before = source.tell()
        size = source.seek(0, os.SEEK_END)
    except ValueError as error:  # closed
        raise source_error(label, error) from error
    try:
        yield lambda offset, count: _fully(read_once, offset, count), size
    finally:
        source.seek(before)


# ---- bounded reading ----


class Cursor:
    """A forward-only view of the header: one chunk in memory, every size checked before it is read."""

    def __init__(self, read_at: ReadAt, size: int, limits: Limits, label: str) -> None:
        self.read_at = read_at
        self.size = size
        self.limits = limits
        self.label = label
        self.field: str | None = None  # the key or tensor at hand, for errors
        self.steps = 0
        self.kept = 0
        self._buffer = b""
        self._base = 0  # where the buffer starts in the file
        self._at = 0  # where reading goes on, from the buffer's start

    @property
    def position(self) -> int:
        return self._base + self._at

    @property
    def remaining(self) -> int:
        return self.size - self.position

    def fail(self, rule: str, message: str, remedy: str = DOWNLOAD_AGAIN) -> NoReturn:
        name = None if self.field is None else shown(self.field)
        raise ArtifactError(message, code=f"artifact.gguf.{rule}", file=self.label, field=name, remedy=remedy)

    def step(self, count: int = 1) -> None:
        self.steps += count
        if self.steps > self.limits.max_steps:
            self.fail("steps", f"the header takes more than {self.limits.max_steps} steps to read")

    def keep(self, nbytes: int) -> None:
        self.kept += nbytes + OBJECT_BYTES
        if self.kept > self.limits.max_kept_bytes:
            self.fail("memory", f"the header's values take more than {self.limits.max_kept_bytes} bytes")

    def require(self, count: int) -> None:
        if count > self.remaining:
            self.fail("truncated", f"the header needs {count} more bytes here, and the file has {self.remaining}")

    def need(self, count: int) -> None:
        """Have ``count`` bytes in the buffer at the current position."""
        if self._at + count <= len(self._buffer):
            return
        self.require(count)
        self._base += self._at
        self._at = 0
        self._buffer = self.read_at(self._base, min(max(count, _CHUNK), self.size - self._base))
        if len(self._buffer) < count:
            self.fail("truncated", "the file became shorter while it was read")

    def skip(self, count: int) -> None:
        """Pass over ``count`` bytes; they are checked to be there, and not read."""
        self.require(count)
        self._at += count

    def take(self, count: int) -> bytes:
        self.need(count)
        start = self._at
        self._at += count
        return self._buffer[start : self._at]

    def u32(self) -> int:
        return int(_U32.unpack(self.take(4))[0])

    def u64(self) -> int:
        return int(_U64.unpack(self.take(8))[0])

    def sized(self, what: str, cap: int) -> bytes:
        """Take a length-prefixed string, keep it, and leave it undecoded."""
        length = self.u64()
        if length > cap:
            self.fail("string", f"{what} of {length} bytes, the limit is {cap}")
        self.keep(length)
        return self.take(length)

    def text(self, what: str, cap: int) -> str:
        try:
            return self.sized(what, cap).decode("utf-8")
        except UnicodeDecodeError:
            self.fail("string", f"{what} is not valid UTF-8")

    def name(self, what: str, cap: int) -> str:
        """Take a key or tensor name; C code would cut it at a NUL, and take it for another."""
        name = self.text(what, cap)
        if not name or "\0" in name:
            self.fail("string", f"{what} is empty or holds a NUL")
        return name

    def skip_strings(self, count: int) -> None:
        """Walk ``count`` strings without keeping them; a vocabulary has hundreds of thousands."""
        cap = self.limits.max_string_bytes
        unpack = _U64.unpack_from
        while count:
            self.need(8)
            buffer, at, last = self._buffer, self._at, len(self._buffer) - 8
            while count and at <= last:
                length: int = unpack(buffer, at)[0]
                if length > cap:
                    self.fail("string", f"a string of {length} bytes, the limit is {cap}")
                at += 8 + length
                count -= 1
            # The last string may run on past the buffer, and past the file.
            self.skip(at - self._at)
