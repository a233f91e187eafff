"""What each architecture calls its weights in PEFT and in GGUF, and whose query and key rows lie in another order.

Names in GGUF come from gguf-py's map. That map knows every family's names at once and answers for modules that an
architecture does not have, so what may be asked is listed here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from warmline.artifacts.gguf import GGUFHeader
from warmline.artifacts.gguf_bytes import shown
from warmline.errors import ArtifactError

MAX_BLOCKS = 1_024

_ATTENTION = frozenset({"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj"})
_GATED = frozenset({"mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"})
_BLOCK = re.compile(r"model\.layers\.(0|[1-9][0-9]{0,3})\.((?:self_attn|mlp)\.[a-z_]{1,32})")
HEAD = "lm_head"


@dataclass(frozen=True)
class Architecture:
    """One of GGUF's architectures.

    Parameters
    ----------
    name
        ``general.architecture``.
    modules
        The linear modules of one block, by their path inside it.
    interleaved
        Whether llama.cpp keeps rotary pairs side by side (rows 2j and 2j+1 of a head), where Hugging Face keeps them
        half a head apart (rows j and j + d/2). Only then do the rows of q and k change places.
    wrappers
        What a larger model around this one puts before ``layers``, each to be read as ``model.``.
    """

    name: str
    modules: frozenset[str]
    interleaved: bool = False
    wrappers: tuple[str, ...] = ()


ARCHITECTURES: Mapping[str, Architecture] = {
    a.name: a
    for a in (
        Architecture("llama", _ATTENTION | _GATED, interleaved=True),  # Mistral too: GGUF has no name of its own for it
        Architecture("qwen2", _ATTENTION | _GATED),
        Architecture("qwen3", _ATTENTION | _GATED),
        # From 4B on, Gemma 3 comes with an image encoder, and the text model lies one level deeper.
        Architecture("gemma3", _ATTENTION | _GATED, wrappers=("model.language_model.", "language_model.model.")),
        Architecture("starcoder2", _ATTENTION | {"mlp.c_fc", "mlp.c_proj"}),
        Architecture(
            "phi3", frozenset({"self_attn.qkv_proj", "self_attn.o_proj", "mlp.gate_up_proj", "mlp.down_proj"})
        ),
    )
}


def architecture_of(base: GGUFHeader) -> Architecture:
    """Give the base's architecture, or raise ``artifact.convert.architecture`` where adapters cannot be converted."""
    name = base.get_str("general.architecture") or ""
    found = ARCHITECTURES.get(name)
    if found is None:
        message = f"adapters for the architecture '{shown(name)}' cannot be converted"
        remedy = f"Use an adapter that is already GGUF, or a base of {', '.join(sorted(ARCHITECTURES))}"
        raise _error("architecture", message, base.file, "general.architecture", remedy)
    return found


def name_map(architecture: Architecture, base: GGUFHeader, file: str) -> Callable[[str], str]:
    """Give the function from a module's path in PEFT to its weight's name in GGUF.

    The function raises ``artifact.convert.module``, against ``file``, for a module that the architecture lacks.
    """
    lookup = _gguf_names(architecture, block_count(architecture, base))

    def gguf_name(module: str) -> str:
        path = _unwrapped(architecture, module)
        block = _BLOCK.fullmatch(path)
        known = path == HEAD or (block is not None and block[2] in architecture.modules)
        name = lookup(path) if known else None
        if name is None:
            message = f"the architecture '{architecture.name}' of this base has no such module"
            remedy = "Choose the base that the adapter was trained on"
            raise _error("module", message, file, module, remedy)
        return name

    return gguf_name


def heads(architecture: Architecture, base: GGUFHeader, weight: str) -> int | None:
    """How many heads the rows of a weight form, where they change places; None where they stay, or it is not there.

    Raises
    ------
    ArtifactError
        ``artifact.convert.heads`` where the base's head counts do not fit its own weight.
    """
    tensor = base.tensors.get(weight)
    if tensor is None or not architecture.interleaved or not weight.endswith((".attn_q.weight", ".attn_k.weight")):
        return None
    key = f"{architecture.name}.attention.head_count"
    count = base.get_int(key)
    if weight.endswith(".attn_k.weight"):
        # Without grouped heads there may be no second key.
        grouped = base.get_int(f"{key}_kv")
        count = count if grouped is None else grouped
    rows = tensor.ne[1]
    if count is None or count < 1 or rows % count or rows // count % 2:
        message = f"{count} heads do not fit the {rows} rows of {weight}"
        raise _error("heads", message, base.file, key, "Download the base again")
    return count


def block_count(architecture: Architecture, base: GGUFHeader) -> int:
    """Give how many blocks the base says it has; ``artifact.convert.blocks`` where that makes no sense."""
    key = f"{architecture.name}.block_count"
    count = base.get_int(key)
    if count is None or not 1 <= count <= MAX_BLOCKS:
        message = f"the number of blocks is {count}, expected 1 to {MAX_BLOCKS}"
        raise _error("blocks", message, base.file, key, "Download the base again")
    return count


def _gguf_names(architecture: Architecture, n_blocks: int) -> Callable[[str], str | None]:
    # Here, not above: it takes a fifth of a second, and only a conversion needs it.
    import gguf

    by_name = {name: arch for arch, name in gguf.MODEL_ARCH_NAMES.items()}
    names = gguf.get_tensor_name_map(by_name[architecture.name], n_blocks)
    return lambda path: names.get_name(path + ".weight", try_suffixes=(".weight",))


def _unwrapped(architecture: Architecture, module: str) -> str:
    for wrapper in architecture.wrappers:
        if module.startswith(wrapper + "layers."):
            return "model." + module.removeprefix(wrapper)
    return module


def _error(rule: str, message: str, file: str, at: str, remedy: str) -> ArtifactError:
    return ArtifactError(message, code=f"artifact.convert.{rule}", file=file, field=shown(at), remedy=remedy)
