"""The forms in which an imported weight may be kept; each is built from the dequantised GGUF.

- *lattice*: what the GGUF's own quantisation is, whatever its format: in a group of 32 or 16 values all are
  ``(q - z) * s`` with q of 4 or 8 bits. The zero point z is a fraction, which is what GenAI's reader rounds. With z and
  s in float32 the values are the GGUF's to a float's last bits. The plugin multiplies in this form: plain weights it
  unpacks to float32 first, in memory too.
- *plain*: f16, each value rounded once; float32 where f16 cannot hold them.
- *int8*: groups of 32 with one f16 scale, as Q8_0.

``exact`` takes the lattice, and plain where there is none. ``compact`` takes the lattice with z and s in f16 (half of a
thousandth off), and int8 where there is none.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from .lattice import Lattice, find_lattice

if TYPE_CHECKING:
    import openvino as ov

    from ..artifacts.openvino_ir import Precision, Weight
    from .weights import Floats, GGUFWeights, Rows

GROUP: Final = 32
_LATTICE_GROUPS: Final = (32, 16)
_PLAIN_TYPES: Final = ("f32", "f16", "bf16")
# Half a unit in the last place of f16, for normal numbers and for those near zero.
_F16_RELATIVE, _F16_ABSOLUTE = 2.0**-11, 2.0**-25
_F16_LARGEST: Final = 65504.0
Array = NDArray[Any]


@dataclass
class Scratch:
    """One file that the new weights lie in until they are saved: memory does not grow with the model.

    OpenVINO shares the memory of what a constant is made of and does not keep it alive: keep this as long as the model.
    """

    path: Path
    size: int = 0
    held: list[Array] = field(default_factory=list)

    def array(self, shape: tuple[int, ...], dtype: Any) -> Array:
        """Give a new array in the file; it lives as long as this."""
        start = -(-self.size // 4096) * 4096
        self.size = start + int(np.prod(shape)) * np.dtype(dtype).itemsize
        with open(self.path, "ab") as file:
            file.truncate(self.size)
        array = np.memmap(self.path, dtype, "r+", start, shape)
        self.held.append(array)
        return array


def within_f16(found: Floats, wanted: Floats) -> bool:
    """Tell whether each value is the wanted one but for one rounding to f16."""
    return bool((np.abs(found - wanted) <= np.abs(wanted) * _F16_RELATIVE + _F16_ABSOLUTE).all())


def build(weights: GGUFWeights, weight: Weight, precision: Precision, scratch: Scratch) -> ov.Node:
    """Make the subgraph that gives a weight as float32, from the GGUF's own values."""
    if weight.tensor.dtype not in _PLAIN_TYPES:
        for group in _LATTICE_GROUPS:
            found = weight.shape[1] % group == 0 and _lattice(weights, weight, group, precision, scratch)
            if found:
                return found
    if precision == "compact" and weight.shape[1] % GROUP == 0:
        return _int8(weights, weight, scratch)
    return _plain(weights, weight, scratch, np.float16)


def _lattice(
    weights: GGUFWeights, weight: Weight, group: int, precision: Precision, scratch: Scratch
) -> ov.Node | None:
    rows, columns = weight.shape
    shape = (rows, columns // group, group)
    real: Any = np.float32 if precision == "exact" else np.float16
    chunks: list[tuple[Rows, Lattice]] = []
    for at, values in weights.chunks(weight):
        found = find_lattice(values.reshape(len(at), *shape[1:]))
        if found is None or np.abs(found.step).max() > _F16_LARGEST or np.abs(found.zero).max() > _F16_LARGEST:
            return None
        chunks.append((at, found))
    four_bits = all(found.levels.max() < 16 for _, found in chunks)
    levels = scratch.array((*shape[:2], group // 2) if four_bits else shape, np.uint8)
    zeros, steps = (scratch.array((*shape[:2], 1), real) for _ in range(2))
    for at, found in chunks:
        packed = found.levels[..., 0::2] | found.levels[..., 1::2] << 4
        levels[at] = packed if four_bits else found.levels
        zeros[at], steps[at] = found.zero, found.step
    return _grouped(weight, levels, shape, "u4" if four_bits else "u8", steps, zeros)


def _int8(weights: GGUFWeights, weight: Weight, scratch: Scratch) -> ov.Node:
    rows, columns = weight.shape
    shape = (rows, columns // GROUP, GROUP)
    quants, scales = scratch.array(shape, np.int8), scratch.array((*shape[:2], 1), np.float16)
    for at, chunk in weights.chunks(weight):
        scales[at], quants[at] = quantise(chunk.reshape(len(at), *shape[1:]))
    return _grouped(weight, quants, shape, "i8", scales)


def quantise(groups: Floats) -> tuple[NDArray[np.float16], NDArray[np.int8]]:
    """Give (scales, int8) of groups, shape (..., 32): the largest value of each is 127 times its scale."""
    largest = np.abs(groups).max(axis=-1, keepdims=True)
    scales = np.minimum(largest / 127, _F16_LARGEST).astype(np.float16)
    divisors = np.where(scales > 0, scales.astype(np.float32), 1)
    return scales, np.clip(np.rint(groups / divisors), -127, 127).astype(np.int8)


def _plain(weights: GGUFWeights, weight: Weight, scratch: Scratch, dtype: Any) -> ov.Node:
    import openvino as ov

    values = scratch.array(weight.shape, dtype)
    for rows, chunk in weights.chunks(weight):
        kept = np.clip(chunk, -_F16_LARGEST, _F16_LARGEST).astype(dtype) if dtype is np.float16 else chunk
        if not within_f16(kept.astype(np.float32), chunk):
            return _plain(weights, weight, scratch, np.float32)
        values[rows] = kept
    constant = ov.op.Constant(values, shared_memory=True)
    return ov.opset13.convert(constant, "f32") if dtype is np.float16 else constant


def _grouped(
    weight: Weight, quants: Array, shape: tuple[int, ...], kind: str, scales: Array, zeros: Array | None = None
) -> ov.Node:
    """Make ``(quants - zeros) * scales`` of groups: the order of operations that the CPU plugin fuses."""
    import openvino as ov

    opset = ov.opset13
    real = "f32" if scales.dtype == np.float32 else "f16"
    element = {"u4": ov.Type.u4, "u8": ov.Type.u8, "i8": ov.Type.i8}[kind]
    flat = quants.reshape(-1)
    node: ov.Node = ov.op.Constant(ov.Tensor(flat, ov.Shape(list(shape)), element))
    node = opset.convert(node, real)
    if zeros is not None:
        node = opset.subtract(node, ov.op.Constant(zeros, shared_memory=True))
    node = opset.multiply(node, ov.op.Constant(scales, shared_memory=True))
    node = opset.reshape(node, ov.op.Constant(np.array(weight.shape)), special_zero=False)
    return node if real == "f32" else opset.convert(node, "f32")
