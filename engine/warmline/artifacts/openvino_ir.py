"""What an imported OpenVINO model calls its weights, and which tensor of the GGUF each of them must be.

Adapters find a MatMul by its friendly name, which has to hold the module's path as PEFT writes it. GenAI's GGUF reader
leaves all of them anonymous (``MatMul_46``), numbered in the order in which it builds the network.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from ..errors import ArtifactError
from .architectures import ARCHITECTURES, HEAD, block_count, heads, name_map
from .gguf import GGUFHeader, TensorInfo
from .gguf_bytes import shown

# What GenAI's reader builds (openvino.genai, src/cpp/src/gguf_utils/gguf_modeling.cpp).
IMPORTABLE: Final = ("llama", "qwen2", "qwen3")
# How the weights are kept: as the GGUF has them, or in as few bytes as change little (`importing.forms`).
Precision = Literal["exact", "compact"]
EMBEDDING: Final = "model.embed_tokens"
EMBEDDING_TENSOR: Final = "token_embd.weight"
HEAD_TENSOR: Final = "output.weight"
# In the order in which the reader builds a block.
_MODULES: Final = (
    *(f"self_attn.{name}_proj" for name in "qkvo"),
    *(f"mlp.{name}_proj" for name in ("gate", "up", "down")),
)


@dataclass(frozen=True, slots=True)
class Weight:
    """One matrix of the network.

    Parameters
    ----------
    module
        Its path as PEFT writes it: ``model.layers.0.self_attn.q_proj``, ``lm_head``, ``model.embed_tokens``.
    tensor
        The GGUF tensor that holds it.
    heads
        Of how many heads its rows lie in llama.cpp's rotary order; None where they lie as in Hugging Face.
    """

    module: str
    tensor: TensorInfo
    heads: int | None

    @property
    def shape(self) -> tuple[int, int]:
        """Rows (outputs) and columns (inputs)."""
        return self.tensor.ne[1], self.tensor.ne[0]

    @property
    def layer(self) -> str:
        """The block's number as text, or the module's own name outside of the blocks."""
        parts = self.module.split(".")
        return parts[2] if parts[1:2] == ["layers"] else self.module


@dataclass(frozen=True, slots=True)
class Plan:
    """All weights of a base: ``matmuls`` in the order in which the reader builds them, the embedding, and the rest.

    ``tied`` says that the head is the embedding; ``vectors`` are norms and biases, which are never quantised.
    """

    matmuls: tuple[Weight, ...]
    embedding: Weight
    tied: bool
    vectors: tuple[TensorInfo, ...]


def matmul_name(module: str) -> str:
    """Give the friendly name of a module's MatMul, as exporters of the OpenVINO project write it."""
    return f"__module.{module}/ov_ext::linear/MatMul"


def module_of(name: str) -> str | None:
    """Give the module of a canonical MatMul name; None for any other name."""
    module = name.removeprefix("__module.").partition("/")[0]
    return module if name == matmul_name(module) else None


def plan_import(header: GGUFHeader) -> Plan:
    """Say which weights a base has, and check that its reader knows all of them.

    Raises
    ------
    ArtifactError
        ``artifact.import.architecture``, ``artifact.import.rope``, ``artifact.import.tensor`` (a weight is missing, or
        one is there that the network would be built without), ``artifact.convert.heads``, ``artifact.convert.blocks``.
    """
    name = header.get_str("general.architecture") or ""
    if name not in IMPORTABLE:
        message = f"OpenVINO GenAI reads no GGUF of the architecture '{shown(name)}'"
        remedy = f"Use a base of {', '.join(IMPORTABLE)}, export the model with optimum-intel, or run it on llama.cpp"
        raise import_error("architecture", message, header.file, "general.architecture", remedy)
    _check_rope(header, name)
    architecture = ARCHITECTURES[name]
    gguf_name = name_map(architecture, header, header.file)
    modules = [f"model.layers.{n}.{module}" for n in range(block_count(architecture, header)) for module in _MODULES]
    matmuls = [(module, gguf_name(module)) for module in modules]
    tied = HEAD_TENSOR not in header.tensors
    matmuls.append((HEAD, EMBEDDING_TENSOR if tied else HEAD_TENSOR))
    weights = tuple(Weight(module, _matrix(header, at), heads(architecture, header, at)) for module, at in matmuls)
    embedding = Weight(EMBEDDING, _matrix(header, EMBEDDING_TENSOR), None)
    known = {weight.tensor.name for weight in (*weights, embedding)}
    return Plan(weights, embedding, tied, tuple(_vectors(header, known)))


def _matrix(header: GGUFHeader, name: str) -> TensorInfo:
    tensor = header.tensors.get(name)
    if tensor is None or len(tensor.shape) != 2:
        what = "is missing" if tensor is None else "is no matrix"
        raise import_error("tensor", f"the weight {what}", header.file, name, "Download the base again")
    return tensor


def _vectors(header: GGUFHeader, known: set[str]) -> Iterable[TensorInfo]:
    for name, tensor in header.tensors.items():
        if name in known:
            continue
        if len(tensor.shape) != 1 or name.startswith("rope_"):
            message, remedy = "the network would be built without this weight", "Run this base on llama.cpp"
            raise import_error("tensor", message, header.file, name, remedy)
        yield tensor


def _check_rope(header: GGUFHeader, architecture: str) -> None:
    """Refuse stretched rotary embeddings: the reader knows their base alone, and would build another model."""
    key = f"{architecture}.rope.scaling.type"
    kind = header.get_str(key)
    if kind not in (None, "none"):
        message = f"the reader leaves out the scaling '{shown(kind)}' of the rotary embedding"
        raise import_error("rope", message, header.file, key, "Run this base on llama.cpp")


def import_error(rule: str, message: str, file: str, at: str | None, remedy: str) -> ArtifactError:
    """An error of the import, ``artifact.import.<rule>``."""
    return ArtifactError(
        message, code=f"artifact.import.{rule}", file=file, field=None if at is None else shown(at), remedy=remedy
    )
