"""A weight matrix in an open file, read a few rows at a time: memory stays bounded whatever the file's size."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from warmline.artifacts.gguf_bytes import ReadAt, read_exactly, shown

CHUNK_BYTES = 512 << 10

Array = npt.NDArray[Any]

# Bytes of one element; its exponent bits, which are all set in infinity and NaN; and all of its bits but the sign.
WIDTHS = {"f32": 4, "f16": 2, "bf16": 2}
_EXPONENT = {"f32": 0x7F800000, "f16": 0x7C00, "bf16": 0x7F80}
_MAGNITUDE = {"f32": 0x7FFFFFFF, "f16": 0x7FFF, "bf16": 0x7FFF}
_BITS: Mapping[str, np.dtype[Any]] = {"f32": np.dtype("<u4"), "f16": np.dtype("<u2"), "bf16": np.dtype("<u2")}
_VALUES: Mapping[str, np.dtype[Any]] = {"f32": np.dtype("<f4"), "f16": np.dtype("<f2")}


@dataclass(frozen=True)
class Matrix:
    """``rows`` by ``columns`` elements of ``dtype`` (f32, f16 or bf16), one row after another from ``offset``."""

    read_at: ReadAt
    file: str
    name: str
    dtype: str
    rows: int
    columns: int
    offset: int

    @property
    def nbytes(self) -> int:
        """Bytes of all elements in the file."""
        return self.rows * self.columns * WIDTHS[self.dtype]

    @property
    def chunk_rows(self) -> int:
        """As many rows as fit a chunk, at least one."""
        return max(1, CHUNK_BYTES // max(1, self.columns * WIDTHS[self.dtype]))

    def bytes_at(self, at: int, count: int) -> bytes:
        """Read ``count`` bytes from the matrix's start plus ``at``; ``artifact.unreadable`` where the file ends."""
        return read_exactly(self.read_at, self.offset + at, count, self.file, shown(self.name))

    def raw_chunks(self) -> Iterator[bytes]:
        """Give all bytes in order, ignoring where rows end: for one huge row, too."""
        for at in range(0, self.nbytes, CHUNK_BYTES):
            yield self.bytes_at(at, min(CHUNK_BYTES, self.nbytes - at))

    def bits(self, first: int, count: int) -> Array:
        """Give rows as unsigned integers of the elements' width: exact for any type, NaN included."""
        width = self.columns * WIDTHS[self.dtype]
        data = self.bytes_at(first * width, count * width)
        return np.frombuffer(data, _BITS[self.dtype]).reshape(count, self.columns)

    def row_chunks(self) -> Iterator[tuple[int, Array]]:
        """Give (number of the first row, values as float64) until all rows are read."""
        for first in range(0, self.rows, self.chunk_rows):
            bits = self.bits(first, min(self.chunk_rows, self.rows - first))
            yield first, values(bits, self.dtype).astype(np.float64)


def values(bits: Array, dtype: str) -> Array:
    """Give the numbers that the bits spell; bf16, which NumPy lacks, becomes the f32 of the same value."""
    if dtype == "bf16":
        return (bits.astype("<u4") << 16).view("<f4")
    return bits.view(_VALUES[dtype])


def all_finite(data: bytes, dtype: str) -> bool:
    """Tell whether no element is infinite or NaN."""
    exponent = _EXPONENT[dtype]
    return not bool(((np.frombuffer(data, _BITS[dtype]) & exponent) == exponent).any())


def any_nonzero(data: bytes, dtype: str) -> bool:
    """Tell whether one element at least is neither 0 nor -0."""
    return bool((np.frombuffer(data, _BITS[dtype]) & _MAGNITUDE[dtype]).any())
