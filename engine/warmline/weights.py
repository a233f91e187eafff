"""Reads an adapter's weights once, a chunk at a time: are all of them numbers, and do they change anything."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from .artifacts.gguf import TensorInfo
from .artifacts.gguf_bytes import ReadAt, Source, opened, shown, source_error
from .artifacts.lora import AdapterSummary
from .artifacts.matrix import CHUNK_BYTES, all_finite, any_nonzero
from .errors import ArtifactError

# A block of q8_0: one f16 scale, then 32 int8 (ggml-common.h).
_Q8_0 = np.dtype([("d", "<u2"), ("qs", "i1", (32,))])
_F16_EXPONENT, _F16_MAGNITUDE = 0x7C00, 0x7FFF


@dataclass(frozen=True, slots=True)
class WeightReport:
    """What the weights of an adapter are like: its pairs, and those that change nothing since A or B is all zeros."""

    pairs: int
    zero_pairs: tuple[str, ...]

    @property
    def effective(self) -> int:
        """Pairs whose two factors are both other than zero."""
        return self.pairs - len(self.zero_pairs)


def read_weights(source: Source, adapter: AdapterSummary) -> WeightReport:
    """Read all weights of a GGUF adapter; memory stays at some MB whatever its size.

    Raises
    ------
    ArtifactError
        ``artifact.adapter.not_finite`` at the first NaN or infinity; ``artifact.unreadable``.
    """
    zero = []
    try:
        with opened(source, adapter.file) as (read_at, _):
            for pair in adapter.pairs:
                # Both are read, even where the first is zero: the other may hold a NaN.
                nonzero = [_tensor_nonzero(adapter.file, tensor, read_at) for tensor in (pair.a, pair.b)]
                if not all(nonzero):
                    zero.append(pair.target)
    except OSError as error:
        raise source_error(adapter.file, error) from error
    return WeightReport(len(adapter.pairs), tuple(zero))


def _tensor_nonzero(file: str, tensor: TensorInfo, read_at: ReadAt) -> bool:
    nonzero = False
    for chunk in _chunks(file, tensor, read_at):
        finite, any_set = _q8_0(chunk) if tensor.dtype == "q8_0" else _plain(chunk, tensor.dtype)
        if not finite:
            raise ArtifactError(
                "the weights hold NaN or infinity",
                code="artifact.adapter.not_finite",
                file=file,
                field=shown(tensor.name),
                remedy="Train the adapter again: its training diverged",
            )
        nonzero = nonzero or any_set
    return nonzero


def _chunks(file: str, tensor: TensorInfo, read_at: ReadAt) -> Iterator[bytes]:
    # A multiple of every block size, so that no block is cut.
    size = CHUNK_BYTES // _Q8_0.itemsize * _Q8_0.itemsize if tensor.dtype == "q8_0" else CHUNK_BYTES
    for at in range(0, tensor.nbytes, size):
        count = min(size, tensor.nbytes - at)
        chunk = read_at(tensor.offset + at, count)
        if len(chunk) < count:
            raise ArtifactError(
                "the file became shorter while it was read",
                code="artifact.unreadable",
                file=file,
                field=shown(tensor.name),
                remedy="Leave the file alone until it is installed, and try again",
            )
        yield chunk


def _plain(chunk: bytes, dtype: str) -> tuple[bool, bool]:
    return all_finite(chunk, dtype), any_nonzero(chunk, dtype)


def _q8_0(chunk: bytes) -> tuple[bool, bool]:
    blocks = np.frombuffer(chunk, _Q8_0)
    finite = not bool(((blocks["d"] & _F16_EXPONENT) == _F16_EXPONENT).any())
    live = ((blocks["d"] & _F16_MAGNITUDE) != 0) & blocks["qs"].any(axis=1)
    return finite, bool(live.any())
