"""Reads a LoRA adapter in GGUF, and says whether it fits a base: one function a rule, before llama.cpp sees either.

llama.cpp checks part of this with an error in its log, skips part in silence (`*_norm` tensors, no tensors at all),
aborts the process over part (values of the wrong type) and writes out of bounds over part (expert counts). Here each
rule has its own code, ``artifact.adapter.*``, and names the tensor or key.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from warmline.artifacts.gguf import GGUFHeader, Limits, Source, TensorInfo, read_header
from warmline.artifacts.gguf_bytes import shown
from warmline.errors import ArtifactError

# An adapter holds no vocabulary: it gets by with much less than a base.
ADAPTER_LIMITS = Limits(max_kv=1_024, max_string_bytes=1 << 20, max_kept_bytes=32 << 20, max_steps=200_000)

# The exact types that llama.cpp reads these keys by; another type aborts its process, or is read as garbage.
ADAPTER_TYPES = {
    "general.architecture": "str",
    "general.type": "str",
    "adapter.type": "str",
    "adapter.lora.alpha": "f32",
    "adapter.lora.task_name": "str",
    "adapter.lora.prompt_prefix": "str",
    "adapter.alora.invocation_tokens": "arr[u32]",
}
ALORA_KEY = "adapter.alora.invocation_tokens"
DTYPES = frozenset({"f32", "f16", "bf16", "q8_0"})
MAX_BASE_MODELS = 16

_A, _B = ".lora_a", ".lora_b"


@dataclass(frozen=True)
class BaseModelRef:
    """A base that the adapter names in its metadata: a claim, not a proof."""

    name: str | None
    organization: str | None
    repo_url: str | None


@dataclass(frozen=True)
class LoraPair:
    """The two factors for one weight of the base: its update is B·A, scaled."""

    target: str
    a: TensorInfo
    b: TensorInfo
    rank: int


@dataclass(frozen=True)
class AdapterSummary:
    """A LoRA adapter as its header describes it, checked.

    ``alpha`` is None where the file has none; ``rank`` is the same for all pairs; ``nbytes`` is the weights alone.
    """

    file: str
    architecture: str
    name: str | None
    alpha: float | None
    rank: int
    pairs: tuple[LoraPair, ...] = field(repr=False)
    n_params: int
    nbytes: int
    task_name: str | None
    prompt_prefix: str | None
    base_models: tuple[BaseModelRef, ...]
    license: str | None

    @property
    def native_factor(self) -> float:
        """What llama.cpp multiplies the user's scale by: alpha / rank, or 1 where alpha is absent or 0."""
        return self.alpha / self.rank if self.alpha else 1.0


def read_adapter(source: GGUFHeader | Source, *, label: str | None = None) -> AdapterSummary:
    """Read a LoRA adapter, or take its header, and check all that needs no base.

    Raises
    ------
    ArtifactError
        What `read_header` raises, and ``artifact.adapter.*`` for the first rule that is broken.
    """
    header = source if isinstance(source, GGUFHeader) else read_header(source, limits=ADAPTER_LIMITS, label=label)
    check_adapter_metadata(header)
    pairs = pair_tensors(header)
    for pair in pairs:
        _check_target(header.file, pair)
        _check_dtype(header.file, pair)
        _check_product(header.file, pair)
    return AdapterSummary(
        file=header.file,
        architecture=header.get_str("general.architecture") or "",
        name=header.get_str("general.name"),
        alpha=header.get_float("adapter.lora.alpha"),
        rank=uniform_rank(header.file, pairs),
        pairs=pairs,
        n_params=sum(pair.a.n_elements + pair.b.n_elements for pair in pairs),
        nbytes=sum(pair.a.nbytes + pair.b.nbytes for pair in pairs),
        task_name=header.get_str("adapter.lora.task_name"),
        prompt_prefix=header.get_str("adapter.lora.prompt_prefix"),
        base_models=_base_models(header),
        license=header.get_str("general.license"),
    )


def check_adapter_metadata(header: GGUFHeader) -> None:
    """Check what the keys say: exact value types, a LoRA adapter, an architecture, a usable alpha."""
    header.check_types(ADAPTER_TYPES)
    _check_general_type(header)
    _check_adapter_type(header)
    _check_not_alora(header)
    _check_architecture_named(header)
    _check_alpha(header)


def check_against_base(adapter: AdapterSummary, base: GGUFHeader) -> None:
    """Check that every pair fits the weight of the base that it names.

    Raises
    ------
    ArtifactError
        ``artifact.adapter.*``; its file is the adapter's, except where the base is no base model.
    """
    _check_is_model(base)
    _check_same_architecture(adapter, base)
    for pair in adapter.pairs:
        weight = _target_in_base(adapter.file, pair, base)
        _check_input_width(adapter.file, pair, weight)
        _check_output_width(adapter.file, pair, weight)
        _check_experts(adapter.file, pair, weight)


def _error(rule: str, message: str, file: str, at: str | None, remedy: str) -> ArtifactError:
    where = None if at is None else shown(at)
    return ArtifactError(message, code=f"artifact.adapter.{rule}", file=file, field=where, remedy=remedy)


# ---- what the keys say ----


def _check_general_type(header: GGUFHeader) -> None:
    kind = header.get_str("general.type")
    if kind != "adapter":
        said = "says nothing of its type" if kind is None else f"is of type '{shown(kind)}'"
        remedy = "Give an adapter file; a base model is chosen as the variant's base"
        raise _error("not_adapter", f"the file {said}, expected 'adapter'", header.file, "general.type", remedy)


def _check_adapter_type(header: GGUFHeader) -> None:
    kind = header.get_str("adapter.type")
    if kind != "lora":
        message = f"adapters of type '{shown(kind or '')}' cannot be used, only 'lora'"
        raise _error("kind", message, header.file, "adapter.type", "Use a LoRA adapter")


def _check_not_alora(header: GGUFHeader) -> None:
    # An activated LoRA works only after its invocation tokens: applied throughout it gives wrong text in silence.
    if ALORA_KEY in header.types:
        remedy = "Use a plain LoRA adapter"
        raise _error("alora", "activated LoRA (aLoRA) is not supported", header.file, ALORA_KEY, remedy)


def _check_architecture_named(header: GGUFHeader) -> None:
    name = header.get_str("general.architecture")
    if not name or "\0" in name:
        message, remedy = "the adapter names no architecture", "Convert the adapter again"
        raise _error("architecture", message, header.file, "general.architecture", remedy)


def _check_alpha(header: GGUFHeader) -> None:
    alpha = header.get_float("adapter.lora.alpha")
    if alpha is not None and not (math.isfinite(alpha) and alpha >= 0):
        remedy = "Convert the adapter again"
        raise _error("alpha", f"alpha is {alpha}, no usable number", header.file, "adapter.lora.alpha", remedy)


def _base_models(header: GGUFHeader) -> tuple[BaseModelRef, ...]:
    count = header.get_int("general.base_model.count") or 0
    found = (
        BaseModelRef(
            name=header.get_str(f"general.base_model.{i}.name"),
            organization=header.get_str(f"general.base_model.{i}.organization"),
            repo_url=header.get_str(f"general.base_model.{i}.repo_url"),
        )
        for i in range(min(count, MAX_BASE_MODELS))
    )
    return tuple(found)


# ---- the pairs ----


def pair_tensors(header: GGUFHeader) -> tuple[LoraPair, ...]:
    """Match ``X.lora_a`` with ``X.lora_b``, in the order of the file; every tensor must belong to a pair."""
    halves: dict[str, dict[str, TensorInfo]] = {}
    for name, tensor in header.tensors.items():
        stem, suffix = name[: -len(_A)], name[-len(_A) :]
        if suffix not in (_A, _B):
            raise _unpaired(header.file, name)
        # llama.cpp removes every ".lora_a" from the name: with a second one the pair would be another one there.
        if not stem or _A in stem or _B in stem:
            message = "the name holds more than one suffix, or nothing else"
            raise _error("name", message, header.file, name, "Convert the adapter again")
        halves.setdefault(stem, {})[suffix] = tensor
    if not halves:
        message = "the adapter holds no tensors and would change nothing"
        raise _error("empty", message, header.file, None, "Convert the adapter again")
    for stem, pair in halves.items():
        if len(pair) == 1:
            missing = _B if _A in pair else _A
            message = f"{shown(stem)}{missing} is missing, its other half is there"
            raise _error("half", message, header.file, stem, "Download or convert the adapter again")
    return tuple(LoraPair(stem, pair[_A], pair[_B], pair[_A].ne[1]) for stem, pair in halves.items())


def _unpaired(file: str, name: str) -> ArtifactError:
    if name.removesuffix(".weight").endswith("_norm"):
        return _norm_error(file, name)
    message = "the tensor is neither a lora_a nor a lora_b"
    return _error("tensor", message, file, name, "Train the adapter without modules_to_save and biases")


def _norm_error(file: str, name: str) -> ArtifactError:
    # llama.cpp skips bare norm tensors without a word: the variant would not be what was trained.
    message = "the adapter changes a norm, which llama.cpp leaves out"
    return _error("norm", message, file, name, "Train the adapter without norm layers")


def _check_target(file: str, pair: LoraPair) -> None:
    if pair.target.removesuffix(".weight").endswith("_norm"):
        raise _norm_error(file, pair.target)
    if pair.target.endswith("token_embd.weight"):
        # Its A and B lie the other way round, and on a base with tied embeddings llama.cpp is not safe with it.
        message = "adapters on the token embedding are not supported"
        raise _error("token_embd", message, file, pair.target, "Train the adapter without embed_tokens")
    if not pair.target.endswith(".weight"):
        message = "the target is no weight, and llama.cpp would not apply it"
        raise _error("target", message, file, pair.target, "Train the adapter on linear layers only")


def _check_dtype(file: str, pair: LoraPair) -> None:
    for tensor in (pair.a, pair.b):
        if tensor.dtype not in DTYPES:
            message = f"weights of type {tensor.dtype} are not supported in an adapter"
            raise _error("dtype", message, file, tensor.name, "Convert the adapter to f32, f16, bf16 or q8_0")


def _check_product(file: str, pair: LoraPair) -> None:
    """B·A must exist: A is [in, rank, experts], B is [rank, out, experts], in ggml's order."""
    a, b = pair.a.ne, pair.b.ne
    if a[1] != b[0] or a[2] != b[2] or a[3] != 1 or b[3] != 1:
        message = f"A {list(pair.a.shape)} and B {list(pair.b.shape)} cannot be multiplied"
        raise _error("shape", message, file, pair.target, "Convert the adapter again")


def uniform_rank(file: str, pairs: tuple[LoraPair, ...]) -> int:
    """The rank that all pairs share; llama.cpp scales by each pair's own, so one alpha would mean several scales."""
    rank = pairs[0].rank
    for pair in pairs:
        if pair.rank != rank or rank < 1:
            message = f"the rank is {pair.rank}, and {rank} in {shown(pairs[0].target)}"
            raise _error("rank", message, file, pair.target, "Train the adapter with one rank for all modules")
    return rank


# ---- the pairs against the base ----


def _check_is_model(base: GGUFHeader) -> None:
    kind = base.get_str("general.type")
    if kind not in (None, "model"):
        message = f"the base is of type '{shown(kind)}', expected 'model'"
        raise _error("base", message, base.file, "general.type", "Choose a base model as the variant's base")


def _check_same_architecture(adapter: AdapterSummary, base: GGUFHeader) -> None:
    name = base.get_str("general.architecture")
    if adapter.architecture != name:
        message = f"the adapter is for '{shown(adapter.architecture)}', the base is '{shown(name or '')}'"
        remedy = "Choose the base that the adapter was trained on"
        raise _error("architecture_mismatch", message, adapter.file, "general.architecture", remedy)


def _target_in_base(file: str, pair: LoraPair, base: GGUFHeader) -> TensorInfo:
    weight = base.tensors.get(pair.target)
    if weight is None and pair.target == "output.weight":
        message = "the base has no output.weight, its embeddings are tied"
        raise _error("tied", message, file, pair.target, "Train the adapter without lm_head")
    if weight is None:
        message = "the base has no such weight"
        raise _error("no_target", message, file, pair.target, "Choose the base that the adapter was trained on")
    return weight


def _check_input_width(file: str, pair: LoraPair, weight: TensorInfo) -> None:
    if pair.a.ne[0] != weight.ne[0]:
        raise _misfit("input_width", file, pair, f"A takes {pair.a.ne[0]} inputs, the base's weight {weight.ne[0]}")


def _check_output_width(file: str, pair: LoraPair, weight: TensorInfo) -> None:
    if pair.b.ne[1] != weight.ne[1]:
        raise _misfit("output_width", file, pair, f"B gives {pair.b.ne[1]} outputs, the base's weight {weight.ne[1]}")


def _check_experts(file: str, pair: LoraPair, weight: TensorInfo) -> None:
    # llama.cpp never compares these: too few experts in the adapter and it works outside its memory.
    if (pair.a.ne[2:], pair.b.ne[2:]) != (weight.ne[2:], weight.ne[2:]):
        raise _misfit("experts", file, pair, f"A and B are for {pair.a.ne[2]} experts, the base has {weight.ne[2]}")


def _misfit(rule: str, file: str, pair: LoraPair, message: str) -> ArtifactError:
    return _error(rule, message, file, pair.target, "Choose the base that the adapter was trained on")
