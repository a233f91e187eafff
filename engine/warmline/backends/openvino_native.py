"""OpenVINO GenAI, imported only by what runs it: how to add it, its version, the properties that change its results."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any, Final

from ..errors import BackendError

PACKAGE: Final = "openvino_genai"
INSTALL: Final = "pip install 'warmline[openvino]'"
# The plugin's defaults round weights and activations of a product to 8 bit and keep KV in 8 bit; these compute what the
# model says. Each of them moves logits, so all of them are identity.
PRECISE: Final = (
    ("DYNAMIC_QUANTIZATION_GROUP_SIZE", "0"),
    ("INFERENCE_PRECISION_HINT", "f32"),
    ("KV_CACHE_PRECISION", "f16"),
)


def installed() -> bool:
    """Tell whether the package is there, without importing it."""
    return importlib.util.find_spec(PACKAGE) is not None


def genai() -> Any:
    """Import OpenVINO GenAI.

    Raises
    ------
    BackendError
        ``backend.missing``: it is not installed, or cannot be imported here.
    """
    return _imported(PACKAGE)


def core() -> Any:
    """Import OpenVINO itself; raises as `genai`."""
    return _imported("openvino")


def version() -> str:
    """Return the versions of GenAI and of the runtime below it, builds included."""
    return f"{genai().get_version()} / {core().get_version()}"


def _imported(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except (ImportError, OSError) as error:
        what = "is not installed" if not installed() else f"cannot be imported: {error}"
        raise BackendError(f"OpenVINO GenAI {what}", code="backend.missing", remedy=f"Add it: {INSTALL}") from None
