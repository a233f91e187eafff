"""An adapter of another's shape whose weights are noise: what a suite must not be fooled by."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from gguf import GGUFReader


def random_twin(adapter: Path, target: Path, seed: int = 1) -> Path:
    """Write a copy of a GGUF adapter in which each tensor is noise of that tensor's own spread."""
    data = bytearray(adapter.read_bytes())
    chance = np.random.default_rng(seed)
    for tensor in GGUFReader(adapter).tensors:
        values = np.asarray(tensor.data)
        noise = chance.normal(0.0, float(np.std(values.astype(np.float32))), values.shape).astype(values.dtype)
        at = int(tensor.data_offset)
        data[at : at + noise.nbytes] = noise.tobytes()
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(bytes(data))
    return target
