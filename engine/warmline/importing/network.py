"""What is in the network besides its matrices: norms, biases, the rotary embedding's base, the norms' epsilon."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from ..artifacts.gguf import GGUFHeader
from ..artifacts.openvino_ir import Plan, import_error
from .forms import within_f16

if TYPE_CHECKING:
    import openvino as ov

    from .weights import Floats, GGUFWeights

# Numbered in the order of making; what was rounded to f16 when it was saved says so behind its number.
_NUMBER: Final = re.compile(r"_([0-9]+)(?:_compressed)?$")
_BLOCK: Final = re.compile(r"blk\.([0-9]+)\.(.+)")
_REMEDY: Final = "Run this base on llama.cpp, or export it with optimum-intel"
_DEFAULT_BASE: Final = 10_000.0


@dataclass(frozen=True, slots=True)
class _Constant:
    """A constant that is no matrix: its number in the order of making, its node, and its values, shape (n,)."""

    number: int
    node: ov.Node
    values: Floats

    def restore(self, wanted: Floats) -> None:
        """Have the network compute with the wanted values where the reader has rounded them to f16."""
        import openvino as ov

        if np.array_equal(self.values, wanted):
            return
        new = ov.op.Constant(wanted.reshape(self.node.get_output_shape(0))).output(0)
        rounded = self.node.get_output_element_type(0) == ov.Type.f16
        for user in self.node.output(0).get_target_inputs():
            widening = rounded and user.get_node().get_type_name() == "Convert"
            for place in user.get_node().output(0).get_target_inputs() if widening else [user]:
                place.replace_source_output(new)


def repair_network(model: ov.Model, plan: Plan, header: GGUFHeader, weights: GGUFWeights) -> None:
    """Compare with the GGUF whatever is no matrix, and write anew what the reader has rounded to f16.

    Raises
    ------
    ArtifactError
        ``artifact.import.differs``, with the name of the tensor or the key.
    """
    found = _constants(model)
    _repair_vectors(found, plan, weights)
    _repair_rotary(found, header)
    _check_epsilon(found, header)


def _constants(model: ov.Model) -> list[_Constant]:
    """Give all floating-point constants that are no matrices, in the order in which they were made."""
    made = []
    for node in model.get_ops():
        if node.get_type_name() != "Constant" or node.get_output_element_type(0).to_string() not in ("f32", "f16"):
            continue
        shape = [each for each in node.get_output_shape(0) if each != 1]
        number = _NUMBER.search(node.get_friendly_name())
        if len(shape) <= 1:
            values = np.asarray(node.data, np.float32).reshape(-1)
            made.append(_Constant(int(number[1]) if number else -1, node, values))
    return sorted(made, key=lambda each: each.number)


def _repair_vectors(found: list[_Constant], plan: Plan, weights: GGUFWeights) -> None:
    """Each norm and bias is there, each kind of them in the order of the blocks."""
    unused = defaultdict(list)
    for constant in found:
        unused[len(constant.values)].append(constant)
    placed: dict[str, list[tuple[int, int, str]]] = defaultdict(list)
    for tensor in plan.vectors:
        wanted = weights.vector(tensor)
        candidates = unused[len(wanted)]
        match = next((each for each in candidates if within_f16(each.values, wanted)), None)
        if match is None:
            raise _differs(weights.file, tensor.name, "the network holds no constant with the values of this tensor")
        candidates[:] = [each for each in candidates if each is not match]
        match.restore(wanted)
        if block := _BLOCK.fullmatch(tensor.name):
            placed[block[2]].append((int(block[1]), match.number, tensor.name))
    for kind in placed.values():
        kind.sort()
        for (_, before, _), (_, after, name) in pairwise(kind):
            if after < before:
                raise _differs(weights.file, name, "the network uses this tensor in another block")


def _repair_rotary(found: list[_Constant], header: GGUFHeader) -> None:
    """The network turns by the GGUF's own frequencies, base**(-2i / d) for each pair i of a head of d.

    Rounded to f16 they would turn what stands at 2,000 by tenths of a radian too much or too little.
    """
    name = header.get_str("general.architecture")
    count = header.get_int(f"{name}.attention.head_count") or 1
    d = (
        header.get_int(f"{name}.rope.dimension_count")
        or header.get_int(f"{name}.attention.key_length")
        or (header.get_int(f"{name}.embedding_length") or 0) // count
    )
    base = header.get_float(f"{name}.rope.freq_base") or _DEFAULT_BASE
    wanted = (base ** -(np.arange(0, d, 2) / d)).astype(np.float32)
    matching = [each for each in found if len(each.values) == len(wanted)]
    if any(np.allclose(each.values, wanted, rtol=1e-4, atol=0) for each in matching):
        return
    rounded = next((each for each in matching if within_f16(each.values, wanted)), None)
    if rounded is None:
        message = f"the network holds no rotary embedding of {d} values a head with the base {base:g}"
        raise _differs(header.file, f"{name}.rope.freq_base", message)
    rounded.restore(wanted)


def _check_epsilon(found: list[_Constant], header: GGUFHeader) -> None:
    key = f"{header.get_str('general.architecture')}.attention.layer_norm_rms_epsilon"
    wanted = header.get_float(key)
    ones = [each.values[0] for each in found if len(each.values) == 1]
    if wanted is None or not any(np.isclose(each, wanted, rtol=1e-4, atol=0) for each in ones):
        raise _differs(header.file, key, f"no norm of the network has the epsilon {wanted}")


def _differs(file: str, at: str, message: str) -> Exception:
    return import_error("differs", message, file, at, _REMEDY)
