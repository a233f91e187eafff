"""SmolLM2 as an OpenVINO model folder: imported once from the real GGUF, kept in this user's cache."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import tempfile
import time
from pathlib import Path

import pytest
import smollm2
import warmline.importing
from warmline.digests import DigestCache
from warmline.importing.process import import_gguf


def importer_digest() -> str:
    """Return the digest of the importer's own code: a change of it makes the tests import afresh."""
    sha = hashlib.sha256()
    folder = Path(next(iter(warmline.importing.__path__)))
    for path in (*sorted(folder.glob("*.py")), folder.parent / "artifacts/openvino_ir.py"):
        sha.update(path.read_bytes())
    return sha.hexdigest()[:16]


def base_folder() -> Path:
    """Return the imported folder; skips the test where OpenVINO GenAI or the base is not installed."""
    if importlib.util.find_spec("openvino_genai") is None:
        pytest.skip("OpenVINO GenAI is not installed: pip install 'warmline[openvino]'")
    source = smollm2.base_path()
    digest = DigestCache().digest(source)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "warmline-tests"
    target = cache / f"openvino-{digest.removeprefix('sha256:')[:16]}-{importer_digest()}"
    if not target.exists():
        cache.mkdir(parents=True, exist_ok=True)
        for old in cache.glob("openvino-*"):
            if time.time() - old.stat().st_mtime > 3600:  # by another importer, and no test at work with it
                shutil.rmtree(old, ignore_errors=True)
        work = Path(tempfile.mkdtemp(dir=cache))
        try:
            made = work / "out"
            import_gguf(source, made, work, label=str(source), digest=digest, precision="exact", seconds=240)
            made.rename(target)
        finally:
            shutil.rmtree(work)
    return target
