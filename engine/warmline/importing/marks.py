"""What an imported model says of itself, in its rt_info: of which GGUF it was made, by which importer, and how."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from ..artifacts.openvino_ir import Plan, Precision

if TYPE_CHECKING:
    import openvino as ov

    from .graph import Deviation

# Raise it whenever the same GGUF would give another model.
IMPORTER_VERSION: Final = 1
ROOM: Final = "warmline"


def mark(
    model: ov.Model, digest: str, precision: Precision, plan: Plan, read: Mapping[str, Deviation]
) -> dict[str, str]:
    """Write the marks, and return them.

    ``reader_error`` says by layer how far GenAI's reader was off: the worst of the layer's matrices, as the root mean
    square of its differences over that of its values.
    """
    import openvino_genai

    worst: dict[str, float] = defaultdict(float)
    for weight in plan.matmuls:
        worst[weight.layer] = max(worst[weight.layer], read[weight.module].relative)
    marks = {
        "source_digest": digest,
        "importer_version": str(IMPORTER_VERSION),
        "reader": f"openvino-genai {openvino_genai.__version__}",
        "precision": precision,
        "reader_error": json.dumps({layer: float(f"{error:.3g}") for layer, error in worst.items()}),
    }
    for key, value in marks.items():
        model.set_rt_info(value, [ROOM, key])
    return marks
