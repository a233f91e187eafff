"""Which MatMul an adapter's factors act on: whole names, bounded reading, no silent leftovers."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import pytest
from warmline.artifacts.peft_tensors import PeftPair
from warmline.artifacts.safetensors import TensorEntry
from warmline.backends import openvino_names
from warmline.backends.openvino_names import MAX_NAME, MatMul, Network, match, read_network
from warmline.errors import ArtifactError

Q, V = "model.layers.1.self_attn.q_proj", "model.layers.1.self_attn.v_proj"
DIGEST = "sha256:" + "0" * 64


def pair(module: str, inputs: int = 8, outputs: int = 4) -> PeftPair:
    def tensor(*shape: int) -> TensorEntry:
        return TensorEntry(name="t", dtype="F32", shape=shape, offset=0, nbytes=0)

    return PeftPair(module, tensor(2, inputs), tensor(outputs, 2))


def matmul(module: str, weight: tuple[int, ...] = (4, 8)) -> MatMul:
    return MatMul(f"__module.{module}/ov_ext::linear/MatMul", weight)


def layer(name: str, kind: str = "MatMul", rows: int = 4, columns: int = 8) -> str:
    def port(*dims: int) -> str:
        return "<port>" + "".join(f"<dim>{dim}</dim>" for dim in dims) + "</port>"

    inputs = port(-1, -1, columns) + port(rows, columns)
    return f'<layer name="{name}" type="{kind}"><input>{inputs}</input><output>{port(-1, rows)}</output></layer>'


def net(*layers: str, marks: str = "") -> bytes:
    return f'<?xml version="1.0"?><net><layers>{"".join(layers)}</layers><rt_info>{marks}</rt_info></net>'.encode()


def test_matmuls_come_with_the_shapes_of_their_weights() -> None:
    found = read_network(net(layer("a", "Add"), layer("__module.x.y/ov_ext::linear/MatMul"), layer("MatMul_1")), "f")
    assert [(one.name, one.weight, one.module) for one in found.matmuls] == [
        ("__module.x.y/ov_ext::linear/MatMul", (4, 8), "x.y"),
        ("MatMul_1", (4, 8), None),
    ]


def test_an_imports_source_is_read_and_nothing_that_is_no_digest() -> None:
    assert read_network(net(marks=f'<w><source_digest value="{DIGEST}"/></w>'), "f") == Network((), DIGEST)
    assert read_network(net(marks='<w><source_digest value="sha256:short"/></w>'), "f").source_digest is None


def test_each_factor_finds_its_own_matmul() -> None:
    every = [matmul(module.replace("1", layer)) for layer in ("1", "11", "12") for module in (Q, V)]
    assert match([pair(V), pair(Q)], every, "f") == (matmul(V).name, matmul(Q).name)


@pytest.mark.parametrize(
    ("code", "pairs", "every", "said"),
    [
        ("artifact.openvino.unmatched", [pair(Q)], [matmul(V)], Q),
        ("artifact.openvino.unmatched", [pair(Q), pair(V)], [matmul(V)], "1 of the adapter's 2"),
        ("artifact.openvino.unmatched", [pair(Q)], [MatMul("MatMul_7", (4, 8))], "no module names"),
        ("artifact.openvino.ambiguous", [pair(Q)], [matmul(Q), MatMul(f"decoder.{Q}/MatMul", (4, 8))], "decoder"),
        ("artifact.openvino.width", [pair(Q, inputs=9)], [matmul(Q)], "9 inputs"),
        ("artifact.openvino.width", [pair(Q)], [matmul(Q, ())], "[]"),
    ],
)
def test_what_the_library_would_do_in_silence_is_refused(
    code: str, pairs: Sequence[PeftPair], every: Sequence[MatMul], said: str
) -> None:
    with pytest.raises(ArtifactError) as caught:
        match(pairs, every, "adapter.safetensors")
    assert (caught.value.code, caught.value.file) == (code, "adapter.safetensors")
    assert said in str(caught.value)


def bomb() -> bytes:
    rows = "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 12))
    return f'<?xml version="1.0"?><!DOCTYPE n [<!ENTITY a0 "x">{rows}]><net><l n="&a11;"/></net>'.encode()


@pytest.mark.parametrize(
    "make",
    [
        bomb,
        lambda: b"<net><layer>",
        lambda: b"GGUF" + bytes(100),
        lambda: net(layer("m" * (MAX_NAME + 1))),
        lambda: b'<!DOCTYPE net SYSTEM "file:///etc/passwd"><net/>',
        lambda: b"<a>" * 200_000,
    ],
    ids=["entities", "unfinished", "not xml", "name", "external", "deep"],
)
def test_a_hostile_file_is_refused_at_once(make: Callable[[], bytes]) -> None:
    began = time.monotonic()
    with pytest.raises(ArtifactError) as caught:
        read_network(make(), "openvino_model.xml")
    assert caught.value.code == "artifact.openvino.xml"
    assert time.monotonic() - began < 3


def test_size_and_number_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = net(layer("a"), layer("b"))
    monkeypatch.setattr(openvino_names, "MAX_MATMULS", 1)
    with pytest.raises(ArtifactError, match="more than 1 MatMuls"):
        read_network(whole, "f")
    monkeypatch.setattr(openvino_names, "MAX_XML_BYTES", len(whole) - 1)
    with pytest.raises(ArtifactError, match="the limit is"):
        read_network(whole, "f")
    monkeypatch.setattr(openvino_names, "_MAX_SEARCH", 10)
    with pytest.raises(ArtifactError, match="too many to compare"):
        match([pair(Q)], [matmul(Q)], "f")
