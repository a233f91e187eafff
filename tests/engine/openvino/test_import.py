"""A GGUF base becomes an OpenVINO model whose every weight is the GGUF's own, under its canonical name."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import smollm2
from warmline.artifacts.gguf import read_header
from warmline.artifacts.gguf_bytes import opened
from warmline.artifacts.openvino_ir import matmul_name, module_of, plan_import
from warmline.backends.base import Abort, BaseFacts, ContextConfig
from warmline.backends.llama import LlamaBackend, LlamaModel
from warmline.digests import DigestCache
from warmline.errors import ArtifactError
from warmline.importing.facts_files import FIM_TOKENS
from warmline.importing.forms import Scratch
from warmline.importing.graph import assign, embedding_input, named_matmuls, repair
from warmline.importing.marks import IMPORTER_VERSION
from warmline.importing.weights import GGUFWeights

pytestmark = [pytest.mark.model, pytest.mark.slow]
PRECISE = {"INFERENCE_PRECISION_HINT": "f32", "DYNAMIC_QUANTIZATION_GROUP_SIZE": "0", "KV_CACHE_PRECISION": "f16"}
ov = pytest.importorskip("openvino", reason="OpenVINO is not installed: pip install 'warmline[openvino]'")


@pytest.fixture(scope="module")
def network(openvino_base: Path) -> Any:
    return ov.Core().read_model(openvino_base / "openvino_model.xml")


@pytest.fixture(scope="module")
def llama() -> Any:
    digests = DigestCache()
    backend = LlamaBackend(digests)
    path = smollm2.base_path()
    yield backend.load(path, digests.digest(path))
    backend.close()


def test_every_weight_product_has_its_modules_name(network: Any) -> None:
    blocks = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj")
    blocks += ("mlp.gate_proj", "mlp.up_proj", "mlp.down_proj")
    wanted = {f"model.layers.{n}.{module}" for n in range(30) for module in blocks} | {"lm_head"}
    assert {module_of(name) for name in named_matmuls(network)} - {None} == wanted


def test_the_model_says_what_it_was_made_of(network: Any) -> None:
    marks = {key: network.get_rt_info(["warmline", key]).astype(str) for key in ("source_digest", "precision")}
    assert marks == {"source_digest": DigestCache().digest(smollm2.base_path()), "precision": "exact"}
    assert network.get_rt_info(["warmline", "importer_version"]).astype(str) == str(IMPORTER_VERSION)
    errors = json.loads(network.get_rt_info(["warmline", "reader_error"]).astype(str))
    assert set(errors) == {*map(str, range(30)), "lm_head"}
    # The reader rounds the zero points of Q4_1, and keeps Q8_0 as it is.
    assert all(0.05 < error < 0.15 for layer, error in errors.items() if layer != "lm_head")
    assert errors["lm_head"] == 0


@pytest.fixture(scope="module")
def tensors() -> Any:
    """The GGUF's tensors, by gguf-py's reader."""
    import gguf

    return {each.name: each for each in gguf.GGUFReader(smollm2.base_path()).tensors}


@pytest.mark.parametrize(
    ("module", "part"), [("self_attn.q_proj", "attn_q"), ("self_attn.k_proj", "attn_k"), ("mlp.down_proj", "ffn_down")]
)
def test_weights_are_the_ggufs_by_another_road(network: Any, tensors: Any, module: str, part: str) -> None:
    """By gguf-py's reader and the plugin's own arithmetic, and Hugging Face's order of rows written out again."""
    import gguf

    tensor = tensors[f"blk.17.{part}.weight"]
    wanted = gguf.dequantize(tensor.data, tensor.tensor_type)
    if module in ("self_attn.q_proj", "self_attn.k_proj"):
        # (head, pair, side) in llama.cpp, (head, side, pair) in Hugging Face; a head has 64 rows.
        wanted = wanted.reshape(-1, 32, 2, wanted.shape[1]).swapaxes(1, 2).reshape(wanted.shape)
    source = named_matmuls(network)[matmul_name(f"model.layers.17.{module}")].input_value(1)
    found = ov.Core().compile_model(ov.Model([source], []), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})({})[0]
    assert np.abs(found - wanted).max() <= 1e-6 * np.abs(wanted).max()


def test_it_predicts_what_llama_cpp_predicts(openvino_base: Path, llama: LlamaModel, repo: Path) -> None:
    """97 % of 400 tokens of code; what is left are near ties that llama.cpp's 8-bit activations decide."""
    tokens = llama.tokenize(json.loads((repo / "tests/cases/agreement.json").read_text())[0])[:400]
    session = llama.open_session([], ContextConfig(n_ctx=512))
    wanted = []
    for end in range(1, len(tokens) + 1):
        session.prefill(tokens[:end], Abort()).run()
        wanted.append(session.logits())
    session.close()
    model = ov.Core().compile_model(openvino_base / "openvino_model.xml", "CPU", PRECISE)
    n = len(tokens)
    inputs = {"attention_mask": np.ones((1, n), np.int64), "position_ids": np.arange(n)[None]}
    inputs |= {"input_ids": np.array([tokens], np.int64), "beam_idx": np.zeros(1, np.int32)}
    found = model.create_infer_request().infer(inputs)[0][0]
    same = found.argmax(-1) == np.array(wanted).argmax(-1)
    assert n == 400
    assert same.mean() >= 0.97
    ordered = np.sort(np.array(wanted), axis=-1)
    assert (ordered[:, -1] - ordered[:, -2])[~same].max(initial=0) < 1.0


def test_a_weight_in_another_layers_place_is_refused_by_name(network: Any, tmp_path: Path) -> None:
    source = smollm2.base_path()
    header = read_header(source)
    plan = plan_import(header)
    model = network.clone()
    nodes = named_matmuls(model)
    for number, weight in enumerate(plan.matmuls):
        nodes[matmul_name(weight.module)].set_friendly_name(f"MatMul_{number}")
    one, other = (nodes[matmul_name(f"model.layers.{n}.mlp.up_proj")].input(1) for n in (0, 1))
    first, second = one.get_source_output(), other.get_source_output()
    one.replace_source_output(second)
    other.replace_source_output(first)
    with opened(source, "base.gguf") as (read_at, _), pytest.raises(ArtifactError) as caught:
        repair(model, plan, GGUFWeights(read_at, "base.gguf"), "exact", Scratch(tmp_path / "s"), lambda count: None)
    assert (caught.value.code, caught.value.field) == ("artifact.import.differs", "blk.0.ffn_up.weight")


def test_a_network_of_other_products_is_refused(network: Any, tmp_path: Path) -> None:
    plan = plan_import(read_header(smollm2.base_path()))
    with pytest.raises(ArtifactError) as fewer:
        assign(network, replace(plan, matmuls=plan.matmuls[1:]), "base.gguf")
    with pytest.raises(ArtifactError) as shape:
        assign(network, replace(plan, matmuls=tuple(reversed(plan.matmuls))), "base.gguf")
    assert [each.value.code for each in (fewer, shape)] == ["artifact.import.network"] * 2
    assert shape.value.field is not None


def test_the_place_where_tokens_are_looked_up_is_found(network: Any) -> None:
    plan = plan_import(read_header(smollm2.base_path()))
    place = embedding_input(network, plan, "base.gguf")
    assert (
        place.get_source_output().get_node() == named_matmuls(network)[matmul_name("lm_head")].input_value(1).get_node()
    )


def test_the_folder_says_what_the_gguf_said(openvino_base: Path, llama: LlamaModel) -> None:
    facts: BaseFacts = llama.facts
    config = json.loads((openvino_base / "config.json").read_text())
    assert (config["model_type"], config["max_position_embeddings"]) == (facts.architecture, facts.n_ctx_train)
    assert (config["bos_token_id"], config["vocab_size"], config[FIM_TOKENS]) == (facts.bos, 49152, {})
    generation = json.loads((openvino_base / "generation_config.json").read_text())
    assert frozenset(generation["eos_token_id"]) == facts.end_of_generation
    tokenizer = json.loads((openvino_base / "tokenizer_config.json").read_text())
    assert (tokenizer["add_bos_token"], tokenizer["eos_token"]) == (facts.add_bos, facts.eos_text)
    assert {each["content"] for each in tokenizer["added_tokens_decoder"].values()} == facts.special_texts
    assert (openvino_base / "chat_template.jinja").read_bytes().decode() == facts.chat_template


PIECES = ["a", "B", " ", "  ", "\n", "\t", "1", "23", "_", "é", "日", "🎉", "'s", "(", ")", "\r\n", "\u00a0", "if", "#"]
TEXTS = [
    "def f(x):\n    return x\n",
    "\t\tif a == b:\r\n\t\t\tpass",
    "x  =   1    # c",
    "1234567890 3.14159 0xFF 1_000",
    "naïve ünïcode 日本語のコメント مرحبا",
    "emoji 🎉👩‍👩‍👧 e\u0301 \u0301x \ufeffx",
    "\n\n\n   leading and trailing   ",
    "don't we'll I'M",
    "\x00\x01\x7f",
    "{}[]();:<>!=&&||->=>::",
    "a" * 300 + " " * 70,
    "<|im_start|>user\nhi<|im_end|>\n<issue_start>x<issue_closed>",
]


def test_its_tokenizer_is_llama_cpps(openvino_base: Path, llama: LlamaModel, repo: Path) -> None:
    import openvino_genai

    tokenizer = openvino_genai.Tokenizer(str(openvino_base))
    random = np.random.default_rng(1)
    drawn = ["".join(random.choice(PIECES, random.integers(1, 25))) for _ in range(500)]
    for text in [*TEXTS, *drawn, *json.loads((repo / "tests/cases/agreement.json").read_text())]:
        found = tokenizer.encode(text, add_special_tokens=False).input_ids.data[0].tolist()
        assert found == llama.tokenize_special(text), text
