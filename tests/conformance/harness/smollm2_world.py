"""SmolLM2-135M with the two example adapters, whole or cut to its first layers."""

from __future__ import annotations

from pathlib import Path

from smollm2 import ACME, FIM, base_path

from .cut import cut, negated
from .llama_world import LlamaWorld

LAYERS = 2
TOKENS = 4096
VARIANTS = {
    "base": (),
    "A": (("a", "1"),),
    "B": (("b", "1"),),
    "A+B": (("a", "1"), ("b", "1")),
    "A@0.5": (("a", "0.5"),),
}


def cut_world(folder: Path) -> LlamaWorld:
    """Two of thirty layers, and a twelfth of the tokens, whose logits would be four fifths of the work."""
    base = cut(base_path(), folder / "base.gguf", LAYERS, {"llama.block_count": LAYERS}, vocabulary=TOKENS)
    versions = {}
    for name, source in (("a", ACME), ("b", FIM)):
        first = cut(source, folder / f"{name}-0.gguf", LAYERS)
        versions[name] = first, negated(first, folder / f"{name}-1.gguf")
    return LlamaWorld(folder, base, versions, VARIANTS)


def whole_world(folder: Path) -> LlamaWorld:
    """The base and adapters as they are."""
    versions = {
        name: (source, negated(source, folder / f"{name}-1.gguf")) for name, source in (("a", ACME), ("b", FIM))
    }
    return LlamaWorld(folder, base_path(), versions, VARIANTS)
