"""Approvals: installing gives one, a changed byte asks again, and what is taken back is asked for again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fake_backend import FakeBackend, write_adapter, write_base
from store_tools import acme, filled
from warmline.digests import DigestCache
from warmline.errors import ArtifactError, TrustError
from warmline.registry import Store, Workspace, find_workspace
from warmline.trust import TrustStore
from warmline.verified import Verifier

A, B = ("sha256:" + digit * 64 for digit in "12")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return filled(tmp_path / "home", tmp_path)


@pytest.fixture
def trust(store: Store) -> TrustStore:
    return TrustStore(store.home / "trust.json")


def workspace_of(root: Path, variant: dict[str, object]) -> Workspace:
    (root / ".warmline/variants").mkdir(parents=True, exist_ok=True)
    (root / ".warmline/config.json").write_text('{"variant": "v"}')
    (root / ".warmline/variants/v.json").write_text(json.dumps({"name": "v", **variant}))
    found = find_workspace(root)
    assert found
    return found


def verify(store: Store, workspace: Workspace) -> None:
    trust = TrustStore(store.home / "trust.json")
    Verifier(FakeBackend(), DigestCache(), trust.approved).verify(store.resolve_workspace(workspace))


def asked(store: Store, workspace: Workspace) -> str:
    with pytest.raises(TrustError) as caught:
        verify(store, workspace)
    assert caught.value.code == "trust.unapproved"
    return str(caught.value.field)


def test_installing_approves_and_removing_takes_it_back(store: Store, trust: TrustStore) -> None:
    record = store.get_adapter("style")
    entry = trust.entries()[record.digest]
    assert (entry["by"], entry["name"], entry["file"]) == ("install", "style", "adapters/llama/style")
    store.remove_variant("acme")
    store.remove_adapter("style")
    assert not trust.approved(record.digest)
    assert trust.approved(store.get_model("base").digest)


def test_an_approval_by_hand_outlives_the_artifact(store: Store, trust: TrustStore, tmp_path: Path) -> None:
    file = write_adapter(tmp_path / "x.gguf", weights=b"\x44")
    digest = DigestCache().digest(file)
    trust.add(digest, name="x", file=str(file))
    store.add_adapter(file, "x", base="base")
    assert trust.entries()[digest].get("by", "user") == "user"
    store.remove_adapter("x")
    assert trust.approved(digest)


def test_the_same_bytes_under_two_names_stay_approved_for_the_second(
    store: Store, trust: TrustStore, tmp_path: Path
) -> None:
    store.add_adapter(tmp_path / "style.gguf", "again", base="base")
    store.remove_adapter("again")
    assert trust.approved(store.get_adapter("style").digest)


def test_a_workspace_that_brings_bytes_is_asked_about_unless_they_are_installed(
    store: Store, trust: TrustStore, tmp_path: Path
) -> None:
    root = tmp_path / "ws"
    root.mkdir()
    brought = write_adapter(root / "a.gguf", weights=b"\x21")
    workspace = workspace_of(root, {"base": {"name": "base"}, "adapters": [{"name": "a", "path": "../../a.gguf"}]})
    assert asked(store, workspace) == "adapters[0].path"
    trust.add(DigestCache().digest(brought), name="a", file=str(brought))
    verify(store, workspace)
    # A changed byte asks again.
    write_adapter(brought, weights=b"\x22")
    assert asked(store, workspace) == "adapters[0].path"
    # Installed by the user: approved, wherever the bytes lie.
    store.add_adapter(brought, "installed", base="base")
    verify(store, workspace)
    store.remove_adapter("installed")
    assert asked(store, workspace) == "adapters[0].path"


@pytest.mark.parametrize("part", ["base", "adapters[0]"])
def test_what_a_workspace_picks_from_the_store_was_approved_until_that_is_taken_back(
    store: Store, trust: TrustStore, tmp_path: Path, part: str
) -> None:
    workspace = workspace_of(tmp_path / "ws", {"base": {"name": "base"}, "adapters": [{"name": "style"}]})
    verify(store, workspace)
    assert trust.remove((store.get_model("base") if part == "base" else store.get_adapter("style")).digest)
    with pytest.raises(TrustError) as caught:
        verify(store, workspace)
    assert (caught.value.code, caught.value.field) == ("trust.unapproved", f"{part}.name")
    assert "it is installed, and a variant of this workspace names it" in caught.value.message
    assert "brings" not in caught.value.message
    # The user's own variant is the user's own choice, also where a workspace selects it.
    Verifier(FakeBackend(), DigestCache(), trust.approved).verify(store.resolve("acme"))
    workspace.file.write_text('{"variant": "acme"}')
    verify(store, workspace)


@pytest.mark.parametrize(
    ("variant", "field"),
    [
        ({"base": {"name": "base"}, "adapters": [{"name": "a", "path": "../../a.pt"}]}, "adapters[0].path"),
        ({"base": {"path": "../../a.pt"}}, "base.path"),
    ],
)
def test_nobody_is_asked_to_approve_a_pickle(
    store: Store, trust: TrustStore, tmp_path: Path, variant: dict[str, object], field: str
) -> None:
    """Whatever is in it, and whether it was approved before."""
    root = tmp_path / "ws"
    root.mkdir()
    file = write_adapter(root / "a.pt") if field != "base.path" else write_base(root / "a.pt")
    trust.add(DigestCache().digest(file), name="a", file=str(file))
    workspace = workspace_of(root, variant)
    with pytest.raises(ArtifactError) as caught:
        store.resolve_workspace(workspace)
    assert (caught.value.code, caught.value.field) == ("artifact.pickle", field)
    assert str(caught.value.file).endswith("v.json")


def test_a_workspaces_base_is_asked_about_too(store: Store, tmp_path: Path) -> None:
    root = tmp_path / "ws"
    root.mkdir()
    write_base(root / "b.gguf", weights=b"\x23")
    assert asked(store, workspace_of(root, {"base": {"path": "../../b.gguf"}})) == "base.path"


def test_approvals_are_listed_and_taken_back(tmp_path: Path) -> None:
    trust = TrustStore(tmp_path / "trust.json")
    trust.add(A, name="a", file="a.gguf")
    trust.add(B, name="b", file="b.gguf", by="install")
    assert {digest: entry["by"] for digest, entry in trust.entries().items()} == {A: "user", B: "install"}
    trust.forget_installed(A)
    trust.forget_installed(B)
    assert set(trust.entries()) == {A}
    assert trust.remove(A)
    assert trust.entries() == {}


def test_an_entry_of_before_is_the_users_own(tmp_path: Path) -> None:
    trust = TrustStore(tmp_path / "trust.json")
    trust.path.write_text(json.dumps({A: {"name": "a", "file": "f", "approved_at": "t"}}))
    trust.forget_installed(A)
    assert trust.approved(A)
    trust.add(A, name="b", file="g", by="install")
    assert trust.entries()[A]["name"] == "a"


@pytest.mark.parametrize("digest", ["x", "sha256:" + "g" * 64, "sha256:" + "1" * 63, A + "\n"])
def test_only_digests_are_approved(tmp_path: Path, digest: str) -> None:
    trust = TrustStore(tmp_path / "trust.json")
    with pytest.raises(TrustError) as caught:
        trust.add(digest, name="a", file="f")
    assert caught.value.code == "trust.digest"
    assert not trust.path.exists()


def test_a_variant_that_is_added_needs_no_approval_of_its_own(store: Store, trust: TrustStore) -> None:
    before = trust.entries()
    store.add_variant(acme("other"))
    assert trust.entries() == before
