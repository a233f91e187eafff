"""What stands beside what: a base, what acts on it at run time, and what it was merged into."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_backend import write_adapter, write_base
from store_tools import acme, filled
from warmline.benchmark.subjects import MergedFrom, Subject, stand_beside
from warmline.registry import Store
from warmline.variant import BaseRef, VariantFile


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return filled(tmp_path / "home", tmp_path)


def merged(store: Store, work: Path, name: str, of: str) -> None:
    file = write_base(work / f"{name}.gguf", weights=name.encode()[-1:])
    store.add_model(file, name, merged_from=of)


def told(subjects: list[Subject]) -> list[tuple[str, str, int, int | None]]:
    return [(each.variant.name, each.variant.base.name, len(each.variant.adapters), each.base) for each in subjects]


@pytest.mark.parametrize(
    ("text", "base", "adapters", "scales"),
    [
        ("qwen+acme", "qwen", {"acme"}, ()),
        ("qwen + acme@0.5 + style", "qwen", {"acme", "style"}, ("0.5",)),
        ("qwen -> acme@-1", "qwen", {"acme"}, ("-1",)),
        ("some words of a person", "some words of a person", set(), ()),
    ],
)
def test_a_record_says_what_was_merged(text: str, base: str, adapters: set[str], scales: tuple[str, ...]) -> None:
    assert MergedFrom.parse(text) == MergedFrom(base, frozenset(adapters), scales)


def test_a_variant_stands_beside_its_base(store: Store) -> None:
    variant = store.resolve("acme")
    subjects = stand_beside(store, [variant])
    assert told(subjects) == [("base", "base", 0, None), ("acme", "base", 1, 0)]
    assert subjects[1].variant == variant
    assert subjects[0].variant.profile == variant.profile


def test_and_beside_what_it_was_merged_into(store: Store, tmp_path: Path) -> None:
    merged(store, tmp_path, "baked", "base+style")
    merged(store, tmp_path, "other", "base+another")
    merged(store, tmp_path, "more", "base+style+another")
    subjects = stand_beside(store, [store.resolve("acme")])
    assert told(subjects) == [("base", "base", 0, None), ("acme", "base", 1, 0), ("baked", "baked", 0, 0)]
    assert subjects[2].notes == ("merged from base+style",)


def test_a_merged_one_brings_its_base_and_the_dynamic_one(store: Store, tmp_path: Path) -> None:
    merged(store, tmp_path, "baked", "base+style")
    store.add_variant(VariantFile(name="mine", base=BaseRef(name="baked")))
    subjects = stand_beside(store, [store.resolve("mine")])
    assert told(subjects) == [("base", "base", 0, None), ("acme", "base", 1, 0), ("mine", "baked", 0, 0)]


def test_a_scale_that_a_record_leaves_open_is_told(store: Store, tmp_path: Path) -> None:
    store.add_variant(acme("half", adapters=({"name": "style", "scale": "0.5"},)))
    merged(store, tmp_path, "open", "base+style")
    merged(store, tmp_path, "told", "base+style@0.5")
    notes = {each.variant.name: each.notes for each in stand_beside(store, [store.resolve("half")])}
    assert notes["open"][1] == "its record does not say at which scale; the dynamic variant's is not 1"
    assert notes["told"] == ("merged from base+style@0.5",)


def test_a_base_stands_alone_and_a_merged_one_without_its_base_too(store: Store, tmp_path: Path) -> None:
    store.add_variant(VariantFile(name="plain", base=BaseRef(name="base")))
    merged(store, tmp_path, "orphan", "gone+style")
    store.add_variant(VariantFile(name="baked", base=BaseRef(name="orphan")))
    assert told(stand_beside(store, [store.resolve("plain")])) == [("plain", "base", 0, None)]
    assert told(stand_beside(store, [store.resolve("baked")])) == [("baked", "orphan", 0, None)]


def test_several_are_each_compared_with_their_own_base(store: Store, tmp_path: Path) -> None:
    store.add_model(write_base(tmp_path / "second.gguf", weights=b"\x07"), "second")
    store.add_adapter(write_adapter(tmp_path / "a.gguf", weights=b"\x09"), "two", base="second")
    store.add_variant(acme("beta", base={"name": "second"}, adapters=({"name": "two"},)))
    subjects = stand_beside(store, [store.resolve("acme"), store.resolve("beta")])
    assert told(subjects) == [
        ("base", "base", 0, None),
        ("acme", "base", 1, 0),
        ("second", "second", 0, None),
        ("beta", "second", 1, 2),
    ]
