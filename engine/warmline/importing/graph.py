"""The network that GenAI's reader built: which MatMul is which weight, proven by value; then named and repaired."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from ..artifacts.architectures import HEAD
from ..artifacts.openvino_ir import Plan, Precision, Weight, import_error, matmul_name
from . import constants
from .forms import Scratch, build, within_f16

if TYPE_CHECKING:
    import openvino as ov

    from .weights import GGUFWeights

# The reader is 8 to 9 % off on Q4_1; another layer's weights would be some 140 % off.
NAME_TOLERANCE: Final = 0.25
# f16 scales are 0.05 % off, int8 in groups of 32 some 0.5 %.
COMPACT_TOLERANCE: Final = 0.02
_ANONYMOUS: Final = re.compile(r"MatMul_([0-9]+)")
_UNSUPPORTED: Final = "Run this base on llama.cpp, or export it with optimum-intel"


@dataclass(frozen=True, slots=True)
class Deviation:
    """How far a weight is from the GGUF.

    ``relative`` is the root mean square of the differences over that of the values, ``largest`` the largest difference;
    ``exact`` says that each value is right but for one rounding to f16 at most.
    """

    relative: float
    largest: float
    exact: bool


def weight_matmuls(model: ov.Model) -> list[ov.Node]:
    """List the MatMuls whose second input is a constant matrix, in the order in which they were made."""
    found = []
    for node in model.get_ops():
        if node.get_type_name() == "MatMul" and constants.is_weight(node.input_value(1).get_node()):
            number = _ANONYMOUS.fullmatch(node.get_friendly_name())
            found.append((int(number[1]) if number else -1, node))
    return [node for _, node in sorted(found, key=lambda each: each[0])]


def named_matmuls(model: ov.Model) -> dict[str, ov.Node]:
    """Give the MatMuls by their friendly names."""
    return {node.get_friendly_name(): node for node in model.get_ops() if node.get_type_name() == "MatMul"}


def assign(model: ov.Model, plan: Plan, file: str) -> list[tuple[Weight, ov.Node]]:
    """Say which MatMul each weight of the plan is, by the order of making and by shape; values are for `measure`.

    Raises
    ------
    ArtifactError
        ``artifact.import.network``, with the weight's name: another number of MatMuls, or a shape differs.
    """
    nodes = weight_matmuls(model)
    if len(nodes) != len(plan.matmuls):
        message = f"the reader built {len(nodes)} weight products, expected {len(plan.matmuls)}"
        raise import_error("network", message, file, None, _UNSUPPORTED)
    for weight, node in zip(plan.matmuls, nodes, strict=True):
        shape = tuple(node.input_value(1).get_partial_shape().to_shape())
        if shape != weight.shape or not node.get_attributes()["transpose_b"]:
            message = f"the reader built a weight of the shape {list(shape)}, expected {list(weight.shape)}"
            raise import_error("network", message, file, weight.tensor.name, _UNSUPPORTED)
    return list(zip(plan.matmuls, nodes, strict=True))


def measure(source: ov.Node, weight: Weight, weights: GGUFWeights, told: Callable[[int], None]) -> Deviation:
    """Compare a weight in the graph with the GGUF, value by value.

    Parameters
    ----------
    source
        The node that gives the weight.
    told
        Called with bytes of the GGUF that were compared.

    Raises
    ------
    ArtifactError
        ``artifact.import.network`` for a form that cannot be read.
    """
    squares = total = largest = 0.0
    exact = True
    for rows, wanted in weights.chunks(weight):
        try:
            found = constants.rows_of(source, rows)
        except constants.Unreadable as error:
            message = f"the reader kept this weight in an unknown form ({error})"
            raise import_error("network", message, weights.file, weight.tensor.name, _UNSUPPORTED) from None
        difference = found - wanted
        squares += float(np.square(difference, dtype=np.float64).sum())
        total += float(np.square(wanted, dtype=np.float64).sum())
        largest = max(largest, float(np.abs(difference).max(initial=0.0)))
        exact = exact and within_f16(found, wanted)
        told(weight.tensor.nbytes * len(rows) // weight.shape[0])
    relative = float(np.sqrt(squares / total)) if total else float(squares > 0)
    return Deviation(relative, largest, exact)


def check_is(weight: Weight, read: Deviation, file: str) -> None:
    """The MatMul holds the tensor that it is about to be named after; ``artifact.import.differs`` with its name."""
    if not read.relative <= NAME_TOLERANCE:
        message = f"what the reader built here differs from the GGUF by {100 * read.relative:.0f} %"
        raise import_error("differs", message, file, weight.tensor.name, _UNSUPPORTED)


def check_kept(weight: Weight, kept: Deviation, precision: Precision, file: str) -> None:
    """The saved model holds the GGUF's values, within what its precision allows; ``artifact.import.differs``."""
    if not (kept.exact or (precision == "compact" and kept.relative <= COMPACT_TOLERANCE)):
        message = f"the saved weight differs from the GGUF by {100 * kept.relative:.2g} %"
        raise import_error("differs", message, file, weight.tensor.name, "Report this as a fault of Warmline")


def repair(
    model: ov.Model,
    plan: Plan,
    weights: GGUFWeights,
    precision: Precision,
    scratch: Scratch,
    told: Callable[[int], None],
) -> dict[str, Deviation]:
    """Name every weight MatMul canonically, and replace each weight that the reader did not keep exactly.

    Parameters
    ----------
    scratch
        Holds the new weights: the model is without them once it is gone.
    told
        Called with bytes of the GGUF that were compared.

    Returns
    -------
    dict
        By module: how far the reader was off.

    Raises
    ------
    ArtifactError
        ``artifact.import.network``, ``artifact.import.differs``.
    """
    read: dict[str, Deviation] = {}
    for weight, node in assign(model, plan, weights.file):
        source = node.input_value(1).get_node()
        read[weight.module] = found = measure(source, weight, weights, told)
        check_is(weight, found, weights.file)
        node.set_friendly_name(matmul_name(weight.module))
        if not found.exact:
            new = build(weights, weight, precision, scratch).output(0)
            if plan.tied and weight.module == HEAD:  # the embedding is looked up in the same matrix
                for user in source.output(0).get_target_inputs():
                    user.replace_source_output(new)
            else:
                node.input(1).replace_source_output(new)
    if not plan.tied:
        place = embedding_input(model, plan, weights.file)
        found = measure(place.get_source_output().get_node(), plan.embedding, weights, lambda count: None)
        check_is(plan.embedding, found, weights.file)
        if not found.exact:
            place.replace_source_output(build(weights, plan.embedding, precision, scratch).output(0))
    model.validate_nodes_and_infer_types()
    return read


def embedding_input(model: ov.Model, plan: Plan, file: str) -> ov.Input:
    """Give where the network looks its tokens up; ``artifact.import.network`` where that is not one place."""
    found = []
    for node in model.get_ops():
        if node.get_type_name() == "Gather" and constants.is_weight(node.input_value(0).get_node()):
            shape = node.input_value(0).get_partial_shape()
            if shape.is_static and tuple(shape.to_shape()) == plan.embedding.shape:
                found.append(node.input(0))
    if len(found) != 1:
        message = f"the network looks tokens up in {len(found)} places, expected 1"
        raise import_error("network", message, file, plan.embedding.tensor.name, _UNSUPPORTED)
    return found[0]
