"""The rules for a PEFT adapter's ``adapter_config.json``: one function a rule, each refusal by name.

What a runtime ignores in silence comes out as another adapter than the one that was trained: DoRA without its
magnitudes, patterns without their ranks, an initialisation that changed the base. Everything that two low-rank factors
and one scale cannot express is refused here. The fields are those of PEFT's LoraConfig, up to 0.21.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from warmline.artifacts.bounded_json import BadJSON, is_text, parse_object
from warmline.artifacts.gguf_bytes import shown
from warmline.errors import ArtifactError

MAX_CONFIG_BYTES = 1 << 20
MAX_DEPTH = 16
MAX_CONTAINERS = 10_000
MAX_TEXT = 4_096
MAX_RANK = 1 << 14
# llama.cpp keeps alpha as f32 and takes 0 for "no alpha": far smaller ones would become 0, and mean another scale.
MIN_ALPHA, MAX_ALPHA = 1e-6, 1e6

# The base stays as it is with these; what the adapter learned is all in A and B.
HARMLESS_INITS = frozenset({"gaussian", "eva", "orthogonal"})

# Fields that say how training went or what was saved where, and change nothing in how A and B apply. Which modules and
# layers were trained is seen in the tensors themselves, so layers_to_transform and the like need no rule.
HARMLESS_FIELDS = frozenset(
    {
        "auto_mapping",
        "base_model_name_or_path",
        "corda_config",
        "ensure_weight_tying",
        "eva_config",
        "exclude_modules",
        "inference_mode",
        "layers_pattern",
        "layers_to_transform",
        "loftq_config",
        "lora_dropout",
        "lora_ga_config",
        "megatron_config",
        "megatron_core",
        "peft_version",
        "qalora_group_size",
        "revision",
        "runtime_config",
    }
)


@dataclass(frozen=True)
class PeftConfig:
    """What a config says about an adapter that passed all rules.

    ``target_modules`` is empty where the config gives a regular expression, or leaves the choice to PEFT.
    """

    r: int
    lora_alpha: float
    use_rslora: bool
    target_modules: tuple[str, ...]
    base_model: str | None
    revision: str | None
    task_type: str | None

    @property
    def factor(self) -> float:
        """What PEFT multiplies B·A by: alpha / r, or alpha / sqrt(r) for rank-stabilised LoRA (arXiv 2312.03732)."""
        return self.lora_alpha / (math.sqrt(self.r) if self.use_rslora else self.r)


def parse_config(raw: bytes, label: str) -> PeftConfig:
    """Parse and check ``adapter_config.json``.

    Raises
    ------
    ArtifactError
        ``artifact.peft.*`` with the field, for the first rule that is broken.
    """
    try:
        data = parse_object(raw, max_depth=MAX_DEPTH, max_containers=MAX_CONTAINERS, floats=True)
    except BadJSON as error:
        where = None if error.key is None else shown(error.key)
        raise ArtifactError(
            error.message, code="artifact.peft.config", file=label, field=where, remedy="Save the adapter again"
        ) from error
    config = _Fields(data, label)
    for rule in RULES:
        rule(config)
    return PeftConfig(
        r=_rank(config),
        lora_alpha=_alpha(config),
        use_rslora=config.flag("use_rslora"),
        target_modules=_target_modules(config),
        base_model=config.text("base_model_name_or_path"),
        revision=config.text("revision"),
        task_type=config.text("task_type"),
    )


class _Fields:
    """The config's fields by type; a field of another type is an error, never a guess."""

    def __init__(self, data: Mapping[str, Any], label: str) -> None:
        self.data = data
        self.label = label

    def error(self, rule: str, message: str, field: str, remedy: str) -> ArtifactError:
        return ArtifactError(message, code=f"artifact.peft.{rule}", file=self.label, field=shown(field), remedy=remedy)

    def flag(self, field: str) -> bool:
        value = self.data.get(field)
        if value is None or isinstance(value, bool):
            return bool(value)
        raise self.type_error(field, "true or false")

    def text(self, field: str) -> str | None:
        value = self.data.get(field)
        if value is None:
            return None
        if not isinstance(value, str) or len(value) > MAX_TEXT or not is_text(value):
            raise self.type_error(field, f"text of at most {MAX_TEXT} characters")
        return value

    def is_set(self, field: str) -> bool:
        """Tell whether a field holds anything: null, false, and empty lists, objects and texts are nothing."""
        value = self.data.get(field)
        return value is not None and value is not False and value not in ([], {}, "")

    def type_error(self, field: str, expected: str) -> ArtifactError:
        return self.error("type", f"the value is not {expected}", field, "Save the adapter again")


# ---- one rule each ----


def _check_kind(config: _Fields) -> None:
    kind = config.text("peft_type")
    if kind != "LORA":
        said = "no adapter type is given" if kind is None else f"adapters of type '{shown(kind)}' cannot be used"
        raise config.error("kind", f"{said}, expected 'LORA'", "peft_type", "Train a LoRA adapter")


def _check_task(config: _Fields) -> None:
    # Other tasks put their own head on the base, and their modules have other names.
    task = config.text("task_type")
    if task not in (None, "CAUSAL_LM"):
        message = f"the adapter is for the task '{shown(task or '')}', expected 'CAUSAL_LM'"
        raise config.error("task", message, "task_type", "Train the adapter for text generation")


def _check_not_dora(config: _Fields) -> None:
    if config.flag("use_dora"):
        message = "DoRA is not supported: its magnitudes are no product of two factors"
        raise config.error("dora", message, "use_dora", "Train with use_dora=False, or merge the adapter into its base")


def _check_no_bias(config: _Fields) -> None:
    bias = config.text("bias")
    if bias not in (None, "none"):
        message = f"the adapter changes the base's biases (bias is '{shown(bias or '')}')"
        raise config.error("bias", message, "bias", "Train the adapter with bias='none'")


def _check_no_lora_bias(config: _Fields) -> None:
    if config.flag("lora_bias"):
        message = "the adapter has biases of its own"
        raise config.error("lora_bias", message, "lora_bias", "Train the adapter with lora_bias=False")


def _check_no_modules_to_save(config: _Fields) -> None:
    if config.is_set("modules_to_save"):
        message = "the adapter holds whole modules beside its factors"
        remedy = "Train the adapter without modules_to_save"
        raise config.error("modules_to_save", message, "modules_to_save", remedy)


def _check_no_token_indices(config: _Fields) -> None:
    if config.is_set("trainable_token_indices"):
        message = "the adapter changes single token embeddings"
        remedy = "Train the adapter without trainable_token_indices"
        raise config.error("token_indices", message, "trainable_token_indices", remedy)


def _check_one_rank(config: _Fields) -> None:
    if config.is_set("rank_pattern"):
        message = "modules have ranks of their own, and one scale would be wrong for some of them"
        remedy = "Train the adapter with one rank for all modules"
        raise config.error("rank_pattern", message, "rank_pattern", remedy)


def _check_one_alpha(config: _Fields) -> None:
    if config.is_set("alpha_pattern"):
        message = "modules have alphas of their own, and an adapter file holds one"
        remedy = "Train the adapter with one alpha for all modules"
        raise config.error("alpha_pattern", message, "alpha_pattern", remedy)


def _check_not_alora(config: _Fields) -> None:
    # It works only after its invocation tokens: applied throughout, it gives wrong text in silence.
    if config.is_set("alora_invocation_tokens"):
        message = "activated LoRA (aLoRA) is not supported"
        raise config.error("alora", message, "alora_invocation_tokens", "Train a plain LoRA adapter")


def _check_orientation(config: _Fields) -> None:
    # It marks a base whose weights lie as inputs x outputs (GPT-2's Conv1D). No base that adapters are converted for
    # has such, and PEFT itself turns the flag off for linear layers: where it is on, the base is another one. To
    # transpose on its word alone would give a wrong product wherever a weight is square.
    if config.flag("fan_in_fan_out"):
        message = "the adapter is for a base with transposed weights"
        remedy = "Train the adapter on a base with linear layers, with fan_in_fan_out=False"
        raise config.error("fan_in_fan_out", message, "fan_in_fan_out", remedy)


def _check_base_unchanged(config: _Fields) -> None:
    """PiSSA, OLoRA, CorDA, LoRA-GA and LoftQ take something out of the base; on the plain base it would count twice."""
    value = config.data.get("init_lora_weights")
    if value is None or isinstance(value, bool):
        return
    init = config.text("init_lora_weights") or ""
    if init.lower() not in HARMLESS_INITS:
        message = f"the initialisation '{shown(init)}' is not known to leave the base's weights as they are"
        remedy = "Save the adapter for the plain base (save_pretrained's path_initial_model_for_weight_conversion)"
        raise config.error("init", message, "init_lora_weights", remedy)


def _check_layers_not_replicated(config: _Fields) -> None:
    if config.is_set("layer_replication"):
        message = "the adapter is for a stack of repeated layers, which the base does not have"
        remedy = "Train the adapter without layer_replication"
        raise config.error("layer_replication", message, "layer_replication", remedy)


def _check_targets_are_modules(config: _Fields) -> None:
    if config.is_set("target_parameters"):
        message = "the adapter changes bare parameters (expert weights) instead of modules"
        remedy = "Train the adapter without target_parameters"
        raise config.error("target_parameters", message, "target_parameters", remedy)


def _check_nothing_unknown(config: _Fields) -> None:
    """Refuse every other field that is switched on: PEFT puts each of its variants behind a field of its own."""
    for field in config.data:
        if field not in KNOWN_FIELDS and config.is_set(field):
            message = "the field is not known, and it may change how the adapter applies"
            remedy = "Train a plain LoRA adapter, or remove the field if it only describes the training"
            raise config.error("unknown_field", message, field, remedy)


RULES: tuple[Callable[[_Fields], None], ...] = (
    _check_kind,
    _check_task,
    _check_not_dora,
    _check_no_bias,
    _check_no_lora_bias,
    _check_no_modules_to_save,
    _check_no_token_indices,
    _check_one_rank,
    _check_one_alpha,
    _check_not_alora,
    _check_orientation,
    _check_base_unchanged,
    _check_layers_not_replicated,
    _check_targets_are_modules,
    _check_nothing_unknown,
)

KNOWN_FIELDS = HARMLESS_FIELDS | {
    "alora_invocation_tokens",
    "alpha_pattern",
    "bias",
    "fan_in_fan_out",
    "init_lora_weights",
    "layer_replication",
    "lora_alpha",
    "lora_bias",
    "modules_to_save",
    "peft_type",
    "r",
    "rank_pattern",
    "target_modules",
    "target_parameters",
    "task_type",
    "trainable_token_indices",
    "use_dora",
    "use_rslora",
}


# ---- the values ----


def _rank(config: _Fields) -> int:
    r = config.data.get("r")
    if type(r) is not int or not 1 <= r <= MAX_RANK:
        message = f"the rank is not a whole number from 1 to {MAX_RANK}"
        raise config.error("rank", message, "r", "Save the adapter again")
    return r


def _alpha(config: _Fields) -> float:
    alpha = config.data.get("lora_alpha")
    if isinstance(alpha, bool) or not isinstance(alpha, int | float) or not MIN_ALPHA <= alpha <= MAX_ALPHA:
        message = f"alpha is not a number from {MIN_ALPHA:g} to {MAX_ALPHA:g}"
        raise config.error("alpha", message, "lora_alpha", "Save the adapter again")
    return float(alpha)


def _target_modules(config: _Fields) -> tuple[str, ...]:
    value = config.data.get("target_modules")
    if value is None or isinstance(value, str):
        return ()  # a regular expression of a stranger's is not run
    if not isinstance(value, list) or not all(isinstance(name, str) and is_text(name) for name in value):
        raise config.type_error("target_modules", "a list of names or a text")
    if not value:
        message, remedy = "no modules are targeted", "Save the adapter again"
        raise config.error("target_modules", message, "target_modules", remedy)
    return tuple(sorted(set(value)))
