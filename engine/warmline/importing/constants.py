"""Reads a weight back out of an OpenVINO graph: what its constants and their arithmetic give, a few rows at a time.

The readers' and our own forms are Constant, Convert, Subtract, Multiply and Reshape, and nothing else is accepted. They
are computed in float32, as the CPU plugin does when it fuses them into the product.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import openvino as ov

    from .weights import Floats, Rows


class Unreadable(Exception):
    """The graph holds an operation that no weight of an import has; the text names it."""


def is_weight(node: ov.Node) -> bool:
    """Tell whether a node gives the same matrix whatever the input: constants and arithmetic on them alone."""
    kind = node.get_type_name()
    if kind == "Constant":
        return True
    return kind in ("Convert", "Subtract", "Multiply", "Reshape") and all(is_weight(each) for each in _inputs(node))


def rows_of(node: ov.Node, rows: Rows) -> Floats:
    """Give some rows of a weight, shape (len(rows), columns); `Unreadable` for a form that is not known here."""
    return _rows(node, rows).reshape(len(rows), -1)


def _rows(node: ov.Node, rows: Rows) -> Floats:
    kind = node.get_type_name()
    if kind == "Constant":
        return _constant(node, rows)
    if kind in ("Convert", "Reshape"):  # every group of a row stays in that row
        return _rows(_inputs(node)[0], rows)
    if kind in ("Subtract", "Multiply"):
        left, right = (_rows(each, rows) for each in _inputs(node))
        return left - right if kind == "Subtract" else left * right
    raise Unreadable(f"{kind} {node.get_friendly_name()}")


def _constant(node: ov.Node, rows: Rows) -> Floats:
    shape = tuple(node.get_output_shape(0))
    data: NDArray[np.generic] = node.data
    kind = node.get_output_element_type(0).to_string()
    if shape[0] == 1 or not shape:
        rows = np.zeros(1, np.intp)
    if kind in ("u4", "i4"):  # two in a byte, the first one in the low half
        packed, of_row = np.asarray(data, np.uint8).reshape(-1), int(np.prod(shape[1:]))
        # A row of zero points may begin in the middle of a byte.
        whole = of_row % 2 == 1
        chosen = packed if whole else packed.reshape(shape[0], -1)[rows]
        values = np.stack((chosen & 15, chosen >> 4), axis=-1).reshape(-1)
        if whole:
            values = values[: shape[0] * of_row].reshape(shape[0], of_row)[rows]
        signed = values if kind == "u4" else ((values ^ 8).astype(np.int8) - 8)
        return signed.reshape(len(rows), *shape[1:]).astype(np.float32)
    if kind not in ("f32", "f16", "u8", "i8"):
        raise Unreadable(f"Constant {node.get_friendly_name()} of {kind}")
    return np.asarray(data).reshape(shape)[rows].astype(np.float32)


def _inputs(node: ov.Node) -> list[ov.Node]:
    return [each.get_source_output().get_node() for each in node.inputs()]
