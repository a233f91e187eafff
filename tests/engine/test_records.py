"""Records: versions migrate, newer ones are refused, and what is written reads back equal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from store_tools import filled
from warmline.errors import ConfigError
from warmline.filemodel import load_file, parse
from warmline.registry import Store
from warmline.store.records import MIGRATIONS, SCHEMA, AdapterRecord, DeclaredBase, ModelRecord, StoredFile
from warmline.variant import Trust

DIGEST = "sha256:" + "0" * 64
# `adapter.json` as it was until 0.1.0, the one that is beside examples/adapters among them.
VERSION_0: dict[str, Any] = {
    "name": "style",
    "backend": "llama",
    "format": "gguf",
    "digest": DIGEST,
    "size": 7,
    "rank": 4,
    "alpha": 8,
    "base": {"name": "qwen", "digest": DIGEST},
    "source": "the team",
    "licence": "MIT",
    "installed_at": "2026-01-01T00:00:00+00:00",
    "trust": "user",
}


@pytest.mark.parametrize(("alpha", "factor"), [(8, 2.0), (3.5, 0.875), (0, 1.0), (None, None)])
def test_a_record_of_version_0_migrates(alpha: float | None, factor: float | None) -> None:
    record = parse(json.dumps(VERSION_0 | {"alpha": alpha}), AdapterRecord, "adapter.json")
    assert (record.schema_version, record.alpha, record.factor) == (SCHEMA, alpha, factor)
    assert (record.base.name, record.source, record.licence) == ("qwen", "the team", "MIT")
    again = parse(record.to_json(), AdapterRecord, "record.json")
    assert again == record
    assert json.loads(record.to_json())["schema"] == SCHEMA


def test_a_store_of_version_0_is_read_and_resolved(tmp_path: Path) -> None:
    store = filled(tmp_path / "home", tmp_path)
    path = store.home / "adapters/llama/style/record.json"
    now = store.get_adapter("style")
    old = {key: value for key, value in json.loads(path.read_text()).items() if key in VERSION_0}
    path.write_text(json.dumps(old))
    then = store.get_adapter("style")
    assert (then.digest, then.factor, then.rank) == (now.digest, now.factor, now.rank)
    assert store.resolve("acme").adapters[0].digest == now.digest


def test_the_examples_records_are_read(examples: Path) -> None:
    for path in examples.glob("adapters/*/adapter.json"):
        record = load_file(path, AdapterRecord)
        assert record.factor == 2.0
        assert record.base.digest


def test_every_version_has_its_step() -> None:
    for form in (AdapterRecord, ModelRecord):
        assert sorted(MIGRATIONS[form.__name__]) == list(range(SCHEMA))


@pytest.mark.parametrize("form", [AdapterRecord, ModelRecord])
def test_a_newer_record_is_not_guessed_at(form: Any, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(json.dumps(VERSION_0 | {"schema": SCHEMA + 1}), form, "record.json")
    error = caught.value
    assert (error.code, error.file, error.field) == ("config.newer", "record.json", "schema")
    assert "Update Warmline" in error.remedy


@pytest.mark.parametrize("version", ["1", 1.0, True, None, [], -1])
def test_what_is_no_version(version: object) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(json.dumps(VERSION_0 | {"schema": version}), AdapterRecord, "x")
    assert caught.value.code in ("config.field", "config.unknown_field")


@pytest.mark.parametrize("name", ["../x", "/x", "a//b", "", ".", "a/../b", "C:x", "a\\b", "a\0"])
def test_a_stored_file_lies_inside(name: str) -> None:
    with pytest.raises(ValueError, match="name"):
        StoredFile(name=name, digest=DIGEST, size=0)


def test_a_model_is_in_one_place() -> None:
    with pytest.raises(ValueError, match="not both"):
        ModelRecord(name="a", digest=DIGEST, size=1, path="/x", package="a:b")


digests = st.integers(0, 2**256 - 1).map(lambda n: f"sha256:{n:064x}")
short = st.text(max_size=12)
numbers = st.floats(-1e200, 1e200).filter(lambda x: x == 0 or abs(x) > 1e-200)
adapters = st.builds(
    AdapterRecord,
    name=st.sampled_from(["a", "b-1"]),
    backend=st.sampled_from(["llama", "openvino"]),
    digest=digests,
    size=st.integers(0, 1 << 40),
    source=short,
    licence=short,
    trust=st.sampled_from(Trust),
    catalog=short,
    rank=st.integers(1, 99),
    alpha=st.none() | numbers,
    factor=st.none() | numbers,
    base=st.builds(DeclaredBase, name=st.none() | short, digest=st.none() | digests),
    files=st.lists(st.builds(StoredFile, name=st.just("x/y"), digest=digests, size=st.integers(0, 9)), max_size=2).map(
        tuple
    ),
    pairs=st.integers(0, 9),
    zero_pairs=st.integers(0, 9),
)


@given(adapters)
def test_what_is_written_reads_back_equal(record: AdapterRecord) -> None:
    assert parse(record.to_json(), AdapterRecord, "x") == record


def test_unverified_until_the_makers_word_matches() -> None:
    base = DeclaredBase(name="b", digest=DIGEST)

    def record(declared: DeclaredBase) -> AdapterRecord:
        return AdapterRecord(name="a", digest=DIGEST, size=1, rank=1, base=declared, checked_base=base)

    assert record(DeclaredBase(name="b")).unverified
    assert record(DeclaredBase(digest="sha256:" + "1" * 64)).unverified
    assert not record(base).unverified


def test_broken_records_are_listed_with_what_is_wrong(tmp_path: Path) -> None:
    store = Store(tmp_path / "home")
    for name, text in (("a", "{"), ("b", json.dumps(VERSION_0)), ("c", json.dumps(VERSION_0 | {"schema": 99}))):
        path = store.home / "adapters/llama" / name / "record.json"
        path.parent.mkdir(parents=True)
        path.write_text(text)
    codes = [each.error.code for each in store.list_adapters() if each.error]
    assert codes == ["config.json", "store.record", "config.newer"]
