"""Whose adapter is whose: what was made for a GGUF file fits the model that the store imported from that very file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fake_backend import FakeBackend, write_base
from safetensors_writer import lora_tensors, peft_config, peft_folder
from store_tools import PEFT_MODULE, openvino_model, openvino_xml, peft
from warmline.backends.base import BaseFacts
from warmline.digests import DigestCache
from warmline.errors import ArtifactError, WarmlineError
from warmline.registry import Expectation, Store
from warmline.store.records import DeclaredBase
from warmline.variant import ResolvedVariant, Trust, VariantFile
from warmline.verified import Verifier

GGUF, OTHER = "sha256:" + "a" * 64, "sha256:" + "b" * 64
WEIGHTS = "adapter_model.safetensors"


class FolderBackend(FakeBackend):
    """Says of each folder what it would say of one GGUF file."""

    def __init__(self, file: Path) -> None:
        super().__init__("openvino")
        self._file = file

    def facts(self, path: Path, digest: str) -> BaseFacts:
        return super().facts(self._file, digest)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A store with a model that was imported from the file `GGUF`, and one that only says so."""
    store = Store(tmp_path / "home")
    store.add_model(openvino_model(tmp_path / "ov"), "imported", "openvino", copy=True)
    file = store.home / "models/openvino/imported/record.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"source_digest": GGUF, "precision": "exact"}))
    told = openvino_model(tmp_path / "told", b"others", openvino_xml(PEFT_MODULE, source=GGUF))
    store.add_model(told, "told", "openvino", copy=True)
    return store


@pytest.fixture
def verifier(tmp_path: Path) -> Verifier:
    backend = FolderBackend(write_base(tmp_path / "facts.gguf"))
    return Verifier(FakeBackend(), DigestCache(), lambda _digest: True, openvino=backend)


def variant(store: Store, base: str, adapter: str = "a") -> ResolvedVariant:
    named = {"name": "v", "backend": "openvino", "base": {"name": base}, "adapters": [{"name": adapter}]}
    store.add_variant(VariantFile.model_validate(named), replace=True)
    return store.resolve("openvino/v")


def expectation(folder: Path, base: str) -> Expectation:
    digests = {path.name: DigestCache().digest(path) for path in folder.iterdir()}
    return Expectation("team", digests[WEIGHTS], DeclaredBase(name="tiny", digest=base), digests)


def declaring(folder: Path, base: str) -> Path:
    """Write a PEFT folder with its maker's word for which base it was made."""
    peft(folder)
    word = {"name": "a", "digest": OTHER, "source_digest": DigestCache().digest(folder / WEIGHTS), "size": 1, "rank": 2}
    (folder / "adapter.json").write_text(json.dumps(word | {"base": {"digest": base}}))
    return folder


def refused(act: object, code: str) -> WarmlineError:
    with pytest.raises(WarmlineError) as caught:
        act()  # type: ignore[operator]
    assert caught.value.code == code
    return caught.value


def test_a_curated_adapter_for_the_file_is_verified_on_its_import(
    store: Store, verifier: Verifier, tmp_path: Path
) -> None:
    folder = peft(tmp_path / "a")
    record = store.add_adapter(folder, "a", "openvino", base="imported", expect=expectation(folder, GGUF))
    assert not record.unverified
    (adapter,) = verifier.verify(variant(store, "imported")).status().adapters
    assert (adapter.trust, adapter.verified) == ("curated", True)


def test_a_users_adapter_for_the_file_is_verified_by_its_makers_word(
    store: Store, verifier: Verifier, tmp_path: Path
) -> None:
    record = store.add_adapter(declaring(tmp_path / "a", GGUF), "a", "openvino", base="imported")
    assert not record.unverified
    assert verifier.verify(variant(store, "imported")).status().adapters[0].verified
    assert store.add_adapter(peft(tmp_path / "b"), "b", "openvino", base="imported").unverified


def test_an_adapter_for_another_file_is_refused(store: Store, verifier: Verifier, tmp_path: Path) -> None:
    folder = declaring(tmp_path / "a", OTHER)
    refused(lambda: store.add_adapter(folder, "a", "openvino", base="imported"), "artifact.adapter.base")
    expect = expectation(folder, OTHER)
    refused(lambda: store.add_adapter(folder, "a", "openvino", base="imported", expect=expect), "artifact.adapter.base")
    store.add_adapter(peft(tmp_path / "b"), "b", "openvino", base="imported")
    good = variant(store, "imported", "b")
    bad = good.adapters[0].model_copy(update={"declared_base": DeclaredBase(digest=OTHER)})
    refused(lambda: verifier.verify(good.model_copy(update={"adapters": (bad,)})), "artifact.adapter.base")


def test_a_folders_own_word_of_its_source_verifies_nothing(store: Store, verifier: Verifier, tmp_path: Path) -> None:
    """Anyone can write a mark into a folder; the store's record comes from an import that proved each weight."""
    folder = peft(tmp_path / "a")
    expect = expectation(folder, GGUF)
    refused(lambda: store.add_adapter(folder, "a", "openvino", base="told", expect=expect), "artifact.adapter.base")
    store.add_adapter(folder, "a", "openvino", base="told")
    told = variant(store, "told")
    own = told.adapters[0].model_copy(update={"declared_base": DeclaredBase(digest=GGUF)})
    assert not verifier.verify(told.model_copy(update={"adapters": (own,)})).status().adapters[0].verified
    curated = own.model_copy(update={"trust": Trust.CURATED})
    refused(lambda: verifier.verify(told.model_copy(update={"adapters": (curated,)})), "artifact.adapter.base")


def test_a_users_adapter_for_what_a_folder_says_it_was_made_of_is_unverified(
    store: Store, verifier: Verifier, tmp_path: Path
) -> None:
    """What is installed is what verifying lets pass: the maker's word and the folder's own fit together."""
    record = store.add_adapter(declaring(tmp_path / "a", GGUF), "a", "openvino", base="told")
    assert (record.base.digest, record.unverified) == (GGUF, True)
    assert not verifier.verify(variant(store, "told")).status().adapters[0].verified
    other = declaring(tmp_path / "b", OTHER)
    refused(lambda: store.add_adapter(other, "b", "openvino", base="told"), "artifact.adapter.base")


def test_the_record_speaks_of_its_own_bytes_only(store: Store, tmp_path: Path) -> None:
    assert store.add_adapter(peft(tmp_path / "a"), "a", "openvino", base="imported").checked_source == GGUF
    named = {"name": "w", "backend": "openvino", "base": {"name": "imported", "digest": OTHER}}
    store.add_variant(VariantFile.model_validate(named))
    assert store.resolve("openvino/w").base.source_digest is None
    assert variant(store, "imported").base.source_digest == GGUF


def test_an_adapter_that_matches_nothing_is_refused_when_it_is_added(store: Store, tmp_path: Path) -> None:
    def add(*modules: str, wide: int = 16) -> ArtifactError:
        folder = peft_folder(
            tmp_path / f"a{len(list(tmp_path.iterdir()))}",
            lora_tensors(dict.fromkeys(modules, (wide, 16))),
            peft_config(),
        )
        with pytest.raises(ArtifactError) as caught:
            store.add_adapter(folder, "x", "openvino", base="imported")
        assert caught.value.file is not None
        assert Path(caught.value.file).is_relative_to(folder)  # as the person knows it, not where it was staged
        return caught.value

    short = add("q_proj")
    assert (short.code, short.field) == ("artifact.openvino.unmatched", "q_proj")
    some = add(PEFT_MODULE, "model.layers.1.self_attn.q_proj")
    assert (some.code, some.field) == ("artifact.openvino.unmatched", "model.layers.1.self_attn.q_proj")
    assert add(PEFT_MODULE, wide=8).code == "artifact.openvino.width"
    assert store.list_adapters() == []


def test_a_base_that_changed_is_no_base_to_add_to(store: Store, tmp_path: Path) -> None:
    folder = openvino_model(tmp_path / "there", b"third")
    store.add_model(folder, "there", "openvino")
    (folder / "openvino_model.xml").write_text(openvino_xml())
    refused(lambda: store.add_adapter(peft(tmp_path / "a"), "a", "openvino", base="there"), "artifact.digest")
