"""OpenVINO GenAI, imported only by what runs it: how to add it, its version, the properties that change its results."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
from typing import Any, Final

from ..errors import BackendError

PACKAGE: Final = "openvino_genai"
INSTALL: Final = "pip install 'warmline[openvino]'"
# The plugin's defaults round what goes into a product; these compute what the model says. Whatever moves logits is
# identity.
PRECISE: Final = {"DYNAMIC_QUANTIZATION_GROUP_SIZE": "0", "INFERENCE_PRECISION_HINT": "f32"}
# What KV is kept as, by the name of the type in a profile.
KV_PRECISIONS: Final = {"f16": "f16", "f32": "f32", "bf16": "bf16", "q8_0": "u8"}
# Of an identity's properties those that are ours, and no plugin's.
OURS: Final = ("DEVICE", "PROMPT_LOOKUP")


def installed() -> bool:
    """Tell whether the package is there, without importing it."""
    return importlib.util.find_spec(PACKAGE) is not None


def package_version() -> str:
    """Return the installed package's version, without importing it."""
    return importlib.metadata.version("openvino-genai")


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
