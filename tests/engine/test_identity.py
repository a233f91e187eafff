"""Identity: what differs and what does not, over the handed table, and no two variants encode alike."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from fake_backend import FakeBackend, write_adapter, write_base
from hypothesis import given
from hypothesis import strategies as st
from warmline.digests import DigestCache
from warmline.errors import PromptError
from warmline.identity import AdapterIdentity, ContextIdentity, Identity, differences, exact_decimal
from warmline.prompts.fim import FimProfile
from warmline.variant import (
    DeclaredBase,
    Profile,
    Reasoning,
    ResolvedAdapter,
    ResolvedBase,
    ResolvedVariant,
    Sampling,
    Trust,
)
from warmline.verified import Verifier

CASES = json.loads((Path(__file__).parent.parent / "cases/identity.json").read_text())["cases"]


class Bench:
    """A variant on disk that can be changed in one place."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.base = write_base(folder / "base.gguf")
        self.a = write_adapter(folder / "a.gguf", weights=b"\x0a")
        self.b = write_adapter(folder / "b.gguf", weights=b"\x0b")
        self.backend = FakeBackend()
        self.name = "v"
        self.base_name = "base"
        self.adapters: list[dict[str, Any]] = [{"name": "a", "path": self.a, "scale": Decimal("1.0")}]
        self.profile: dict[str, Any] = {"n_ctx": 2048}

    def identity(self) -> Identity:
        variant = ResolvedVariant(
            name=self.name,
            backend="llama",
            base=ResolvedBase(name=self.base_name, path=self.base),
            adapters=tuple(ResolvedAdapter(**adapter) for adapter in self.adapters),
            profile=Profile(**self.profile),
            file="v.json",
        )
        return Verifier(self.backend, DigestCache(), lambda _digest: True).verify(variant).identity

    def scale(self, value: str) -> None:
        self.adapters[0]["scale"] = Decimal(value)

    def rename_file(self, which: str, to: str) -> None:
        path: Path = getattr(self, which)
        moved = path.rename(self.folder / to)
        setattr(self, which, moved)
        for adapter in self.adapters:
            if adapter["path"] == path:
                adapter["path"] = moved

    def rewrite_adapter(self) -> None:
        before = os.stat(self.a)
        write_adapter(self.a, weights=b"\x0c")
        assert os.stat(self.a).st_size == before.st_size
        os.utime(self.a, ns=(before.st_atime_ns, before.st_mtime_ns))


def second(bench: Bench) -> dict[str, Any]:
    return {"name": "b", "path": bench.b, "scale": Decimal(1)}


def two(bench: Bench) -> None:
    bench.adapters = [*bench.adapters, second(bench)]


def made_for_the_base(bench: Bench) -> None:
    bench.adapters[0].update(declared_base=DeclaredBase(digest=DigestCache().digest(bench.base)))


# change text -> (preparation, change)
CHANGES: dict[str, tuple[Callable[[Bench], object] | None, Callable[[Bench], object]]] = {
    "one byte of the base's weights": (None, lambda t: write_base(t.base, weights=b"\x02")),
    "one byte of adapter 0's weights, same name, same size, mtime restored": (None, Bench.rewrite_adapter),
    "adapter 0's scale 1.0 -> 0.5": (None, lambda t: t.scale("0.5")),
    "adapter 0's scale 1 -> 1.0 in the JSON text": (lambda t: t.scale("1"), lambda t: t.scale("1.0")),
    "adapter 0's scale 1.0 -> -1.0": (None, lambda t: t.scale("-1.0")),
    "scale 0.1 -> 0.1000001": (lambda t: t.scale("0.1"), lambda t: t.scale("0.1000001")),
    "adapters [A, B] -> [B, A]": (two, lambda t: t.adapters.reverse()),
    "adapters [A] -> []": (None, lambda t: t.adapters.clear()),
    "adapters [A] -> [A, B]": (None, two),
    "adapter renamed, same bytes": (None, lambda t: t.adapters[0].update(name="other")),
    "adapter file moved, same bytes": (None, lambda t: t.rename_file("a", "moved.gguf")),
    "variant renamed": (None, lambda t: setattr(t, "name", "w")),
    "base renamed, same bytes": (None, lambda t: (setattr(t, "base_name", "x"), t.rename_file("base", "x.gguf"))),
    "chat template override in the profile": (None, lambda t: t.profile.update(chat_template="{{ 1 }}")),
    "chat template in the base's metadata, same weights": (None, lambda t: write_base(t.base, template="{{ 2 }}")),
    "add_bos true -> false": (None, lambda t: t.profile.update(bos="never")),
    "FIM order prefix-first -> suffix-first": (
        lambda t: t.profile.update(fim=FimProfile(order="prefix-first")),
        lambda t: t.profile.update(fim=FimProfile(order="suffix-first")),
    ),
    "n_ctx 2048 -> 4096": (None, lambda t: t.profile.update(n_ctx=4096)),
    "KV type f16 -> q8_0": (None, lambda t: t.profile.update(type_k="q8_0")),
    "thread count 2 -> 1": (None, lambda t: os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})),
    "sampling temperature": (None, lambda t: t.profile.update(sampling=Sampling(temperature=0.7))),
    "llama.cpp build -> another build": (None, lambda t: setattr(t.backend, "version", "2")),
    "backend llama -> openvino": (None, lambda t: setattr(t.backend, "name", "openvino")),
    "adapter 'x,sha256:..@1' crafted so that its name imitates a second adapter": (
        None,
        lambda t: t.adapters[0].update(name="a,sha256:" + "0" * 64 + "@1"),
    ),
    "trust label user -> curated, same bytes": (made_for_the_base, lambda t: t.adapters[0].update(trust=Trust.CURATED)),
}


@pytest.mark.parametrize("case", CASES, ids=[case["change"] for case in CASES])
def test_the_handed_table(case: dict[str, Any], tmp_path: Path) -> None:
    prepare, change = CHANGES[case["change"]]
    bench = Bench(tmp_path)
    if prepare:
        prepare(bench)
    before = bench.identity()
    affinity = os.sched_getaffinity(0)
    try:
        change(bench)
        after = bench.identity()
    finally:
        os.sched_setaffinity(0, affinity)
    difference = after.difference(before)
    if case["differs"]:
        assert before.digest != after.digest
        assert before != after
        assert difference is not None
        assert case["field"] in difference
    else:
        assert before == after
        assert before.digest == after.digest
        assert difference is None


def test_the_table_is_covered() -> None:
    assert set(CHANGES) == {case["change"] for case in CASES}


texts = st.text(max_size=12)
adapters = st.builds(AdapterIdentity, digest=texts, scale=texts, effective_scale=texts)
contexts = st.builds(
    ContextIdentity,
    n_ctx=st.integers(0, 9),
    type_k=texts,
    type_v=texts,
    rope=texts,
    swa=texts,
    properties=st.lists(st.tuples(texts, texts), max_size=3).map(tuple),
)
identities = st.builds(
    Identity,
    backend=texts,
    backend_version=texts,
    base=texts,
    adapters=st.lists(adapters, max_size=3).map(tuple),
    template=texts,
    bos=texts,
    fim=texts,
    context=contexts,
)


@given(identities, identities)
def test_equal_encodings_mean_equal_identities(one: Identity, other: Identity) -> None:
    assert (one.encode() == other.encode()) == (one == other)
    assert (one.difference(other) is None) == (one == other)


def test_reasoning_and_tools_are_identity_only_where_they_are_declared(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    plain = bench.identity()
    assert not {"reasoning", "tools"} & dict(plain.fields()).keys()
    bench.profile["tools"] = "hermes"
    with pytest.raises(PromptError) as caught:  # the base's own template tells of none
        bench.identity()
    assert (caught.value.code, caught.value.field) == ("prompt.template_tools", "profile.tools")
    bench.profile["chat_template"] = "{{ tools }}"
    tools = bench.identity()
    assert dict(tools.fields())["tools"] == "hermes"
    bench.profile = {"n_ctx": 2048, "reasoning": Reasoning()}
    thinks = bench.identity()
    bench.profile["reasoning"] = Reasoning(keep=True)
    assert len({each.digest for each in (plain, tools, thinks, bench.identity())}) == 4
    assert bench.identity().difference(thinks) == "reasoning"


@given(identities, identities)
def test_all_differences_are_listed_and_the_first_is_the_named_one(one: Identity, other: Identity) -> None:
    found = differences(one.fields(), other.fields())
    assert (not found) == (one == other) or one.context.properties != other.context.properties
    if found and not (one.context.properties or other.context.properties):
        assert found[0].field == one.difference(other)


def test_differences_name_values_on_both_sides() -> None:
    one = Identity("llama", "1", "b", (AdapterIdentity("d", "1", "2"),), "t", "none", "f", ContextIdentity(512))
    other = replace(one, adapters=(), context=ContextIdentity(1024))
    assert [(each.field, each.one, each.other) for each in differences(one.fields(), other.fields())] == [
        ("adapters", "1", "0"),
        ("adapters[0].digest", "d", None),
        ("adapters[0].scale", "1", None),
        ("adapters[0].effective_scale", "2", None),
        ("context.n_ctx", "512", "1024"),
    ]


@given(identities, st.data())
def test_text_moved_between_neighbouring_fields_is_another_identity(identity: Identity, data: st.DataObject) -> None:
    joined = identity.backend + identity.backend_version
    cut = data.draw(st.integers(0, len(joined)))
    moved = replace(identity, backend=joined[:cut], backend_version=joined[cut:])
    assert (moved.encode() == identity.encode()) == (cut == len(identity.backend))


@given(st.fractions(min_value=-1000, max_value=1000, max_denominator=10**9))
def test_exact_decimals_are_exact_and_canonical(value: Fraction) -> None:
    text = exact_decimal(value)
    back = Fraction(text)
    assert back == value
    assert exact_decimal(back) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Decimal("1.0"), "1"),
        (Decimal("1e-7"), "0.0000001"),
        (Decimal("-0.50"), "-0.5"),
        (Fraction(16, 3), "16/3"),
        (Decimal("100"), "100"),
        (0, "0"),
    ],
)
def test_exact_decimal_forms(value: Decimal | Fraction | int, text: str) -> None:
    assert exact_decimal(value) == text


@pytest.mark.parametrize("value", [Decimal("NaN"), Decimal("Infinity"), Decimal("1e999")])
def test_what_is_no_scale_has_no_form(value: Decimal) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the message is for programmers
        exact_decimal(value)
