"""Dequantises the weights of a checked GGUF file, a few rows at a time, in Hugging Face's order of rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ..artifacts.gguf import TensorInfo
from ..artifacts.gguf_bytes import ReadAt, read_exactly
from ..artifacts.openvino_ir import Weight, import_error
from ..artifacts.proof import peft_rows

CHUNK_ELEMENTS: Final = 1 << 21  # 8 MB as float32

Floats = NDArray[np.float32]
Rows = NDArray[np.intp]


@dataclass(frozen=True)
class GGUFWeights:
    """The tensors of one open GGUF file whose header was checked."""

    read_at: ReadAt
    file: str

    def vector(self, tensor: TensorInfo) -> Floats:
        """Give all values of a small tensor as float32, shape (n,)."""
        return self._values(tensor, 0, tensor.nbytes).reshape(-1)

    def chunks(self, weight: Weight) -> Iterator[tuple[Rows, Floats]]:
        """Give (numbers of rows in Hugging Face's order, their values as float32) until all rows were given.

        Raises
        ------
        ArtifactError
            ``artifact.import.type``, ``artifact.import.not_finite``, ``artifact.unreadable``.
        """
        rows, columns = weight.shape
        order = np.arange(rows) if weight.heads is None else peft_rows(rows, weight.heads)
        row_bytes = weight.tensor.nbytes // rows
        step = max(1, CHUNK_ELEMENTS // columns)
        for first in range(0, rows, step):
            count = min(step, rows - first)
            values = self._values(weight.tensor, first * row_bytes, count * row_bytes).reshape(count, columns)
            yield order[first : first + count], values

    def _values(self, tensor: TensorInfo, at: int, count: int) -> Floats:
        import gguf

        data = read_exactly(self.read_at, tensor.offset + at, count, self.file, tensor.name)
        kind = gguf.GGMLQuantizationType[tensor.dtype.upper()]
        try:
            with np.errstate(all="ignore"):  # what overflows is found below
                values = gguf.dequantize(np.frombuffer(data, np.uint8), kind).astype(np.float32, copy=False)
        except NotImplementedError:
            message, remedy = f"weights of the type {tensor.dtype} cannot be read", "Use a file of another quantisation"
            raise import_error("type", message, self.file, tensor.name, remedy) from None
        if not np.isfinite(values).all():
            message, remedy = "the weights hold NaN or infinity", "Download the base again"
            raise import_error("not_finite", message, self.file, tensor.name, remedy)
        return values
