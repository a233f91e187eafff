"""Each family that GenAI's reader knows becomes the very model that llama.cpp runs: biases, norms of Q and K, heads.

The models are tiny and random, so that every part of them moves the logits; the trained one is in `test_import`.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tiny_families import BLOCKS, dense_logits, write_tiny
from warmline.artifacts.matrix import Array
from warmline.artifacts.openvino_ir import module_of
from warmline.backends.base import Abort, ContextConfig
from warmline.backends.llama import LlamaBackend
from warmline.digests import DigestCache
from warmline.importing.graph import named_matmuls
from warmline.importing.process import import_gguf

ov = pytest.importorskip("openvino", reason="OpenVINO is not installed: pip install 'warmline[openvino]'")
PRECISE = {"INFERENCE_PRECISION_HINT": "f32", "DYNAMIC_QUANTIZATION_GROUP_SIZE": "0", "KV_CACHE_PRECISION": "f32"}
TEXT = "def f(x):\n    return [y for y in x if y != 7]\n\n\nclass Ledger:\n    def total(self):\n        return 1.25\n"
MODULES = [f"self_attn.{part}_proj" for part in "qkvo"] + [f"mlp.{part}_proj" for part in ("gate", "up", "down")]
# Of the largest logit. The CPU plugin computes in float32; llama.cpp rounds more in its attention.
EXACT, CLOSE = 1e-5, 2e-3


def llama_logits(path: Path, tokens: list[int]) -> Array:
    """All logits of llama.cpp, shape (tokens, vocabulary), with KV in float32."""
    digests = DigestCache()
    backend = LlamaBackend(digests)
    session = backend.load(path, digests.digest(path)).open_session(
        [], ContextConfig(n_ctx=256, type_k="f32", type_v="f32")
    )
    found = []
    for end in range(1, len(tokens) + 1):
        session.prefill(tokens[:end], Abort()).run()
        found.append(session.logits())
    backend.close()
    return np.array(found)


def openvino_logits(folder: Path, tokens: list[int]) -> Array:
    model = ov.Core().compile_model(folder / "openvino_model.xml", "CPU", PRECISE)
    n = len(tokens)
    inputs = {"attention_mask": np.ones((1, n), np.int64), "position_ids": np.arange(n)[None]}
    inputs |= {"input_ids": np.array([tokens], np.int64), "beam_idx": np.zeros(1, np.int32)}
    return np.array(model.create_infer_request().infer(inputs)[0][0])


@pytest.mark.parametrize(
    ("architecture", "kind", "tied"),
    [
        ("llama", "F16", False),
        ("qwen2", "F16", False),
        ("qwen2", "Q4_1", True),
        ("qwen3", "F16", True),
        ("qwen3", "Q4_1", False),
    ],
)
def test_a_family_is_what_llama_cpp_runs(tmp_path: Path, architecture: str, kind: str, tied: bool) -> None:
    source = write_tiny(tmp_path / "m.gguf", architecture, kind, tied=tied)
    work, folder = tmp_path / "work", tmp_path / "out"
    work.mkdir()
    digest = DigestCache().digest(source)
    report = import_gguf(source, folder, work, label="m.gguf", digest=digest, precision="exact", seconds=60)

    assert all(layer["kept"]["exact"] for layer in report["layers"].values())
    repaired = {name for name, layer in report["layers"].items() if not layer["read"]["exact"]}
    wanted = {f"model.layers.{n}.{module}" for n in range(BLOCKS) for module in MODULES}
    assert repaired == (set() if kind == "F16" else wanted)
    names = named_matmuls(ov.Core().read_model(folder / "openvino_model.xml"))
    assert {module_of(name) for name in names} - {None} == wanted | {"lm_head"}

    import openvino_genai

    tokens = openvino_genai.Tokenizer(str(folder)).encode(TEXT, add_special_tokens=False).input_ids.data[0].tolist()
    found, dense = openvino_logits(folder, tokens), dense_logits(architecture, kind, tokens, tied=tied)
    assert np.abs(found - dense).max() <= EXACT * np.abs(dense).max()
    # llama.cpp rounds what meets F16 and Q4_1 weights; the same values as F32 it takes as they are.
    twin = write_tiny(tmp_path / "twin.gguf", architecture, kind, tied=tied, unpacked=True)
    expected = llama_logits(twin, tokens)
    assert np.abs(found - expected).max() <= CLOSE * np.abs(expected).max()
    assert (found.argmax(-1) == expected.argmax(-1)).mean() >= 0.97
