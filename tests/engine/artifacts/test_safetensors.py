"""safetensors headers: each rule has its code, real files read right, and no bytes can hurt the reader."""

from __future__ import annotations

import io
import json
import os
import tracemalloc
from pathlib import Path

import pytest
from gguf_writer import HoledFile
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors_writer import (
    TEXT_MUTATIONS,
    entry,
    file_of,
    lora_tensors,
    mutate,
    safetensors,
    with_header,
)
from warmline.artifacts.safetensors import DTYPE_BITS, Limits, SafetensorsHeader, TensorEntry, read_header
from warmline.errors import ArtifactError

ADAPTERS = Path(__file__).parents[3] / "examples" / "adapters"


def read(data: bytes, **options: object) -> SafetensorsHeader:
    return read_header(io.BytesIO(data), **options)  # type: ignore[arg-type]


def refusal(data: bytes, **options: object) -> ArtifactError:
    with pytest.raises(ArtifactError) as caught:
        read(data, **options)
    assert caught.value.remedy
    return caught.value


# ---- real files ----


@pytest.mark.parametrize(("folder", "count"), [("acme-style", 120), ("fim-python", 420)])
def test_the_examples_read_as_the_reference_reads_them(folder: str, count: int) -> None:
    path = ADAPTERS / folder / "adapter_model.safetensors"
    header = read_header(path)
    assert header.metadata == {"format": "pt"}
    assert len(header.tensors) == count
    assert header.file_size == path.stat().st_size
    reference = pytest.importorskip("safetensors").safe_open(path, "numpy")
    assert set(reference.keys()) == set(header.tensors)
    data = path.read_bytes()
    for name, tensor in header.tensors.items():
        there = reference.get_tensor(name)
        assert (tensor.dtype, tensor.shape) == ("F16", there.shape)
        assert data[tensor.offset : tensor.offset + tensor.nbytes] == there.tobytes()


def test_tensors_come_in_the_order_of_their_data() -> None:
    header = read(file_of({"b": entry("F32", [1], [16, 20]), "a": entry(), "c": entry("F16", [0, 9], [20, 20])}, 20))
    start = header.data_offset
    assert list(header.tensors) == ["a", "b", "c"]
    assert header.tensors["b"] == TensorEntry("b", "F32", (1,), start + 16, 4)
    assert header.tensors["c"].nbytes == 0


def test_a_scalar_and_no_tensors_at_all_are_valid() -> None:
    assert read(file_of({"s": entry("F64", [], [0, 8])}, 8)).tensors["s"].shape == ()
    assert read(with_header("{}")).tensors == {}
    assert read(with_header("{}   ")).data_offset == 13


@pytest.mark.parametrize("dtype", DTYPE_BITS)
def test_each_type_takes_what_the_reference_says(dtype: str) -> None:
    reference = pytest.importorskip("safetensors")
    data = file_of({"a": entry(dtype, [8], [0, DTYPE_BITS[dtype]])}, DTYPE_BITS[dtype])
    assert read(data).tensors["a"].nbytes == DTYPE_BITS[dtype]
    assert len(reference.deserialize(data)[0][1]["data"]) == DTYPE_BITS[dtype]


def test_an_open_file_keeps_its_position(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    path.write_bytes(file_of({"a": entry()}, 16))
    with path.open("rb") as file:
        file.seek(5)
        assert read_header(file).file == str(path)
        assert file.tell() == 5


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for path, code in ((tmp_path, "not_a_file"), (tmp_path / "fifo", "not_a_file"), (tmp_path / "no", "missing")):
        with pytest.raises(ArtifactError) as caught:
            read_header(path)
        assert caught.value.code == f"artifact.{code}"
        assert ".gguf" not in caught.value.remedy


# ---- one file a rule ----

A = entry()
RULES = {
    "empty file": (b"", "truncated", None),
    "seven bytes": (bytes(7), "truncated", None),
    "header of nothing": (with_header(""), "json", None),
    "header longer than file": (with_header("{}", length=3), "truncated", None),
    "header over the limit": (with_header("{}", length=2**63), "header_size", None),
    "header of all bits": (with_header("{}", length=2**64 - 1), "header_size", None),
    "LFS pointer": (b"version https://git-lfs.github.com/spec/v1\n", "format", None),
    "GGUF": (b"GGUF" + bytes(60), "format", None),
    "zipped pickle": (b"PK\x03\x04" + bytes(60), "pickle", None),
    "bare pickle": (b"\x80\x04\x95" + bytes(60), "pickle", None),
    "no JSON": (with_header("{nonsense}"), "json", None),
    "JSON cut": (with_header('{"a": '), "json", None),
    "begins with a space": (with_header(" {}"), "json", None),
    "an array": (with_header("[]"), "json", None),
    "not UTF-8": (with_header(b'{"\xff": 1}'), "json", None),
    "UTF-16": (with_header("{}".encode("utf-16-le")), "json", None),
    "something after the object": (with_header("{}{}"), "json", None),
    "nested": (with_header('{"a": [[[8]]]}'), "depth", None),
    "nested without end": (with_header('{"a": ' + "[" * 100_000), "depth", None),
    "objects nested without end": (with_header('{"a": ' * 100_000), "depth", None),
    "lists without number": (with_header('{"a": [' + "[]," * 300_000), "count", None),
    "tensor twice": (with_header('{"a": 1, "a": 2}'), "duplicate_key", "a"),
    "field twice": (with_header('{"a": {"dtype": "F32", "dtype": "F16"}}'), "duplicate_key", "dtype"),
    "metadata twice": (with_header('{"__metadata__": {}, "__metadata__": {}}'), "duplicate_key", "__metadata__"),
    "metadata no object": (file_of({"__metadata__": "x"}, 0), "metadata", "__metadata__"),
    "metadata null": (file_of({"__metadata__": None}, 0), "metadata", "__metadata__"),
    "metadata value no text": (file_of({"__metadata__": {"k": 1}}, 0), "metadata", "__metadata__.k"),
    "metadata half a character": (with_header('{"__metadata__": {"k": "\\ud800"}}'), "metadata", "__metadata__.k"),
    "name empty": (file_of({"": A}, 16), "name", ""),
    "name with NUL": (file_of({"a\0b": A}, 16), "name", "a\\x00b"),
    "name too long": (file_of({"n" * 1_025: A}, 16), "name", "n" * 80 + "…"),
    "name too long in bytes": (file_of({"é" * 513: A}, 16), "name", "é" * 80 + "…"),
    "name half a character": (with_header('{"\\ud800": 1}'), "name", "\\xd800"),
    "entry no object": (file_of({"a": 1}, 0), "entry", "a"),
    "entry without type": (file_of({"a": {"shape": [], "data_offsets": [0, 0]}}, 0), "entry", "a"),
    "entry with more": (file_of({"a": {**A, "x": 1}}, 16), "entry", "a"),
    "type unknown": (file_of({"a": entry("F23")}, 16), "dtype", "a"),
    "type no text": (file_of({"a": entry([])}, 16), "dtype", "a"),
    "shape no list": (file_of({"a": entry(shape=4)}, 16), "shape", "a"),
    "dimension negative": (file_of({"a": entry(shape=[-2, -2])}, 16), "shape", "a"),
    "dimension a text": (file_of({"a": entry(shape=["2", 2])}, 16), "shape", "a"),
    "dimension a bool": (file_of({"a": entry(shape=[True, 4])}, 16), "shape", "a"),
    "dimension with a fraction": (file_of({"a": entry(shape=[2.0, 2])}, 16), "number", None),
    "dimension NaN": (with_header('{"a": {"shape": [NaN]}}'), "number", None),
    "dimension of many digits": (with_header('{"a": {"shape": [' + "9" * 5_000 + "]}}"), "number", None),
    "dimension over 64 bits": (file_of({"a": entry(shape=[2**63])}, 16), "shape", "a"),
    "elements overflow": (file_of({"a": entry(shape=[2**32, 2**32])}, 16), "shape", "a"),
    "elements overflow, then nothing": (file_of({"a": entry("F32", [2**62, 4, 0], [0, 0])}, 0), "shape", "a"),
    "bytes overflow": (file_of({"a": entry("F64", [2**61])}, 16), "shape", "a"),
    "too many dimensions": (file_of({"a": entry(shape=[1] * 9)}, 16), "shape", "a"),
    "half a byte": (file_of({"a": entry("F4", [3], [0, 2])}, 2), "shape", "a"),
    "offsets no pair": (file_of({"a": entry(offsets=[0])}, 16), "offsets", "a"),
    "offsets no list": (file_of({"a": entry(offsets={"0": 16})}, 16), "offsets", "a"),
    "offsets negative": (file_of({"a": entry(offsets=[-16, 0])}, 16), "offsets", "a"),
    "ends before it begins": (file_of({"a": entry(offsets=[16, 0])}, 16), "offsets", "a"),
    "offset over 64 bits": (file_of({"a": entry(offsets=[2**64 - 16, 2**64])}, 16), "offsets", "a"),
    "fewer bytes than the shape": (file_of({"a": entry(offsets=[0, 12])}, 12), "size", "a"),
    "more bytes than the shape": (file_of({"a": entry(offsets=[0, 20])}, 20), "size", "a"),
    "data past the end": (file_of({"a": A}, 15), "truncated", "a"),
    "data far past the end": (file_of({"a": entry("U8", [2**50], [0, 2**50])}, 16), "truncated", "a"),
    "bytes of nobody at the start": (file_of({"a": entry(offsets=[4, 20])}, 20), "gap", "a"),
    "bytes of nobody between": (file_of({"a": A, "b": entry(offsets=[20, 36])}, 36), "gap", "b"),
    "bytes of nobody at the end": (file_of({"a": A}, 17), "gap", None),
    "bytes and no tensors": (with_header("{}", b"x"), "gap", None),
    "overlap": (file_of({"a": A, "b": entry(offsets=[8, 24])}, 24), "overlap", "b"),
    "same data": (file_of({"a": A, "b": A}, 16), "overlap", "b"),
}


@pytest.mark.parametrize("rule", RULES)
def test_each_rule_has_its_error(rule: str) -> None:
    data, code, field = RULES[rule]
    error = refusal(data, label="a.safetensors")
    assert (error.code, error.file, error.field) == (f"artifact.safetensors.{code}", "a.safetensors", field)


@pytest.mark.parametrize(
    ("limits", "code"),
    [
        (Limits(max_header_bytes=100), "header_size"),
        (Limits(max_tensors=1), "count"),
        (Limits(max_name_bytes=3), "name"),
        (Limits(max_metadata_bytes=8), "metadata"),
    ],
)
def test_each_limit_holds(limits: Limits, code: str) -> None:
    data = file_of({"__metadata__": {"format": "pt-or-so"}, "name": A, "b": entry(offsets=[16, 32])}, 32)
    assert len(read(data).tensors) == 2
    assert refusal(data, limits=limits).code == f"artifact.safetensors.{code}"


def test_escapes_in_strings_do_not_confuse_the_nesting() -> None:
    odd = 'quote " backslash \\ brackets [[[[{{{{ \\" \\\\'
    header = read(file_of({"__metadata__": {odd: odd}, odd: A}, 16))
    assert list(header.tensors) == [odd]
    assert header.metadata == {odd: odd}


def test_a_file_cut_while_it_is_read() -> None:
    class Shrinking(HoledFile):
        def read(self, size: int = -1, /) -> bytes:
            data = super().read(size)
            self.size = min(self.size, 40)
            return data

    data = file_of({"a": A}, 16)
    with pytest.raises(ArtifactError) as caught:
        read_header(Shrinking(data, len(data)))
    assert caught.value.code == "artifact.safetensors.truncated"


@pytest.mark.parametrize(
    "header",
    [
        b'{"a": [' + b"[]," * 1_300_000,
        b"[" * 4_000_000,
        b'{"a": [' + b"0," * 2_000_000,
        b'{"a": [' + b'"",' * 1_300_000,
        b'"' * 4_000_000,
        b"\\" * 4_000_000,
        b'{"' + "é".encode() * 2_000_000,
        b"{" + b",".join(b'"%d":{}' % n for n in range(60_000)) + b"}",
    ],
    ids=["lists", "depth", "numbers", "strings", "quotes", "backslashes", "one name", "entries"],
)
def test_no_header_takes_much_memory(header: bytes) -> None:
    data = with_header(header)
    tracemalloc.start()
    try:
        refusal(data)
        assert tracemalloc.get_traced_memory()[1] < 100 << 20
    finally:
        tracemalloc.stop()


# ---- any bytes ----

MANY = settings(max_examples=2_000, deadline=None, database=None, suppress_health_check=list(HealthCheck))
SOME = settings(MANY, max_examples=500)
OPS = st.lists(
    st.tuples(st.sampled_from(TEXT_MUTATIONS), st.integers(0, 2**32), st.integers(0, 2**32)), min_size=1, max_size=3
)
SMALL = safetensors(lora_tensors({"model.layers.0.self_attn.q_proj": (8, 6), "lm_head": (8, 9)}), {"format": "pt"})


def survives(data: bytes, size: int | None = None) -> SafetensorsHeader | ArtifactError:
    """Read hostile bytes: a header or an ArtifactError; anything else fails."""
    size = len(data) if size is None else size
    source = HoledFile(data, size)
    try:
        header = read_header(source)
    except ArtifactError as error:
        assert error.code.startswith("artifact.safetensors.")
        assert error.remedy
        return error
    assert source.bytes_read <= header.data_offset
    end = header.data_offset
    for tensor in header.tensors.values():
        assert tensor.offset == end
        end += tensor.nbytes
    assert end == size
    return header


@MANY
@given(OPS)
def test_no_mutation_hurts_and_what_is_read_the_reference_reads_too(ops: list[tuple[str, int, int]]) -> None:
    reference = pytest.importorskip("safetensors")
    data = mutate(SMALL, ops)
    header = survives(data)
    if isinstance(header, SafetensorsHeader):
        there = dict(reference.deserialize(data))
        assert set(there) == set(header.tensors)
        for name, tensor in header.tensors.items():
            assert (there[name]["dtype"], tuple(there[name]["shape"])) == (tensor.dtype, tensor.shape)
            assert bytes(there[name]["data"]) == data[tensor.offset : tensor.offset + tensor.nbytes]


def test_no_mutation_of_a_real_header_hurts() -> None:
    path = ADAPTERS / "acme-style" / "adapter_model.safetensors"
    good = path.read_bytes()
    size = len(good)
    head = good[: read_header(path).data_offset]

    @MANY
    @given(OPS)
    def check(ops: list[tuple[str, int, int]]) -> None:
        data = mutate(head, ops)
        survives(data, size + len(data) - len(head))

    check()


@SOME
@given(st.binary(max_size=200), st.booleans())
def test_no_bytes_hurt(data: bytes, as_header: bool) -> None:
    survives(with_header(b"{" + data) if as_header else data)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@SOME
@given(JSON, JSON, JSON, JSON)
def test_no_values_hurt(dtype: object, shape: object, offsets: object, metadata: object) -> None:
    survives(with_header(json.dumps({"__metadata__": metadata})))
    survives(with_header(json.dumps({"a": entry(dtype, shape, offsets), "b": metadata}), bytes(16)))
