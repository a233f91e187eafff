"""The rules for a PEFT adapter's weights: canonical names, complete pairs, matching shapes, finite numbers."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from warmline.artifacts.gguf_bytes import ReadAt, shown
from warmline.artifacts.matrix import CHUNK_BYTES, Matrix, all_finite, any_nonzero
from warmline.artifacts.peft_config import PeftConfig
from warmline.artifacts.safetensors import SafetensorsHeader, TensorEntry
from warmline.errors import ArtifactError

PREFIX = "base_model.model."
SUFFIX_A, SUFFIX_B = ".lora_A.weight", ".lora_B.weight"
DTYPES = {"F32": "f32", "F16": "f16", "BF16": "bf16"}


@dataclass(frozen=True)
class PeftPair:
    """The two factors for one module of the base: A is [r, inputs], B is [outputs, r]; the update is B·A, scaled.

    ``module`` is the module's path in the base, such as ``model.layers.0.self_attn.q_proj``.
    """

    module: str
    a: TensorEntry
    b: TensorEntry


def matrix(tensor: TensorEntry, read_at: ReadAt, file: str) -> Matrix:
    """Give a factor as rows to be read from the open weights file."""
    rows, columns = tensor.shape
    return Matrix(read_at, file, tensor.name, DTYPES[tensor.dtype], rows, columns, tensor.offset)


def pair_tensors(header: SafetensorsHeader, config: PeftConfig) -> tuple[PeftPair, ...]:
    """Match each A with its B, in the order of the file, and check both; every tensor must belong to a pair.

    Raises
    ------
    ArtifactError
        ``artifact.peft.*`` with the tensor's name, for the first rule that is broken.
    """
    halves: dict[str, dict[str, TensorEntry]] = {}
    for tensor in header.tensors.values():
        module, suffix = _split_name(header.file, tensor.name)
        halves.setdefault(module, {})[suffix] = tensor
    if not halves:
        message = "the adapter holds no tensors and would change nothing"
        raise _error("empty", message, header.file, None, "Save the adapter again")
    for module, found in halves.items():
        _check_complete(header.file, module, found)
    pairs = tuple(PeftPair(module, found[SUFFIX_A], found[SUFFIX_B]) for module, found in halves.items())
    for pair in pairs:
        _check_targeted(header.file, pair, config)
        _check_dtypes(header.file, pair)
        _check_shapes(header.file, pair, config)
    return pairs


def scan(header: SafetensorsHeader, pairs: Iterable[PeftPair], read_at: ReadAt) -> str:
    """Read the whole file once, in chunks: refuse NaN, infinities and all zeros; return its digest (``sha256:``)."""
    digest = hashlib.sha256()
    for at in range(0, header.data_offset, CHUNK_BYTES):
        digest.update(read_at(at, min(CHUNK_BYTES, header.data_offset - at)))
    nonzero: set[str] = set()
    for tensor in header.tensors.values():  # in the order of their data, which has no gaps: this is all of the file
        weights = matrix(tensor, read_at, header.file)
        for chunk in weights.raw_chunks():
            digest.update(chunk)
            _check_finite(header.file, tensor, chunk)
            if tensor.name not in nonzero and any_nonzero(chunk, weights.dtype):
                nonzero.add(tensor.name)
    _check_effect(header.file, pairs, nonzero)
    return "sha256:" + digest.hexdigest()


def _error(rule: str, message: str, file: str, at: str | None, remedy: str) -> ArtifactError:
    where = None if at is None else shown(at)
    return ArtifactError(message, code=f"artifact.peft.{rule}", file=file, field=where, remedy=remedy)


# ---- names ----


def _split_name(file: str, name: str) -> tuple[str, str]:
    """Split a tensor's name into the module's path and which half it is."""
    suffix = next((suffix for suffix in (SUFFIX_A, SUFFIX_B) if name.endswith(suffix)), None)
    if suffix is None:
        raise _not_a_factor(file, name)
    module = name.removesuffix(suffix).removeprefix(PREFIX)
    # OpenVINO drops tensors without the prefix in silence, so a name that is nearly right is not mended here.
    if not name.startswith(PREFIX) or not module or ".lora_" in module or "base_model." in module:
        message = f"the name is not {PREFIX}<module>{suffix}"
        raise _error("name", message, file, name, "Save the adapter with PEFT's save_pretrained")
    return module, suffix


def _not_a_factor(file: str, name: str) -> ArtifactError:
    if "lora_embedding_" in name:
        message, remedy = "adapters on embeddings are not supported", "Train the adapter without embed_tokens"
        return _error("embedding", message, file, name, remedy)
    if "lora_magnitude_vector" in name:
        message, remedy = "DoRA is not supported, and this is one of its magnitudes", "Train with use_dora=False"
        return _error("dora", message, file, name, remedy)
    if name.endswith((".lora_A.bias", ".lora_B.bias")):
        message, remedy = "the adapter has biases of its own", "Train the adapter with lora_bias=False"
        return _error("lora_bias", message, file, name, remedy)
    if ".lora_A." in name or ".lora_B." in name or name.endswith((".lora_a", ".lora_b")):
        message = f"the name ends neither in {SUFFIX_A} nor in {SUFFIX_B}"
        return _error("name", message, file, name, "Save the adapter with PEFT's save_pretrained")
    if name.endswith((".weight", ".bias")):
        message = "the adapter holds a whole weight or bias of the base"
        remedy = "Train the adapter without modules_to_save and biases, and save only the adapter"
        return _error("full_weight", message, file, name, remedy)
    message, remedy = "the tensor is neither a lora_A nor a lora_B", "Train a plain LoRA adapter"
    return _error("tensor", message, file, name, remedy)


def _check_complete(file: str, module: str, found: dict[str, TensorEntry]) -> None:
    if len(found) == 1:
        missing = SUFFIX_B if SUFFIX_A in found else SUFFIX_A
        message = f"{PREFIX}{shown(module)}{missing} is missing, its other half is there"
        raise _error("half", message, file, module, "Download or save the adapter again")


def _check_targeted(file: str, pair: PeftPair, config: PeftConfig) -> None:
    # PEFT loads only what target_modules names, and passes over the rest with a warning.
    targets = config.target_modules
    if targets and not any(pair.module == name or pair.module.endswith("." + name) for name in targets):
        message = "the module is not among the config's target_modules"
        remedy = "Take adapter_config.json and the weights from the same training run"
        raise _error("untargeted", message, file, pair.module, remedy)


# ---- types, shapes, numbers ----


def _check_dtypes(file: str, pair: PeftPair) -> None:
    for tensor in (pair.a, pair.b):
        if tensor.dtype not in DTYPES:
            message = f"weights of type {tensor.dtype} are not supported in an adapter"
            raise _error("dtype", message, file, tensor.name, "Save the adapter in float16, bfloat16 or float32")


def _check_shapes(file: str, pair: PeftPair, config: PeftConfig) -> None:
    """A must be r x inputs and B outputs x r, for the config's r: the scale is worked out from that one."""
    for tensor, axis in ((pair.a, 0), (pair.b, 1)):
        if len(tensor.shape) != 2 or 0 in tensor.shape:
            message = f"the shape is {list(tensor.shape)}, expected two dimensions, none of them 0"
            raise _error("shape", message, file, tensor.name, "Train the adapter on linear layers only")
        if tensor.shape[axis] != config.r:
            message = f"the shape is {list(tensor.shape)}, and the config's rank is {config.r}"
            remedy = "Take adapter_config.json and the weights from the same training run"
            raise _error("rank", message, file, tensor.name, remedy)


def _check_finite(file: str, tensor: TensorEntry, chunk: bytes) -> None:
    if not all_finite(chunk, DTYPES[tensor.dtype]):
        message = "the weights hold NaN or infinity"
        raise _error("not_finite", message, file, tensor.name, "Train the adapter again: its training diverged")


def _check_effect(file: str, pairs: Iterable[PeftPair], nonzero: set[str]) -> None:
    # B starts as zeros: an adapter saved before its training looks whole, and changes nothing.
    if not any(pair.a.name in nonzero and pair.b.name in nonzero for pair in pairs):
        message = "all products of the factors are zero: the adapter changes nothing"
        raise _error("no_effect", message, file, None, "Train the adapter, or save it after training")
