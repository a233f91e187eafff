"""An adapter's strength on OpenVINO: the dense sum of its weights, and what llama.cpp makes of the same adapter."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import smollm2
from openvino_variants import PEFT, Engine, variant
from warmline.artifacts.matrix import Matrix
from warmline.artifacts.peft import matrix, open_peft
from warmline.backends.base import Abort, AdapterOnDisk, ContextConfig
from warmline.backends.llama import LlamaBackend
from warmline.backends.openvino_effect import log_probabilities
from warmline.backends.openvino_names import match, read_network
from warmline.backends.openvino_native import PRECISE
from warmline.backends.openvino_pipeline import Recipe, construct, load_adapter
from warmline.backends.openvino_warm import free_memory
from warmline.digests import DigestCache
from warmline.importing.constants import rows_of

pytestmark = [pytest.mark.model, pytest.mark.slow]

CODE = (smollm2.ROOT / "examples/ledger.py").read_text()
CONFIG = ContextConfig(n_ctx=256, properties=tuple(PRECISE.items()))
FACTOR = 2.0  # lora_alpha / r of both examples
WEAK = "0.25"


class Scaled:
    """One pipeline without a cache, with `acme` at whatever scale is asked for."""

    def __init__(self, folder: Path) -> None:
        self._adapter = load_adapter(AdapterOnDisk("acme", PEFT["acme"] / "adapter_model.safetensors", "", FACTOR))
        recipe = Recipe(folder, "", (), CONFIG, prefix_caching=False)
        self._pipeline = construct(recipe, [(self._adapter, FACTOR)])

    def at(self, scale: float, tokens: Sequence[int]) -> np.ndarray[Any, Any]:
        """Return the log-probability of each token but the first."""
        return np.array(log_probabilities(self._pipeline, tokens, [(self._adapter, FACTOR * scale)]))


@pytest.fixture(scope="module")
def scaled(openvino_base: Path) -> Iterator[Scaled]:
    found = [Scaled(openvino_base)]
    yield found[0]
    found.clear()
    free_memory()


def _dense(factor: Matrix) -> np.ndarray[Any, Any]:
    return np.concatenate([chunk for _, chunk in factor.row_chunks()]).astype(np.float32)


def merged(folder: Path, target: Path, scale: float) -> None:
    """Write the base with `acme` added to its weights at a scale, as one dense matrix each."""
    import openvino as ov

    model = ov.Core().read_model(folder / "openvino_model.xml")
    network = read_network((folder / "openvino_model.xml").read_bytes(), "model")
    nodes = {node.get_friendly_name(): node for node in model.get_ops()}
    with open_peft(PEFT["acme"]) as (adapter, read_at):
        assert adapter.factor == FACTOR
        names = match(adapter.pairs, network.matmuls, "adapter")
        for pair, name in zip(adapter.pairs, names, strict=True):
            a, b = (_dense(matrix(one, read_at, "adapter")) for one in (pair.a, pair.b))
            weight = nodes[name].input(1)
            rows = rows_of(weight.get_source_output().get_node(), np.arange(len(b)))
            dense = rows + scale * FACTOR * (b @ a)
            weight.replace_source_output(ov.op.Constant(dense.astype(np.float32)).output(0))
    target.mkdir()
    ov.save_model(model, target / "openvino_model.xml", compress_to_fp16=False)
    for file in folder.iterdir():
        if not file.name.startswith("openvino_model."):
            (target / file.name).symlink_to(file)


def test_the_native_scale_is_the_dense_sum(scaled: Scaled, openvino_base: Path, tmp_path: Path) -> None:
    digests = DigestCache()
    path = smollm2.base_path()
    llama = LlamaBackend(digests)
    tokens = llama.load(path, digests.digest(path)).tokenize(CODE)[:100]
    llama.close()
    full, half, none = (scaled.at(scale, tokens) for scale in (1.0, 0.5, 0.0))
    merged(openvino_base, tmp_path / "half", 0.5)
    pipeline = construct(Recipe(tmp_path / "half", "", (), CONFIG, prefix_caching=False), ())
    dense = np.array(log_probabilities(pipeline, tokens))
    del pipeline
    free_memory()
    change = abs(half - none).max()
    assert change > 1
    assert abs(dense - half).max() < 0.02 * change
    assert abs(dense - full).max() > 0.2 * change  # another scale would be seen


def test_both_backends_change_alike(scaled: Scaled) -> None:
    """One prompt here; `bench/second_backend.py` measures twenty."""
    digests = DigestCache()
    path = smollm2.base_path()
    backend = LlamaBackend(digests)
    model = backend.load(path, digests.digest(path))
    tokens = model.tokenize(CODE)[:60]
    adapter = AdapterOnDisk("acme", smollm2.ACME, digests.digest(smollm2.ACME), 1.0)
    rows = []
    for adapters in ([adapter], []):
        session = model.open_session(adapters, ContextConfig(n_ctx=256))
        found = []
        session.prefill(tokens[:1], Abort()).run()
        for token in tokens[1:]:
            logits = session.logits().astype(np.float64)
            found.append(logits[token] - logits.max() - np.log(np.exp(logits - logits.max()).sum()))
            session.decode(token, Abort())
        rows.append(np.array(found))
        session.close()
    backend.close()
    ours = scaled.at(1.0, tokens) - scaled.at(0.0, tokens)
    theirs = rows[0] - rows[1]
    assert np.corrcoef(ours, theirs)[0, 1] > 0.98
    assert 0.9 < np.polyfit(theirs, ours, 1)[0] < 1.1


def test_two_adapters_a_scale_and_prompt_lookup(engine: Engine, openvino_base: Path) -> None:
    """Each has an identity and a pipeline of its own; drafted tokens change no greedy text."""
    text = CODE[:900]
    one = engine.complete(variant(openvino_base, "acme"), text, max_tokens=16)
    drafted = engine.complete(variant(openvino_base, "acme", openvino={"prompt_lookup": True}), text, max_tokens=16)
    assert drafted.started.identity != one.started.identity
    assert drafted.done.text == one.done.text
    weak = engine.complete(variant(openvino_base, "acme", "fim", scale=WEAK), text, max_tokens=16)
    assert weak.started.reason == "identity:adapters"
    assert weak.started.identity != one.started.identity
    llama = {
        scale: engine.complete(
            variant(smollm2.base_path(), "acme", "fim", backend="llama", scale=scale), text, max_tokens=16
        ).done.text
        for scale in ("1", WEAK)
    }
    assert weak.done.text == llama[WEAK] != llama["1"]  # a scale that is not in force would be seen
