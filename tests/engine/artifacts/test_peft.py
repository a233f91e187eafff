"""PEFT folders: what training tools write is read, and all that two factors and one scale cannot say is refused."""

from __future__ import annotations

import hashlib
import json
import math
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors_writer import lora_tensors, names, packed, peft_config, peft_folder, safetensors
from warmline.artifacts.matrix import CHUNK_BYTES
from warmline.artifacts.peft import PeftAdapter, read_peft
from warmline.artifacts.peft_config import PeftConfig, parse_config
from warmline.errors import ArtifactError

ADAPTERS = Path(__file__).parents[3] / "examples" / "adapters"
Q, V = "model.layers.0.self_attn.q_proj", "model.layers.0.self_attn.v_proj"
MODULES = {Q: (8, 6), V: (8, 4)}
GOOD = lora_tensors(MODULES)
QA, QB = names(Q)


def refusal(folder: Path) -> ArtifactError:
    with pytest.raises(ArtifactError) as caught:
        read_peft(folder)
    assert caught.value.remedy
    return caught.value


def config_refusal(config: dict[str, object]) -> ArtifactError:
    with pytest.raises(ArtifactError) as caught:
        parse_config(json.dumps(config).encode(), "adapter_config.json")
    assert caught.value.file == "adapter_config.json"
    assert caught.value.remedy
    return caught.value


def parsed(**fields: object) -> PeftConfig:
    return parse_config(json.dumps(peft_config(**fields)).encode(), "adapter_config.json")  # type: ignore[arg-type]


# ---- what is read ----


@pytest.mark.parametrize(
    ("folder", "r", "alpha", "pairs", "n_params"),
    [("acme-style", 4, 8.0, 60, 230_400), ("fim-python", 8, 16.0, 210, 2_442_240)],
)
def test_the_examples(folder: str, r: int, alpha: float, pairs: int, n_params: int) -> None:
    adapter = read_peft(ADAPTERS / folder)
    assert (adapter.config.r, adapter.config.lora_alpha, adapter.factor) == (r, alpha, 2.0)
    assert (len(adapter.pairs), adapter.n_params, adapter.nbytes) == (pairs, n_params, 2 * n_params)
    assert adapter.config.base_model == "HuggingFaceTB/SmolLM2-135M-Instruct"
    data = (ADAPTERS / folder / "adapter_model.safetensors").read_bytes()
    assert adapter.digest == "sha256:" + hashlib.sha256(data).hexdigest()
    assert {pair.module.rsplit(".")[-1] for pair in adapter.pairs} == set(adapter.config.target_modules)
    assert adapter.license is None


# As PEFT 0.21 writes one, switched-off variants, notes of a training tool and an expression for modules included.
FULL_CONFIG = {
    "alora_invocation_tokens": None,
    "alpha_pattern": {},
    "arrow_config": None,
    "auto_mapping": {"base_model_class": "X", "parent_library": "y", "unsloth_fixed": True},
    "base_model_name_or_path": "some/base-bnb-4bit",
    "bias": "none",
    "corda_config": None,
    "ensure_weight_tying": False,
    "eva_config": None,
    "exclude_modules": None,
    "fan_in_fan_out": False,
    "inference_mode": True,
    "init_lora_weights": True,
    "kasa_config": None,
    "layer_replication": None,
    "layers_pattern": None,
    "layers_to_transform": [0, 1],
    "loftq_config": {},
    "lora_alpha": 16,
    "lora_bias": False,
    "lora_dropout": 0.05,
    "lora_ga_config": None,
    "megatron_config": None,
    "megatron_core": "megatron.core",
    "modules_to_save": None,
    "monteclora_config": None,
    "peft_type": "LORA",
    "peft_version": "0.21.2",
    "qalora_group_size": 16,
    "r": 8,
    "rank_pattern": {},
    "revision": None,
    "target_modules": "(?:.*?(?:language|text).*?\\.(?:q_proj|v_proj))",
    "target_parameters": None,
    "task_type": "CAUSAL_LM",
    "trainable_token_indices": None,
    "use_bdlora": None,
    "use_dora": False,
    "use_qalora": False,
    "use_rslora": False,
    "velora_config": None,
}


def test_a_config_of_today_is_read() -> None:
    config = parse_config(json.dumps(FULL_CONFIG).encode(), "adapter_config.json")
    assert config == PeftConfig(8, 16.0, False, (), "some/base-bnb-4bit", None, "CAUSAL_LM")
    assert config.factor == 2.0


@pytest.mark.parametrize("init", [True, False, None, "gaussian", "Gaussian", "eva", "orthogonal"])
def test_an_initialisation_that_leaves_the_base_alone_is_no_matter(init: object) -> None:
    assert parsed(init_lora_weights=init).r == 2


@pytest.mark.parametrize("r", [1, 2, 8, 64])
def test_rank_stabilised_lora_divides_by_the_root(r: int) -> None:
    assert parsed(r=r, lora_alpha=16, use_rslora=True).factor == 16 / math.sqrt(r)
    assert parsed(r=r, lora_alpha=16, use_rslora=False).factor == 16 / r


@pytest.mark.parametrize("dtype", ["F32", "F16", "BF16"])
def test_each_type_of_weights_is_read(tmp_path: Path, dtype: str) -> None:
    adapter = read_peft(peft_folder(tmp_path / "a", lora_tensors(MODULES, dtype=dtype)))
    assert [pair.module for pair in adapter.pairs] == [Q, V]
    assert {pair.a.dtype for pair in adapter.pairs} == {dtype}
    assert (adapter.pairs[0].a.shape, adapter.pairs[0].b.shape) == ((2, 8), (6, 2))


@pytest.mark.parametrize(
    ("card", "expected"),
    [
        ("---\nbase_model: x\nlicense: apache-2.0\n---\n# Card", "apache-2.0"),
        ('---\nlicense: "mit"\n---\n', "mit"),
        ("---\nx: 1\n---\nlicense: mit\n", None),
        ("license: mit\n", None),
        ("---\nlicense: [a, b]\n---\n", None),
        ("---\nlicense: " + "x" * 200_000, None),
    ],
)
def test_the_licence_is_the_model_cards(tmp_path: Path, card: str, expected: str | None) -> None:
    folder = peft_folder(tmp_path / "a", GOOD)
    (folder / "README.md").write_text(card)
    assert read_peft(folder).license == expected


def test_a_trainers_own_pickles_beside_the_weights_are_not_touched(tmp_path: Path) -> None:
    folder = peft_folder(tmp_path / "a", GOOD)
    for name in ("optimizer.pt", "training_args.bin", "adapter_model.bin"):
        (folder / name).write_bytes(b"\x80\x04never opened")
        (folder / name).chmod(0)
    assert len(read_peft(folder).pairs) == 2


# ---- the folder ----


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    assert refusal(tmp_path / "no").code == "artifact.peft.folder"
    assert refusal(tmp_path / "a\0b").code == "artifact.unreadable"


def test_a_file_instead_of_the_folder(tmp_path: Path) -> None:
    folder = peft_folder(tmp_path / "a", GOOD)
    assert refusal(folder / "adapter_model.safetensors").code == "artifact.peft.folder"
    os.mkfifo(tmp_path / "fifo")
    assert refusal(tmp_path / "fifo").code == "artifact.peft.folder"


@pytest.mark.parametrize("name", ["adapter_model.bin", "adapter_model.pt", "adapter_model.pth"])
def test_a_pickle_is_refused_outright(tmp_path: Path, name: str) -> None:
    """Row 25: a pickle adapter. Neither in its folder nor by its path is one ever opened."""
    folder = peft_folder(tmp_path / "a", GOOD)
    (folder / "adapter_model.safetensors").rename(folder / name)
    for path in (folder, folder / name):
        error = refusal(path)
        assert (error.code, error.file) == ("artifact.peft.pickle", str(folder / name))
        assert "safetensors" in error.remedy


def test_a_pickle_renamed_to_safetensors_is_refused(tmp_path: Path) -> None:
    folder = peft_folder(tmp_path / "a", GOOD)
    (folder / "adapter_model.safetensors").write_bytes(b"PK\x03\x04" + bytes(100))
    assert refusal(folder).code == "artifact.safetensors.pickle"


@pytest.mark.parametrize("name", ["adapter_config.json", "adapter_model.safetensors"])
def test_each_file_must_be_there_and_be_a_file(tmp_path: Path, name: str) -> None:
    folder = peft_folder(tmp_path / "a", GOOD)
    path, kept = folder / name, tmp_path / "kept"
    path.rename(kept)
    assert refusal(folder).code == "artifact.peft.missing"
    path.symlink_to(kept)
    error = refusal(folder)
    assert (error.code, error.file) == ("artifact.peft.link", str(path))
    path.unlink()
    path.symlink_to("/nowhere")
    assert refusal(folder).code == "artifact.peft.link"
    path.unlink()
    os.mkfifo(path)
    assert refusal(folder).code == "artifact.peft.not_a_file"
    path.unlink()
    path.mkdir()
    assert refusal(folder).code == "artifact.peft.not_a_file"


# ---- the config ----

CONFIG_TEXTS = {
    "empty": b"",
    "not JSON": b"r: 8",
    "an array": b"[]",
    "not UTF-8": b'{"r": "\xff"}',
    "NaN": b'{"lora_alpha": NaN}',
    "nested": b'{"auto_mapping": ' + b"[" * 100_000,
    "too many objects": b'{"a": [' + b"{}," * 20_000,
    "digits without end": b'{"r": ' + b"9" * 100_000 + b"}",
    "a field twice": b'{"r": 8, "r": 64}',
    "too large": b'{"a": "' + b" " * (1 << 20) + b'"}',
}


@pytest.mark.parametrize("case", CONFIG_TEXTS)
def test_a_config_that_is_no_config(tmp_path: Path, case: str) -> None:
    folder = peft_folder(tmp_path / "a", GOOD)
    (folder / "adapter_config.json").write_bytes(CONFIG_TEXTS[case])
    error = refusal(folder)
    assert (error.code, error.file) == ("artifact.peft.config", str(folder / "adapter_config.json"))


CONFIG_RULES: dict[str, tuple[dict[str, object], str, str]] = {
    "another method": ({"peft_type": "LOHA"}, "kind", "peft_type"),
    "no method": ({"peft_type": None}, "kind", "peft_type"),
    "method no text": ({"peft_type": 1}, "type", "peft_type"),
    "classification": ({"task_type": "SEQ_CLS"}, "task", "task_type"),
    "DoRA": ({"use_dora": True}, "dora", "use_dora"),
    "DoRA no flag": ({"use_dora": "false"}, "type", "use_dora"),
    "bias": ({"bias": "lora_only"}, "bias", "bias"),
    "LoRA bias": ({"lora_bias": True}, "lora_bias", "lora_bias"),
    "modules to save": ({"modules_to_save": ["lm_head"]}, "modules_to_save", "modules_to_save"),
    "token indices": ({"trainable_token_indices": [3]}, "token_indices", "trainable_token_indices"),
    "rank pattern": ({"rank_pattern": {"q_proj": 4}}, "rank_pattern", "rank_pattern"),
    "alpha pattern": ({"alpha_pattern": {"q_proj": 4}}, "alpha_pattern", "alpha_pattern"),
    "aLoRA": ({"alora_invocation_tokens": [1, 2]}, "alora", "alora_invocation_tokens"),
    "transposed base": ({"fan_in_fan_out": True}, "fan_in_fan_out", "fan_in_fan_out"),
    "PiSSA": ({"init_lora_weights": "pissa"}, "init", "init_lora_weights"),
    "fast PiSSA": ({"init_lora_weights": "pissa_niter_16"}, "init", "init_lora_weights"),
    "OLoRA": ({"init_lora_weights": "olora"}, "init", "init_lora_weights"),
    "CorDA": ({"init_lora_weights": "corda"}, "init", "init_lora_weights"),
    "LoRA-GA": ({"init_lora_weights": "lora_ga"}, "init", "init_lora_weights"),
    "LoftQ": ({"init_lora_weights": "loftq"}, "init", "init_lora_weights"),
    "an initialisation of tomorrow": ({"init_lora_weights": "nova"}, "init", "init_lora_weights"),
    "initialisation no text": ({"init_lora_weights": 1}, "type", "init_lora_weights"),
    "repeated layers": ({"layer_replication": [[0, 2]]}, "layer_replication", "layer_replication"),
    "bare parameters": ({"target_parameters": ["experts.w"]}, "target_parameters", "target_parameters"),
    "QA-LoRA": ({"use_qalora": True}, "unknown_field", "use_qalora"),
    "Arrow": ({"arrow_config": {"top_k": 3}}, "unknown_field", "arrow_config"),
    "a method of tomorrow": ({"use_nova": True}, "unknown_field", "use_nova"),
    "a zero of tomorrow": ({"nova_scale": 0}, "unknown_field", "nova_scale"),
    "rank missing": ({"r": None}, "rank", "r"),
    "rank 0": ({"r": 0}, "rank", "r"),
    "rank negative": ({"r": -8}, "rank", "r"),
    "rank a text": ({"r": "8"}, "rank", "r"),
    "rank a bool": ({"r": True}, "rank", "r"),
    "rank a fraction": ({"r": 8.0}, "rank", "r"),
    "rank huge": ({"r": 2**40}, "rank", "r"),
    "alpha missing": ({"lora_alpha": None}, "alpha", "lora_alpha"),
    "alpha 0": ({"lora_alpha": 0}, "alpha", "lora_alpha"),  # llama.cpp would take it for a scale of 1
    "alpha nearly 0": ({"lora_alpha": 1e-50}, "alpha", "lora_alpha"),
    "alpha negative": ({"lora_alpha": -16}, "alpha", "lora_alpha"),
    "alpha huge": ({"lora_alpha": 1e30}, "alpha", "lora_alpha"),
    "alpha a text": ({"lora_alpha": "16"}, "alpha", "lora_alpha"),
    "alpha a bool": ({"lora_alpha": True}, "alpha", "lora_alpha"),
    "rsLoRA no flag": ({"use_rslora": 1}, "type", "use_rslora"),
    "targets no names": ({"target_modules": [1]}, "type", "target_modules"),
    "targets an object": ({"target_modules": {"q_proj": 1}}, "type", "target_modules"),
    "no targets": ({"target_modules": []}, "target_modules", "target_modules"),
    "base no text": ({"base_model_name_or_path": ["x"]}, "type", "base_model_name_or_path"),
    "base too long": ({"base_model_name_or_path": "x" * 5_000}, "type", "base_model_name_or_path"),
    "base half a character": ({"base_model_name_or_path": "\ud800"}, "type", "base_model_name_or_path"),
}


@pytest.mark.parametrize("rule", CONFIG_RULES)
def test_each_rule_of_the_config_has_its_error(rule: str) -> None:
    fields, code, field = CONFIG_RULES[rule]
    error = config_refusal({**peft_config(), **fields})
    assert (error.code, error.field) == (f"artifact.peft.{code}", field)


def test_an_infinite_alpha_is_refused() -> None:
    with pytest.raises(ArtifactError) as caught:
        parse_config(b'{"peft_type": "LORA", "r": 2, "lora_alpha": 1e999}', "adapter_config.json")
    assert caught.value.code == "artifact.peft.alpha"


# ---- the weights ----


def without(*names: str) -> dict[str, object]:
    return {name: tensor for name, tensor in GOOD.items() if name not in names}


def spoiled(name: str, index: int, value: float, dtype: str) -> dict[str, object]:
    tensors = lora_tensors(MODULES, dtype=dtype)
    values = np.ones(tensors[name][1])
    values.flat[index] = value
    return {**tensors, name: packed(values, dtype)}


def silent(*halves: str) -> dict[str, object]:
    return {n: (t, s, bytes(len(d)) if n in halves else d) for n, (t, s, d) in GOOD.items()}


VA, VB = names(V)
EMBED = "base_model.model.model.embed_tokens"
TENSOR_RULES = {
    "no tensors": ({}, "empty", None),
    "no prefix": ({**GOOD, "model.x.lora_A.weight": GOOD[QA]}, "name", "model.x.lora_A.weight"),
    "prefix alone": (
        {**GOOD, "base_model.model.lora_A.weight": GOOD[QA]},
        "name",
        "base_model.model.lora_A.weight",
    ),
    "prefix twice": (
        {**GOOD, "base_model.model.base_model.model.x.lora_A.weight": GOOD[QA]},
        "name",
        "base_model.model.base_model.model.x.lora_A.weight",
    ),
    "suffix twice": (
        {**GOOD, "base_model.model.x.lora_A.weight.lora_A.weight": GOOD[QA]},
        "name",
        "base_model.model.x.lora_A.weight.lora_A.weight",
    ),
    "adapter's name inside": (
        {**GOOD, "base_model.model.x.lora_A.default.weight": GOOD[QA]},
        "name",
        "base_model.model.x.lora_A.default.weight",
    ),
    "MLX's names": ({**GOOD, "model.layers.0.x.lora_a": GOOD[QA]}, "name", "model.layers.0.x.lora_a"),
    "embedding": ({**GOOD, f"{EMBED}.lora_embedding_A": GOOD[QA]}, "embedding", f"{EMBED}.lora_embedding_A"),
    "whole weight": ({**GOOD, f"{EMBED}.weight": GOOD[QA]}, "full_weight", f"{EMBED}.weight"),
    "whole bias": (
        {**GOOD, "base_model.model.x.bias": GOOD[QA]},
        "full_weight",
        "base_model.model.x.bias",
    ),
    "magnitude": (
        {**GOOD, "base_model.model.x.lora_magnitude_vector": GOOD[QA]},
        "dora",
        "base_model.model.x.lora_magnitude_vector",
    ),
    "bias of B": (
        {**GOOD, "base_model.model.x.lora_B.bias": GOOD[QA]},
        "lora_bias",
        "base_model.model.x.lora_B.bias",
    ),
    "something else": ({**GOOD, "base_model.model.x.w1": GOOD[QA]}, "tensor", "base_model.model.x.w1"),
    "B missing": (without(QB), "half", Q),
    "A missing": (without(VA), "half", V),
    "f64": ({**GOOD, QA: packed(np.ones((2, 8)), "F64")}, "dtype", QA),
    "eight bits": ({**GOOD, QB: ("I8", (6, 2), bytes(12))}, "dtype", QB),
    "one dimension": ({**GOOD, QA: packed(np.ones(16))}, "shape", QA),
    "three dimensions": ({**GOOD, QB: packed(np.ones((6, 2, 1)))}, "shape", QB),
    "no outputs": ({**GOOD, QB: packed(np.ones((0, 2)))}, "shape", QB),
    "rank of A": ({**GOOD, QA: packed(np.ones((3, 8)))}, "rank", QA),
    "rank of B": ({**GOOD, VB: packed(np.ones((4, 3)))}, "rank", VB),
    "transposed": ({**GOOD, QA: packed(np.ones((8, 2)))}, "rank", QA),
    "nothing trained": (silent(QB, VB), "no_effect", None),
    "no product": (silent(QA, VB), "no_effect", None),
}


@pytest.mark.parametrize("rule", TENSOR_RULES)
def test_each_rule_of_the_weights_has_its_error(tmp_path: Path, rule: str) -> None:
    tensors, code, field = TENSOR_RULES[rule]
    folder = peft_folder(tmp_path / "a", tensors)
    error = refusal(folder)
    assert (error.code, error.field) == (f"artifact.peft.{code}", field)
    assert error.file == str(folder / "adapter_model.safetensors")


@pytest.mark.parametrize("dtype", ["F32", "F16", "BF16"])
@pytest.mark.parametrize("value", [math.nan, -math.nan, math.inf, -math.inf])
@pytest.mark.parametrize(("name", "index"), [(QA, 0), (VB, 7)])
def test_one_bad_number_is_found(tmp_path: Path, dtype: str, value: float, name: str, index: int) -> None:
    error = refusal(peft_folder(tmp_path / "a", spoiled(name, index, value, dtype)))
    assert (error.code, error.field) == ("artifact.peft.not_finite", name)


@pytest.mark.parametrize("at", [0, CHUNK_BYTES // 2 - 1, CHUNK_BYTES // 2, -1])
def test_a_bad_number_is_found_in_any_chunk(tmp_path: Path, at: int) -> None:
    a = np.ones((2, CHUNK_BYTES))
    a.flat[at] = math.nan
    tensors = {QA: packed(a, "F16"), QB: packed(np.ones((6, 2)), "F16")}
    assert refusal(peft_folder(tmp_path / "a", tensors)).field == QA


def test_the_largest_numbers_are_finite(tmp_path: Path) -> None:
    for dtype, largest in (
        ("F16", 65_504.0),
        ("F32", float(np.finfo(np.float32).max)),
        ("BF16", 3.3895313892515355e38),
    ):
        read_peft(peft_folder(tmp_path / dtype, spoiled(QA, 3, largest, dtype)))


def test_a_module_that_the_config_does_not_target_is_refused(tmp_path: Path) -> None:
    good = peft_folder(tmp_path / "a", GOOD, peft_config(target_modules=["v_proj", Q]))
    assert len(read_peft(good).pairs) == 2
    for targets in (["v_proj"], ["q_proj", "j"], ["proj"], ["q_proj", "self_attn.v"]):
        error = refusal(peft_folder(tmp_path / "b", GOOD, peft_config(target_modules=targets)))
        assert error.code == "artifact.peft.untargeted"
    assert len(read_peft(peft_folder(tmp_path / "c", GOOD, peft_config(target_modules="(a|a)*$"))).pairs) == 2


def test_a_header_that_is_malformed_keeps_its_own_error(tmp_path: Path) -> None:
    folder = peft_folder(tmp_path / "a", GOOD)
    (folder / "adapter_model.safetensors").write_bytes(safetensors(GOOD) + b"x")
    assert refusal(folder).code == "artifact.safetensors.gap"


# ---- any config ----

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=1_000, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(st.dictionaries(st.sampled_from(sorted(FULL_CONFIG)) | st.text(max_size=6), VALUES, max_size=4))
def test_no_config_hurts(fields: dict[str, object]) -> None:
    try:
        config = parse_config(json.dumps({**FULL_CONFIG, **fields}).encode(), "adapter_config.json")
    except ArtifactError as error:
        assert error.code.startswith("artifact.peft.")
        assert error.remedy
    else:
        assert math.isfinite(config.factor)
        assert config.factor > 0


def test_what_is_read_cannot_be_changed(tmp_path: Path) -> None:
    adapter = read_peft(peft_folder(tmp_path / "a", GOOD))
    assert isinstance(adapter, PeftAdapter)
    with pytest.raises(AttributeError):
        adapter.license = "mit"  # type: ignore[misc]
