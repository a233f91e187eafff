"""How names become files, and what a workspace may not name."""

from __future__ import annotations

import json
import os
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from warmline.errors import ConfigError, VariantError, WarmlineError
from warmline.registry import Store, Workspace, find_workspace
from warmline.trust import TrustStore
from warmline.variant import Overrides, Profile, Sampling
from warmline_server.listing import list_rows


def write(path: Path, data: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(data))
    return path


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "home")


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    write(tmp_path / "ws/.warmline/config.json", {"variant": "acme"})
    found = find_workspace(tmp_path / "ws/src/deep/file.py")
    assert found
    return found


def own(store: Store, name: str, **changes: Any) -> Path:
    data = {"name": name, "base": {"path": "base.gguf"}, **changes}
    return write(store.home / f"variants/llama/{name}.json", data)


def brought(workspace: Workspace, name: str, **changes: Any) -> Path:
    data = {"name": name, "base": {"path": "../models/base.gguf"}, **changes}
    return write(workspace.root / f".warmline/variants/{name}.json", data)


def test_the_nearest_workspace_upward_is_found(tmp_path: Path, workspace: Workspace) -> None:
    assert workspace.root == tmp_path / "ws"
    write(tmp_path / "ws/src/.warmline/config.json", {"variant": "inner"})
    inner = find_workspace(tmp_path / "ws/src/deep/file.py")
    assert inner
    assert inner.root == tmp_path / "ws/src"
    assert find_workspace(tmp_path / "elsewhere") is None


def test_a_workspace_variant_hides_the_users_of_the_same_name(store: Store, workspace: Workspace) -> None:
    own(store, "acme")
    file = brought(workspace, "acme")
    assert store.resolve_workspace(workspace).file == str(file)
    assert store.resolve("acme").file.startswith(str(store.home))


def test_exact_names_pick_the_backend(store: Store) -> None:
    own(store, "acme")
    write(
        store.home / "variants/openvino/acme.json",
        {"name": "acme", "backend": "openvino", "base": {"path": "folder"}},
    )
    assert store.resolve("acme").backend == "llama"
    assert store.resolve("openvino/acme").backend == "openvino"


def test_unknown_variants_name_the_nearest(store: Store, workspace: Workspace) -> None:
    own(store, "acne")
    with pytest.raises(VariantError) as caught:
        store.resolve_workspace(workspace)
    assert caught.value.code == "variant.unknown"
    assert (caught.value.file, caught.value.field) == (str(workspace.file), "variant")
    assert "acne" in caught.value.remedy


def test_overrides_change_only_what_they_name(store: Store, workspace: Workspace) -> None:
    own(
        store,
        "acme",
        adapters=[{"name": "style", "path": "s.gguf"}],
        profile={"n_ctx": 2048, "max_tokens": 9, "sampling": {"temperature": 0.2, "seed": 3}},
    )
    overrides = Overrides(
        scales={"style": Decimal("0.5")}, profile=Profile(max_tokens=7, sampling=Sampling(temperature=0.9))
    )
    resolved = store.resolve("acme", None, overrides)
    assert resolved.adapters[0].scale == Decimal("0.5")
    assert (resolved.profile.n_ctx, resolved.profile.max_tokens) == (2048, 7)
    assert (resolved.profile.sampling.temperature, resolved.profile.sampling.seed) == (0.9, 3)


def test_an_override_of_an_absent_adapter_is_named(store: Store, workspace: Workspace) -> None:
    own(store, "acme", adapters=[{"name": "style", "path": "s.gguf"}])
    write(workspace.file, {"variant": "acme", "overrides": {"scales": {"stile": 1}}})
    with pytest.raises(ConfigError) as caught:
        store.resolve_workspace(workspace)
    assert caught.value.field == "overrides.scales.stile"
    assert "style" in caught.value.remedy


@pytest.mark.parametrize(
    "path",
    ["/etc/passwd", "../../../outside.gguf", "~/x.gguf", "C:\\x.gguf", "\\\\host\\share\\x", "link.gguf", "a\0b"],
)
def test_row_26_a_workspace_names_only_files_inside_itself(store: Store, workspace: Workspace, path: str) -> None:
    (workspace.root.parent / "outside.gguf").write_bytes(b"")
    (workspace.root / ".warmline/variants").mkdir(parents=True)
    (workspace.root / ".warmline/variants/link.gguf").symlink_to(workspace.root.parent / "outside.gguf")
    for changes, field in (
        ({"base": {"path": path}}, "base.path"),
        ({"adapters": [{"name": "a", "path": path}]}, "adapters[0].path"),
    ):
        file = brought(workspace, "acme", **changes)
        with pytest.raises(ConfigError) as caught:
            store.resolve_workspace(workspace)
        assert (caught.value.code, caught.value.file, caught.value.field) == ("config.path", str(file), field)


def test_the_user_may_name_any_file(store: Store, tmp_path: Path) -> None:
    own(store, "acme", base={"path": str(tmp_path / "x.gguf")})
    resolved = store.resolve("acme")
    assert resolved.base.path == tmp_path / "x.gguf"
    assert not resolved.base.workspace


def test_what_a_workspace_brings_is_marked(store: Store, workspace: Workspace) -> None:
    brought(workspace, "acme", adapters=[{"name": "a", "path": "../a.gguf"}])
    resolved = store.resolve_workspace(workspace)
    assert resolved.base.workspace
    assert resolved.adapters[0].workspace


def test_a_package_that_is_absent_says_how_to_install_it(store: Store) -> None:
    file = own(store, "acme", base={"package": "no_such_models:x.gguf"})
    with pytest.raises(ConfigError) as caught:
        store.resolve("acme")
    assert (caught.value.code, caught.value.file, caught.value.field) == ("config.package", str(file), "base.package")
    assert "pip install" in caught.value.remedy


def test_a_package_cannot_be_climbed_out_of(store: Store) -> None:
    own(store, "acme", base={"package": "pydantic:../x.gguf"})
    with pytest.raises(ConfigError) as caught:
        store.resolve("acme")
    assert caught.value.code == "config.path"


def test_a_folder_of_that_name_is_no_installed_package(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("namespaced", "regular"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.gguf").write_bytes(b"")
    (tmp_path / "regular/__init__.py").write_text("raise SystemExit")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend("")
    for name in ("namespaced", "regular"):
        own(store, "acme", base={"package": f"{name}:x.gguf"})
        with pytest.raises(ConfigError) as caught:
            store.resolve("acme")
        assert caught.value.code == "config.package"


def test_a_file_must_say_its_own_name(store: Store) -> None:
    write(store.home / "variants/llama/acme.json", {"name": "other", "base": {"path": "x"}})
    with pytest.raises(ConfigError) as caught:
        store.resolve("acme")
    assert caught.value.field == "name"


def test_records_beside_adapters_tell_source_and_base_but_never_trust(store: Store, tmp_path: Path) -> None:
    digest, base = "sha256:" + "1" * 64, "sha256:" + "2" * 64
    record = {
        "name": "a",
        "digest": digest,
        "size": 1,
        "rank": 4,
        "base": {"digest": base},
        "source": "the team",
        "trust": "curated",
    }
    write(tmp_path / "adapters/a/adapter.json", record)
    (tmp_path / "adapters/a/adapter.gguf").write_bytes(b"x")
    own(store, "acme", adapters=[{"name": "a", "path": str(tmp_path / "adapters/a/adapter.gguf")}])
    adapter = store.resolve("acme").adapters[0]
    assert (adapter.digest, adapter.declared_base.digest, adapter.source) == (digest, base, "the team")
    assert adapter.trust == "user"


def test_broken_variant_files_are_listed_and_named_when_asked_for(store: Store, workspace: Workspace) -> None:
    file = brought(workspace, "acme")
    file.write_text("{")
    assert [found.name for found in store.variants(workspace)] == ["acme"]
    with pytest.raises(WarmlineError) as caught:
        store.resolve_workspace(workspace)
    assert caught.value.file == str(file)


def test_approvals_are_kept_private_and_taken_back(tmp_path: Path) -> None:
    digest = "sha256:" + "1" * 64
    store = TrustStore(tmp_path / "home/trust.json")
    assert not store.approved(digest)
    store.add(digest, name="a", file="a.gguf")
    assert TrustStore(store.path).approved(digest)
    assert os.stat(store.path).st_mode & 0o777 == 0o600
    assert store.remove(digest)
    assert not store.approved(digest)
    assert not store.remove(digest)


@pytest.mark.parametrize("damage", ["{", "[]", '"x"'])
def test_damaged_approvals_approve_nothing_and_are_not_overwritten(tmp_path: Path, damage: str) -> None:
    store = TrustStore(tmp_path / "trust.json")
    store.path.write_text(damage)
    for act in (lambda: store.approved("x"), lambda: store.add("sha256:" + "1" * 64, name="a", file="f")):
        with pytest.raises(WarmlineError) as caught:
            act()
        assert caught.value.code == "trust.store"
    assert store.path.read_text() == damage


def test_a_fifo_for_the_trust_store_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "trust.json")
    with pytest.raises(WarmlineError) as caught:
        TrustStore(tmp_path / "trust.json").entries()
    assert caught.value.code == "trust.store"


ILL_NAMES = {
    "V": ("store.name_case", "`V.json` differs only in capitals from `v.json`"),
    "W": ("store.name", "this name cannot be used"),
    "a b": ("store.name", "this name cannot be used"),
}


@pytest.mark.parametrize("brought_by", ["store", "workspace"])
@pytest.mark.parametrize("name", ILL_NAMES)
def test_a_file_that_no_name_can_mean_says_why(store: Store, workspace: Workspace, name: str, brought_by: str) -> None:
    """It is listed as it is found: asking for it must not answer that it is not there."""
    code, words = ILL_NAMES[name]
    folder = workspace.root / ".warmline/variants" if brought_by == "workspace" else store.home / "variants/llama"
    write(folder / "base.gguf", {})
    for called in ("v", name):
        ill = write(folder / f"{called}.json", {"name": "v", "base": {"path": "base.gguf"}})
    with pytest.raises(WarmlineError) as caught:
        store.find(name, workspace)
    assert (caught.value.code, caught.value.file) == (code, str(ill))
    assert words in caught.value.message
    assert store.find("v", workspace).name == "v"
    with pytest.raises(VariantError) as unknown:
        store.find("vv", workspace)
    assert unknown.value.remedy == "Did you mean `v`?"
    rows = {row.found.name: row.error for row in list_rows(store.home, workspace)}
    assert rows["v"] is None
    assert getattr(rows[name], "code", None) == code


def test_a_file_that_says_another_name_is_listed_as_what_asking_for_it_says(store: Store) -> None:
    write(store.home / "variants/llama/base.gguf", {})
    write(store.home / "variants/llama/v.json", {"name": "w", "base": {"path": "base.gguf"}})
    (row,) = list_rows(store.home, None)
    assert row.error is not None
    assert (row.error.code, row.error.field) == ("config.field", "name")


def test_a_workspace_may_chat_with_another_variant_than_it_completes_with(store: Store, workspace: Workspace) -> None:
    own(store, "acme", adapters=[{"name": "style", "path": "../../style.gguf"}])
    own(store, "talker")
    overrides = {"scales": {"style": 0.5}, "profile": {"max_tokens": 7}}
    write(workspace.file, {"variant": "acme", "chat": "talker", "overrides": overrides})
    completes, chats = store.resolve_workspace(workspace), store.resolve_workspace(workspace, chat=True)
    assert (completes.name, completes.profile.max_tokens) == ("acme", 7)
    # What is overridden belongs to the other one, which has other adapters.
    assert (chats.name, chats.profile.max_tokens) == ("talker", store.resolve("talker").profile.max_tokens)
    for same in (None, "acme"):
        write(workspace.file, {"variant": "acme", "chat": same, "overrides": overrides})
        assert store.resolve_workspace(workspace, chat=True) == completes
    write(workspace.file, {"variant": "acme", "chat": "gone"})
    assert store.resolve_workspace(workspace).name == "acme"
    with pytest.raises(VariantError) as caught:
        store.resolve_workspace(workspace, chat=True)
    assert (caught.value.code, caught.value.field, caught.value.file) == (
        "variant.unknown",
        "chat",
        str(workspace.file),
    )
