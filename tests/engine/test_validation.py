"""One crafted file for each rule, and the table of rules against the code that asks them."""

from __future__ import annotations

import ast
import importlib
import json
import os
import re
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import gguf_writer as w
import numpy as np
import pytest
from fake_backend import FakeBackend, write_adapter, write_base
from safetensors_writer import lora_tensors, names, packed, peft_config, peft_folder
from store_tools import openvino_model
from warmline.artifacts.gguf import read_header
from warmline.artifacts.lora import read_adapter
from warmline.artifacts.peft import read_peft
from warmline.artifacts.safetensors import parse_header
from warmline.conditions import CONDITIONS
from warmline.digests import DigestCache, hash_descriptor, open_regular
from warmline.errors import ArtifactError, WarmlineError
from warmline.registry import Expectation, Store
from warmline.rules import RULES, SECTIONS
from warmline.validation import (
    check_backend,
    check_declared_base,
    check_digest,
    check_gguf_adapter,
    check_not_pickle,
    effective_scale,
    read_base,
)
from warmline.variant import DeclaredBase, ResolvedAdapter, ResolvedBase, ResolvedVariant
from warmline.verified import Verifier
from warmline.weights import read_weights

F16, F32, Q4_0, Q8_0 = w.TENSOR_F16, w.TENSOR_F32, w.TENSOR_Q4_0, w.TENSOR_Q8_0
Q = "blk.0.attn_q.weight"
PAIR = {Q + ".lora_a": ((64, 4), F16), Q + ".lora_b": ((4, 32), F16)}
Make = Callable[[Path], Any]


def pair(target: str = Q, inputs: Any = (64,), outputs: Any = (32,), rank: int = 4, kind: int = F16) -> dict[str, Any]:
    (n_in, *experts), (n_out, *_) = inputs, outputs
    return {target + ".lora_a": ((n_in, rank, *experts), kind), target + ".lora_b": ((rank, n_out, *experts), kind)}


def adapter(tensors: dict[str, Any] = PAIR, fill: bytes = b"\x01\x3c", **kvs: bytes | None) -> Make:
    """Give an adapter whose weights all are 1.0 (f16) or what `fill` repeats."""

    def make(folder: Path) -> None:
        keys = {key.replace("__", "."): value for key, value in kvs.items()}
        raw = bytearray(w.lora(tensors, keys))
        (folder / "adapter.gguf").write_bytes(raw)
        start = min((t.offset for t in read_header(folder / "adapter.gguf").tensors.values()), default=len(raw))
        raw[start:] = (fill * (len(raw) // len(fill) + 1))[: len(raw) - start]
        (folder / "adapter.gguf").write_bytes(raw)
        check_gguf_adapter(folder / "adapter.gguf", the_base(folder), label="adapter.gguf")

    return make


def the_base(folder: Path) -> Any:
    tensors = {
        Q: ((64, 32), F16),
        "blk.0.ffn_up_exps.weight": ((64, 32, 4), F16),
        "token_embd.weight": ((64, 8), F16),
        "blk.0.attn_norm.weight": ((64, 1), F32),
    }
    (folder / "base.gguf").write_bytes(w.base(tensors))
    return read_base(folder / "base.gguf", label="base.gguf")


def base(*kvs: bytes, tensors: bool = True) -> Make:
    def make(folder: Path) -> None:
        infos, size = w.laid_out({Q: ((64, 32), F16)}) if tensors else ([], 0)
        given = {re.match(rb".{8}([a-z_.]+)", each, re.DOTALL)[1] for each in kvs}  # type: ignore[index]
        keys = [] if b"general.architecture" in given else [w.kv_str("general.architecture", "llama")]
        (folder / "base.gguf").write_bytes(w.gguf([*keys, *kvs], infos, data=size))
        read_base(folder / "base.gguf", label="base.gguf", thorough=True)

    return make


def tokens(*texts: str | bytes) -> bytes:
    return w.kv_arr("tokenizer.ggml.tokens", w.STR, len(texts), b"".join(map(w.text, texts)))


def peft(tensors: Any = None, **config: Any) -> Make:
    def make(folder: Path) -> None:
        good = lora_tensors({"model.layers.0.self_attn.q_proj": (8, 8)})
        read_peft(peft_folder(folder / "peft", good if tensors is None else tensors, peft_config(**config)))

    return make


def file_of_peft(name: str, change: Callable[[Path], Any]) -> Make:
    def make(folder: Path) -> None:
        given = peft_folder(folder / "peft", lora_tensors({"q": (8, 8)}))
        change(given / name)
        read_peft(given)

    return make


def at(factor: int, module: str = "q", **changes: Any) -> dict[str, Any]:
    """Give good factors with one changed: 0 is A, 1 is B."""
    found = lora_tensors({module: (8, 8)})
    found[names(module)[factor]] = changes["to"]
    return found


def added(extra: str, shape: tuple[int, ...] = (8, 8)) -> dict[str, Any]:
    return lora_tensors({"q": (8, 8)}) | {extra: packed(np.ones(shape))}


def convert(
    keys: dict[str, Any] | None = None, module: str = "model.layers.0.self_attn.q_proj", arch: str = "llama"
) -> Make:
    def make(folder: Path) -> None:
        from tiny_base import base_of
        from warmline.artifacts.convert import convert_peft

        given = peft_folder(folder / "peft", lora_tensors({module: (16, 16)}))
        convert_peft(given, base_of(arch, keys), folder / "out.gguf", name="adapter")

    return make


def opened(change: Callable[[Path], Any]) -> Make:
    def make(folder: Path) -> None:
        change(folder / "x")
        with open_regular(folder / "x"):
            pass

    return make


def changing(folder: Path) -> None:
    (folder / "x").write_bytes(b"a" * 10)

    class Growing(DigestCache):
        pass

    import warmline.digests as digests

    real = digests.hash_descriptor

    def hashing(fd: int, *more: Any) -> str:
        (folder / "x").write_bytes(b"b" * 11)
        return real(fd, *more)

    digests.hash_descriptor = hashing
    try:
        Growing().digest(folder / "x")
    finally:
        digests.hash_descriptor = real


def stopped(folder: Path) -> None:
    (folder / "x").write_bytes(b"x")
    with open_regular(folder / "x") as fd:
        hash_descriptor(fd, lambda: True)


def no_memory(offset: int, count: int) -> bytes:
    if offset:
        raise MemoryError
    return struct.pack("<Q", 50)


def nearly_full(folder: Path) -> None:
    (folder / "here").mkdir()
    os.rename(folder / "here", folder / "gone")
    convert_to(folder / "here/none.gguf", folder)


def convert_to(target: Path, folder: Path) -> None:
    from tiny_base import base_of
    from warmline.artifacts.convert import convert_peft

    given = peft_folder(folder / "peft", lora_tensors({"model.layers.0.self_attn.q_proj": (16, 16)}))
    convert_peft(given, base_of("llama"), target, name="adapter")


def folder_without_weights(folder: Path) -> None:
    (openvino_model(folder / "ov") / "openvino_model.bin").unlink()
    Store(folder / "home").add_model(folder / "ov", "x", "openvino")


F16_NAN, F16_INF, F32_NAN = b"\x00\x7e", b"\x00\x7c", struct.pack("<f", float("nan"))
OTHER, THIS = "sha256:" + "1" * 64, "sha256:" + "2" * 64
A, B = names("q")

CASES: dict[str, list[Make]] = {
    # files
    "artifact.missing": [opened(lambda p: None)],
    "artifact.unreadable": [opened(lambda p: p.symlink_to(p))],
    "artifact.not_a_file": [
        opened(os.mkfifo),
        opened(lambda p: p.mkdir()),
        opened(lambda p: p.symlink_to("/dev/null")),
    ],
    "artifact.pickle": [lambda f: check_not_pickle(f / "adapter_model.bin"), lambda f: check_not_pickle(f / "x.PT")],
    "artifact.backend": [
        lambda f: check_backend("gguf", "openvino", "x"),
        lambda f: check_backend("safetensors", "llama", "x"),
        lambda f: check_backend("openvino", "llama", "x"),
    ],
    "artifact.folder": [folder_without_weights],
    "artifact.digest": [lambda f: check_digest(OTHER, THIS, "x")],
    "artifact.changing": [changing],
    "artifact.stopped": [stopped],
    # bases
    "artifact.base.types": [
        base(w.kv("llama.context_length", w.F32, struct.pack("<f", 1.0))),
        base(w.kv("general.architecture", w.U32, w.u32(1))),
        base(w.kv("tokenizer.ggml.bos_token_id", w.I32, w.u32(1))),
        base(w.kv_arr("tokenizer.ggml.tokens", w.U32, 1, w.u32(1))),
        base(w.kv("split.count", w.U32, w.u32(1))),
    ],
    "artifact.base.kind": [base(w.kv_str("general.type", "adapter")), base(w.kv_str("general.type", "mmproj"))],
    "artifact.base.architecture": [base(w.kv_str("general.architecture", ""))],
    "artifact.base.empty": [base(tensors=False)],
    "artifact.base.split": [base(w.kv("split.count", 2, struct.pack("<H", 3)))],
    "artifact.base.vocabulary": [
        base(tokens("a", "b"), w.kv_arr("tokenizer.ggml.token_type", w.I32, 1, w.u32(1))),
        base(tokens("a"), w.kv_arr("tokenizer.ggml.scores", w.F32, 2, bytes(8))),
    ],
    "artifact.base.tokens": [base(tokens("a", "b", "a"))],
    # adapters
    "artifact.adapter.not_adapter": [
        adapter(general__type=w.kv_str("general.type", "model")),
        adapter(general__type=None),
    ],
    "artifact.adapter.kind": [adapter(adapter__type=w.kv_str("adapter.type", "control"))],
    "artifact.adapter.alora": [
        adapter(adapter__alora__invocation_tokens=w.kv_arr("adapter.alora.invocation_tokens", w.U32, 1, w.u32(1)))
    ],
    "artifact.adapter.architecture": [adapter(general__architecture=None)],
    "artifact.adapter.alpha": [
        adapter(adapter__lora__alpha=w.kv("adapter.lora.alpha", w.F32, struct.pack("<f", value)))
        for value in (float("nan"), float("inf"), -1.0)
    ],
    "artifact.adapter.empty": [adapter({})],
    "artifact.adapter.name": [adapter(pair(Q + ".lora_a"))],
    "artifact.adapter.half": [adapter({name: PAIR[name]}) for name in PAIR],
    "artifact.adapter.tensor": [adapter(PAIR | {"blk.0.attn_q.bias": ((32,), F16)})],
    "artifact.adapter.norm": [
        adapter(PAIR | {"blk.0.attn_norm.weight": ((64,), F32)}),
        adapter(pair("blk.0.attn_norm.weight")),
    ],
    "artifact.adapter.token_embd": [adapter(pair("token_embd.weight"))],
    "artifact.adapter.target": [adapter(pair("blk.0.attn_q"))],
    "artifact.adapter.dtype": [adapter(pair(rank=32, kind=Q4_0))],
    "artifact.adapter.shape": [
        adapter({Q + ".lora_a": ((64, 4), F16), Q + ".lora_b": ((8, 32), F16)}),
        adapter({Q + ".lora_a": ((64, 4, 2), F16), Q + ".lora_b": ((4, 32), F16)}),
    ],
    "artifact.adapter.rank": [adapter(pair() | pair("blk.0.ffn_up_exps.weight", (64, 4), (32, 4), rank=8))],
    "artifact.adapter.architecture_mismatch": [
        adapter(general__architecture=w.kv_str("general.architecture", "gemma3"))
    ],
    "artifact.adapter.no_target": [adapter(pair("blk.9.attn_q.weight"))],
    "artifact.adapter.tied": [adapter(pair("output.weight"))],
    "artifact.adapter.input_width": [adapter(pair(inputs=(32,)))],
    "artifact.adapter.output_width": [adapter(pair(outputs=(64,)))],
    "artifact.adapter.experts": [
        adapter(pair("blk.0.ffn_up_exps.weight", (64, 2), (32, 2))),
        adapter(pair("blk.0.ffn_up_exps.weight")),
    ],
    "artifact.adapter.not_finite": [
        adapter(fill=F16_NAN),
        adapter(fill=F16_INF),
        adapter(fill=b"\x00\x3c" * 300 + F16_NAN),
        adapter(pair(kind=F32), fill=F32_NAN),
        adapter(pair(rank=32, kind=Q8_0), fill=F16_NAN + bytes(32)),
    ],
    "artifact.adapter.no_effect": [
        adapter(fill=b"\0"),
        adapter(fill=b"\x00\x80"),  # minus zero
        adapter(pair(rank=32, kind=Q8_0), fill=b"\x00\x3c" + bytes(32)),
        adapter(pair(rank=32, kind=Q8_0), fill=b"\0\0" + b"\x01" * 32),
    ],
    "artifact.adapter.base": [
        lambda f: check_declared_base("a", DeclaredBase(digest=OTHER), THIS, "x", strict=False),
        lambda f: check_declared_base("a", DeclaredBase(digest=OTHER), THIS, "x", strict=True),
    ],
    "artifact.adapter.base_unknown": [
        lambda f: check_declared_base("a", DeclaredBase(name="base"), THIS, "x", strict=True)
    ],
    "artifact.adapter.scale": [lambda f: effective_scale(Fraction(4), 1.7e308, 1)],
    # PEFT
    "artifact.peft.folder": [lambda f: read_peft(f / "none")],
    "artifact.peft.missing": [file_of_peft("adapter_config.json", Path.unlink)],
    "artifact.peft.link": [
        file_of_peft(
            "adapter_model.safetensors", lambda p: p.rename(p.with_suffix(".x")) and p.symlink_to(p.with_suffix(".x"))
        )
    ],
    "artifact.peft.not_a_file": [file_of_peft("adapter_config.json", lambda p: (p.unlink(), os.mkfifo(p)))],
    "artifact.peft.pickle": [file_of_peft("adapter_model.safetensors", lambda p: p.rename(p.with_suffix(".bin")))],
    "artifact.peft.config": [file_of_peft("adapter_config.json", lambda p: p.write_text("{"))],
    "artifact.peft.type": [peft(use_dora="yes")],
    "artifact.peft.kind": [peft(peft_type="LOHA")],
    "artifact.peft.task": [peft(task_type="SEQ_CLS")],
    "artifact.peft.dora": [peft(use_dora=True), peft(added("base_model.model.q.lora_magnitude_vector.weight"))],
    "artifact.peft.bias": [peft(bias="all")],
    "artifact.peft.lora_bias": [peft(lora_bias=True)],
    "artifact.peft.modules_to_save": [peft(modules_to_save=["lm_head"])],
    "artifact.peft.token_indices": [peft(trainable_token_indices=[1])],
    "artifact.peft.rank_pattern": [peft(rank_pattern={"q": 4})],
    "artifact.peft.alpha_pattern": [peft(alpha_pattern={"q": 4})],
    "artifact.peft.alora": [peft(alora_invocation_tokens=[1])],
    "artifact.peft.fan_in_fan_out": [peft(fan_in_fan_out=True)],
    "artifact.peft.init": [peft(init_lora_weights="pissa")],
    "artifact.peft.layer_replication": [peft(layer_replication=[[0, 1]])],
    "artifact.peft.target_parameters": [peft(target_parameters=["x"])],
    "artifact.peft.unknown_field": [peft(use_wonder=True)],
    "artifact.peft.rank": [peft(r=0), peft(at(0, to=packed(np.ones((3, 8)))))],
    "artifact.peft.alpha": [peft(lora_alpha=0), peft(lora_alpha="x")],
    "artifact.peft.target_modules": [peft(target_modules=[])],
    "artifact.peft.empty": [peft({})],
    "artifact.peft.name": [
        peft({name.removeprefix("base_model.model."): t for name, t in lora_tensors({"q": (8, 8)}).items()})
    ],
    "artifact.peft.half": [peft({A: lora_tensors({"q": (8, 8)})[A]})],
    "artifact.peft.tensor": [peft(added("base_model.model.q.other"))],
    "artifact.peft.embedding": [peft(added("base_model.model.e.lora_embedding_A"))],
    "artifact.peft.full_weight": [peft(added("base_model.model.lm_head.weight"))],
    "artifact.peft.untargeted": [peft(lora_tensors({"q": (8, 8)}), target_modules=["v"])],
    "artifact.peft.dtype": [peft(at(0, to=packed(np.ones((2, 8)), "F64")))],
    "artifact.peft.shape": [peft(at(0, to=packed(np.ones((2, 8, 1)))))],
    "artifact.peft.not_finite": [peft(at(1, to=packed(np.full((8, 2), np.nan))))],
    "artifact.peft.no_effect": [peft(at(1, to=packed(np.zeros((8, 2)))))],
    # conversion
    "artifact.convert.architecture": [convert(arch="mamba")],
    "artifact.convert.blocks": [convert({"block_count": None})],
    "artifact.convert.module": [convert(module="model.layers.0.self_attn.w_pack")],
    "artifact.convert.heads": [convert({"head_count": w.kv("llama.attention.head_count", w.U32, w.u32(3))})],
    "artifact.convert.write": [nearly_full],
    "artifact.safetensors.memory": [lambda f: parse_header(no_memory, 100, label="x")],
}


@pytest.mark.parametrize(
    ("code", "make"),
    [(code, make) for code, makes in CASES.items() for make in makes],
    ids=[f"{code}-{index}" for code, makes in CASES.items() for index in range(len(makes))],
)
def test_each_rule_refuses_its_file(code: str, make: Make, tmp_path: Path) -> None:
    with pytest.raises(ArtifactError) as caught:
        make(tmp_path)
    error = caught.value
    assert error.code == code, error
    assert error.remedy or code == "artifact.adapter.scale"
    assert error.docs == "docs/errors.md#" + code.replace(".", "-")


def test_what_the_cases_are_made_of_is_accepted(tmp_path: Path) -> None:
    adapter()(tmp_path)
    for kind, rank, fill in ((F32, 4, struct.pack("<f", 1)), (Q8_0, 32, b"\x00\x3c" + b"\x01" * 32)):
        adapter(pair(rank=rank, kind=kind), fill)(tmp_path)
    adapter(pair("blk.0.ffn_up_exps.weight", (64, 4), (32, 4)))(tmp_path)
    base(tokens("a", "b"), w.kv_arr("tokenizer.ggml.scores", w.F32, 2, bytes(8)))(tmp_path)
    base(tokens("", "", b"\xff", b"\xfe"))(tmp_path)  # empty, and what is no text: these cannot be told apart
    base(w.kv("split.count", 2, struct.pack("<H", 1)))(tmp_path)
    peft()(tmp_path)
    convert()(tmp_path)


def test_every_rule_has_a_case_or_a_test_of_its_own(repo: Path) -> None:
    elsewhere = {
        "GGUF headers": "tests/engine/artifacts/test_gguf.py",
        "Safetensors headers": "tests/engine/artifacts/test_safetensors.py",
        "The store": "tests/engine/test_registry_store.py tests/engine/test_registry_crash.py",
        "Trust": "tests/engine/test_registry.py tests/engine/test_trust.py",
        "Files that people write": "tests/engine/test_variant.py tests/engine/test_registry.py "
        "tests/engine/test_records.py",
        "Conversion for llama.cpp": "tests/engine/artifacts/test_proof.py tests/engine/artifacts/test_convert.py",
        "OpenVINO folders, and adapters against them": "tests/engine/openvino/test_names.py "
        "tests/engine/openvino/test_backend.py tests/engine/openvino/test_facts.py "
        "tests/engine/openvino/test_install_refusals.py",
        "Import for OpenVINO": "tests/engine/openvino/test_import.py tests/engine/openvino/test_import_refusals.py",
        "Catalogs": "tests/engine/test_catalog.py",
        "Variants": "tests/engine/test_registry.py tests/engine/host/test_service.py",
    }
    for title, rules in SECTIONS.items():
        text = "".join((repo / file).read_text() for file in elsewhere.get(title, "").split())
        for rule in rules:
            short = rule.code.rpartition(".")[2]
            assert rule.code in CASES or f'"{rule.code}"' in text or f'"{short}"' in text, rule.code
    assert set(CASES) <= {rule.code for rule in RULES}


# ---- the table ----


def written_codes(repo: Path) -> Iterator[tuple[str, str]]:
    """Yield (code, module) of every code that is written out whole."""
    rooms = "artifact|backend|catalog|certificate|config|document|evaluation|hub|prompt|store|trust|variant"
    whole = re.compile(rf"({rooms})\.[a-z_.]*[a-z]")
    for path in sorted([*(repo / "engine/warmline").rglob("*.py"), *(repo / "server/warmline_server").rglob("*.py")]):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.keyword) and node.arg == "code":
                for value in ast.walk(node.value):
                    if isinstance(value, ast.Constant) and whole.fullmatch(str(value.value)):
                        yield str(value.value), path.name


def test_every_code_in_the_source_is_in_the_tables(repo: Path) -> None:
    known = {rule.code for rule in RULES} | {code for codes in CONDITIONS.values() for code in codes}
    assert not {(code, module) for code, module in written_codes(repo) if code not in known}


def test_no_code_is_in_both_tables() -> None:
    assert not {rule.code for rule in RULES} & {code for codes in CONDITIONS.values() for code in codes}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_every_rule_names_its_function(rule: Any) -> None:
    module, _, path = rule.function.partition(":")
    found: Any = importlib.import_module(f"warmline.{module}")
    for name in path.split("."):
        found = getattr(found, name)
    assert callable(found)
    assert rule.protects.endswith(".")


def test_codes_are_unique() -> None:
    assert len({rule.code for rule in RULES}) == len(RULES)


def test_the_page_of_errors_is_current(repo: Path) -> None:
    script = repo / "docs/make_errors.py"
    assert subprocess.run([sys.executable, str(script), "--check"], check=False).returncode == 0, (
        "run docs/make_errors.py"
    )
    page = (repo / "docs/errors.md").read_text()
    for rule in RULES:
        assert f'<a id="{WarmlineError("", code=rule.code).docs.partition("#")[2]}"></a>' in page


# ---- weights ----


def test_zero_pairs_are_counted_where_others_work(tmp_path: Path) -> None:
    two = pair() | pair("blk.0.ffn_up_exps.weight", (64, 4), (32, 4))
    adapter(two)(tmp_path)
    path = tmp_path / "adapter.gguf"
    summary = read_adapter(path)
    zero = next(p for p in summary.pairs if p.target == Q).b
    raw = bytearray(path.read_bytes())
    raw[zero.offset : zero.offset + zero.nbytes] = bytes(zero.nbytes)
    path.write_bytes(raw)
    report = read_weights(path, read_adapter(path))
    assert (report.pairs, report.zero_pairs, report.effective) == (2, (Q,), 1)
    assert check_gguf_adapter(path, the_base(tmp_path), label="x").zero_pairs == (Q,)


@pytest.mark.parametrize("place", [0, 1, -1])
@pytest.mark.parametrize("kind", [F16, F32, Q8_0])
def test_a_nan_anywhere_is_found(tmp_path: Path, kind: int, place: int) -> None:
    """Chunks are of half a megabyte: at the start, in the second chunk, and as the very last element."""
    wide = pair(inputs=(4096,), outputs=(4096,), rank=256, kind=kind)
    (tmp_path / "a.gguf").write_bytes(w.lora(wide))
    summary = read_adapter(tmp_path / "a.gguf")
    tensor = summary.pairs[0].a
    size = {F16: 2, F32: 4, Q8_0: 34}[kind]
    offset = {0: 0, 1: (512 << 10) // size * size, -1: tensor.nbytes - size}[place]
    raw = bytearray((tmp_path / "a.gguf").read_bytes())
    nan = F32_NAN if kind == F32 else F16_NAN
    raw[tensor.offset + offset : tensor.offset + offset + len(nan)] = nan
    (tmp_path / "a.gguf").write_bytes(raw)
    with pytest.raises(ArtifactError) as caught:
        read_weights(tmp_path / "a.gguf", summary)
    assert (caught.value.code, caught.value.field) == ("artifact.adapter.not_finite", tensor.name)


def test_a_file_that_is_cut_while_it_is_read(tmp_path: Path) -> None:
    path = write_adapter(tmp_path / "a.gguf")
    summary = read_adapter(path)
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(ArtifactError) as caught:
        read_weights(path, summary)
    assert caught.value.code == "artifact.unreadable"


# ---- who asks ----


def resolved(base_file: Path, **adapter_fields: Any) -> ResolvedVariant:
    return ResolvedVariant(
        name="v",
        backend="llama",
        base=ResolvedBase(name="b", path=base_file),
        adapters=(ResolvedAdapter.model_validate({"name": "a", "scale": 1, **adapter_fields}),),
        profile=json.loads("{}"),
        file="v.json",
    )


def test_a_request_reads_weights_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import warmline.weights

    calls = []
    real = warmline.weights.read_weights
    monkeypatch.setattr(warmline.weights, "read_weights", lambda *args: calls.append(1) or real(*args))
    variant = resolved(write_base(tmp_path / "b.gguf"), path=write_adapter(tmp_path / "a.gguf"))
    verifier = Verifier(FakeBackend(), DigestCache(), lambda digest: True)
    for _ in range(3):
        verifier.verify(variant)
    assert calls == [1]
    write_adapter(tmp_path / "a.gguf", weights=b"\x05")
    verifier.verify(variant)
    assert calls == [1, 1]


def test_strict_for_curated_and_permissive_for_the_users_own(tmp_path: Path) -> None:
    variant = resolved(write_base(tmp_path / "b.gguf"), path=write_adapter(tmp_path / "a.gguf"))
    verifier = Verifier(FakeBackend(), DigestCache(), lambda digest: True)
    status = verifier.verify(variant).status()
    assert (status.adapters[0].trust, status.adapters[0].verified) == ("user", False)
    curated = resolved(tmp_path / "b.gguf", path=tmp_path / "a.gguf", trust="curated")
    with pytest.raises(ArtifactError) as caught:
        verifier.verify(curated)
    assert (caught.value.code, caught.value.file, caught.value.field) == (
        "artifact.adapter.base_unknown",
        "v.json",
        "adapters[0].path",
    )


@pytest.mark.parametrize(
    "code", ["artifact.adapter.not_finite", "artifact.adapter.no_effect", "artifact.adapter.experts"]
)
def test_the_store_asks_the_same_rules(tmp_path: Path, code: str) -> None:
    store = Store(tmp_path / "home")
    the_base(tmp_path)
    store.add_model(tmp_path / "base.gguf", "base")
    with pytest.raises(ArtifactError):
        CASES[code][0](tmp_path)
    with pytest.raises(ArtifactError) as caught:
        store.add_adapter(tmp_path / "adapter.gguf", "a", base="base")
    assert (caught.value.code, caught.value.file) == (code, str(tmp_path / "adapter.gguf"))
    assert store.list_adapters() == []


def test_a_split_or_repeated_base_is_not_installed(tmp_path: Path) -> None:
    store = Store(tmp_path / "home")
    for code in ("artifact.base.split", "artifact.base.tokens", "artifact.base.types"):
        with pytest.raises(ArtifactError):
            CASES[code][0](tmp_path)
        for copy in (True, False):
            with pytest.raises(ArtifactError) as caught:
                store.add_model(tmp_path / "base.gguf", "b", copy=copy)
            assert caught.value.code == code
    assert store.list_models() == []
    assert "gguf-split" in CASES_REMEDY(tmp_path)


def CASES_REMEDY(folder: Path) -> str:
    with pytest.raises(ArtifactError) as caught:
        CASES["artifact.base.split"][0](folder)
    return caught.value.remedy


def test_an_expectation_is_kept_even_where_the_folder_says_otherwise(tmp_path: Path) -> None:
    store = Store(tmp_path / "home")
    file = write_base(tmp_path / "b.gguf")
    with pytest.raises(ArtifactError) as caught:
        store.add_model(file, "b", expect=Expectation(catalog="c", digest=OTHER))
    assert caught.value.code == "artifact.digest"
