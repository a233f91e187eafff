"""What is in the network besides its matrices: norms, biases, the rotary embedding's base, the norms' epsilon."""

from __future__ import annotations

import re
from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from ..artifacts.gguf import GGUFHeader
from ..artifacts.openvino_ir import Plan, import_error
from .forms import within_f16

if TYPE_CHECKING:
    import openvino as ov

    from .weights import Floats, GGUFWeights

_NUMBER: Final = re.compile(r"_([0-9]+)$")
_BLOCK: Final = re.compile(r"blk\.([0-9]+)\.(.+)")
_REMEDY: Final = "Run this base on llama.cpp, or export it with optimum-intel"
_DEFAULT_BASE: Final = 10_000.0


def check_network(model: ov.Model, plan: Plan, header: GGUFHeader, weights: GGUFWeights) -> None:
    """Compare with the GGUF whatever is no matrix.

    Raises
    ------
    ArtifactError
        ``artifact.import.differs``, with the name of the tensor or the key.
    """
    found = _constants(model)
    _check_vectors(found, plan, weights)
    _check_rotary(found, header)
    _check_epsilon(found, header)


def _constants(model: ov.Model) -> list[Floats]:
    """Give all floating-point constants that are no matrices, in the order in which they were made."""
    made = []
    for node in model.get_ops():
        if node.get_type_name() != "Constant" or node.get_output_element_type(0).to_string() not in ("f32", "f16"):
            continue
        shape = [each for each in node.get_output_shape(0) if each != 1]
        number = _NUMBER.search(node.get_friendly_name())
        if len(shape) <= 1:
            values = np.asarray(node.data, np.float32).reshape(-1)
            made.append((int(number[1]) if number else -1, values))
    return [values for _, values in sorted(made, key=lambda each: each[0])]


def _check_vectors(found: list[Floats], plan: Plan, weights: GGUFWeights) -> None:
    """Each norm and bias is there, each kind of them in the order of the blocks."""
    unused = defaultdict(list)
    for at, values in enumerate(found):
        unused[len(values)].append((at, values))
    placed: dict[str, list[tuple[int, int, str]]] = defaultdict(list)
    for tensor in plan.vectors:
        wanted = weights.vector(tensor)
        candidates = unused[len(wanted)]
        match = next((each for each in candidates if within_f16(each[1], wanted)), None)
        if match is None:
            raise _differs(weights.file, tensor.name, "the network holds no constant with the values of this tensor")
        candidates[:] = [each for each in candidates if each is not match]
        if block := _BLOCK.fullmatch(tensor.name):
            placed[block[2]].append((int(block[1]), match[0], tensor.name))
    for kind in placed.values():
        kind.sort()
        for (_, before, _), (_, after, name) in pairwise(kind):
            if after < before:
                raise _differs(weights.file, name, "the network uses this tensor in another block")


def _check_rotary(found: list[Floats], header: GGUFHeader) -> None:
    """The network turns by the GGUF's own frequencies, base**(-2i / d) for each pair i of a head of d."""
    name = header.get_str("general.architecture")
    count = header.get_int(f"{name}.attention.head_count") or 1
    d = (
        header.get_int(f"{name}.rope.dimension_count")
        or header.get_int(f"{name}.attention.key_length")
        or (header.get_int(f"{name}.embedding_length") or 0) // count
    )
    base = header.get_float(f"{name}.rope.freq_base") or _DEFAULT_BASE
    wanted = base ** -(np.arange(0, d, 2) / d)
    if not any(len(each) == len(wanted) and np.allclose(each, wanted, rtol=1e-4, atol=0) for each in found):
        message = f"the network holds no rotary embedding of {d} values a head with the base {base:g}"
        raise _differs(header.file, f"{name}.rope.freq_base", message)


def _check_epsilon(found: list[Floats], header: GGUFHeader) -> None:
    key = f"{header.get_str('general.architecture')}.attention.layer_norm_rms_epsilon"
    wanted = header.get_float(key)
    if wanted is None or not any(len(each) == 1 and np.isclose(each[0], wanted, rtol=1e-4, atol=0) for each in found):
        raise _differs(header.file, key, f"no norm of the network has the epsilon {wanted}")


def _differs(file: str, at: str, message: str) -> Exception:
    return import_error("differs", message, file, at, _REMEDY)
