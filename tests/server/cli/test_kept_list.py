"""A list that was kept is what would be listed now: any file that it is made of, once touched, makes another one."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fake_backend import write_adapter, write_base
from store_tools import acme, filled
from warmline.registry import Store
from warmline.store.records import DeclaredBase
from warmline.variant import AdapterSpec
from warmline_server import listing
from warmline_server.cli import app, kept_list

Run = Callable[..., Any]


@pytest.fixture
def store(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """A store that nothing was written to for a minute."""
    now = time.time_ns
    monkeypatch.setattr(kept_list.time, "time_ns", lambda: now() + 60 * 10**9)
    monkeypatch.setenv("WARMLINE_HOME", str(home))
    monkeypatch.chdir(tmp_path)
    return filled(home, tmp_path)


def listed(capfd: pytest.CaptureFixture[str]) -> Any:
    capfd.readouterr()
    assert app.run(["variant", "list", "--json"]) == 0
    return json.loads(capfd.readouterr().out)


def same_size(path: Path) -> None:
    """Change a file's bytes without its size or mtime."""
    before = path.stat()
    data = path.read_bytes().replace(b"acme", b"acmf", 1)
    while path.stat().st_ctime_ns == before.st_ctime_ns:  # the file system's clock is coarse
        path.write_bytes(data)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def changes(store: Store) -> dict[str, Callable[[], object]]:
    home = store.home
    variants = home / "variants/llama"
    return {
        "a variant is added": lambda: store.add_variant(acme("other")),
        "a variant is removed": lambda: (variants / "acme.json").unlink(),
        "a variant is rewritten": lambda: same_size(variants / "acme.json"),
        "a variant is broken": lambda: (variants / "acme.json").write_text("{"),
        "a default is chosen": lambda: (home / "config.json").write_text('{"default-variant": "acme"}'),
        "an adapter's record is touched": lambda: os.utime(home / "adapters/llama/style/record.json"),
        "a base's record is gone": lambda: (home / "models/llama/base/record.json").unlink(),
        "an approval is given": lambda: (home / "trust.json").write_text("{}"),
        "there is a certificate": lambda: (
            (home / "certificates").mkdir(),
            (home / "certificates/a.json").write_text("{}"),
        ),
    }


@pytest.mark.parametrize("name", changes(Store(Path())))
def test_whatever_is_touched_makes_another_list(store: Store, name: str) -> None:
    before = kept_list.key_of(store.home)
    assert before is not None
    assert kept_list.key_of(store.home) == before
    changes(store)[name]()
    assert kept_list.key_of(store.home) != before


def test_it_is_kept_and_read_back_as_it_was(store: Store, capfd: pytest.CaptureFixture[str]) -> None:
    first = listed(capfd)
    assert [one["name"] for one in first] == ["acme"]
    kept = store.home / "cache/variant-list.json"
    assert kept.stat().st_mode & 0o777 == 0o600
    data = json.loads(kept.read_text())
    assert listed(capfd) == first
    # It is this very file that is read: what stands in it is shown, under its key only.
    data["list"][0]["json"]["description"] = "kept"
    kept.write_text(json.dumps(data))
    assert listed(capfd)[0]["description"] == "kept"
    store.add_variant(acme("other"))
    assert [one["name"] for one in listed(capfd)] == ["acme", "other"]


@pytest.mark.parametrize("content", ["", "{", "[]", '{"key": 1}', "null"])
def test_one_that_cannot_be_read_is_made_anew(store: Store, capfd: pytest.CaptureFixture[str], content: str) -> None:
    first = listed(capfd)
    (store.home / "cache/variant-list.json").write_text(content)
    assert listed(capfd) == first


def test_nothing_is_kept_of_a_fresh_store(home: Path, tmp_path: Path) -> None:
    filled(home, tmp_path)
    assert kept_list.key_of(home) is None


def test_nothing_is_kept_where_there_is_nothing(tmp_path: Path, warmline: Run) -> None:
    nowhere = tmp_path / "nowhere"
    assert warmline("variant", "list", environment={"WARMLINE_HOME": str(nowhere)}).code == 0
    assert not nowhere.exists()


def test_table_and_note_are_the_same_when_kept(store: Store, capfd: pytest.CaptureFixture[str]) -> None:
    capfd.readouterr()
    app.run(["variant", "list"])
    first = capfd.readouterr().out
    assert (store.home / "cache/variant-list.json").exists()
    app.run(["variant", "list"])
    assert capfd.readouterr().out == first
    assert "base -> style@1" in first


@pytest.mark.parametrize("kind", ["copied base", "referenced base", "adapter"])
def test_weights_that_are_gone_break_the_variants_that_name_them(
    store: Store, tmp_path: Path, capfd: pytest.CaptureFixture[str], kind: str
) -> None:
    """The list that was kept of the time before is not shown, nor is that of the time without them."""
    name, field = "acme", "adapters[0].name" if kind == "adapter" else "base.name"
    path = store.adapter_path(store.get_adapter("style")) if kind == "adapter" else tmp_path / "referenced.gguf"
    if kind == "copied base":
        path = store.model_path(store.get_model("base"))
    elif kind == "referenced base":
        store.add_model(write_base(path, weights=b"\x31"), "other")
        name = store.add_variant(acme("own", base={"name": "other"}, adapters=())).stem
    healthy = {row["name"]: row for row in listed(capfd)}
    assert healthy[name]["error"] is None
    assert (store.home / "cache/variant-list.json").exists()
    path.rename(tmp_path / "away")
    for _ in range(2):
        error = {row["name"]: row for row in listed(capfd)}[name]["error"]
        assert (error["code"], error["field"], str(path) in error["message"]) == ("artifact.missing", field, True)
        assert error["file"].endswith(f"{name}.json")
    (tmp_path / "away").rename(path)
    assert {row["name"]: row for row in listed(capfd)}[name] == healthy[name]


def test_weights_are_looked_at_once_whatever_number_of_variants_names_them(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(20):
        store.add_variant(acme(f"v{number}"))
    looked: list[str] = []
    monkeypatch.setattr(listing, "state_of", lambda path: looked.append(path) or [1])
    rows = listing.list_rows(store.home, None)
    assert [row.error for row in rows] == [None] * 21
    assert sorted(looked) == sorted(
        str(path)
        for path in (store.model_path(store.get_model("base")), store.adapter_path(store.get_adapter("style")))
    )


@pytest.mark.parametrize("change", ["another link", "no link", "another record", "no record"])
def test_what_a_variant_names_by_path_is_looked_at_with_what_leads_there(
    store: Store, tmp_path: Path, capfd: pytest.CaptureFixture[str], change: str
) -> None:
    digest = store.get_model("base").digest
    for name, beside in (("one", digest), ("two", None)):
        (tmp_path / name).mkdir()
        file = write_adapter(tmp_path / name / "adapter.gguf")
        record = store.get_adapter("style").model_copy(update={"base": DeclaredBase(digest=beside)})
        (file.parent / "adapter.json").write_text(record.model_dump_json(by_alias=True))
    link = tmp_path / "current"
    link.symlink_to("one")
    spec = AdapterSpec(name="style", path=str(link / "adapter.gguf"))
    store.add_variant(acme("own", adapters=(spec,)))

    def trust() -> str | None:
        row = next(row for row in listed(capfd) if row["name"] == "own")
        return str(row["trust"]) if row["error"] is None else None

    assert [trust(), trust()] == ["user", "user"]
    assert (store.home / "cache/variant-list.json").exists()
    if "link" in change:
        link.unlink()
    if change == "another link":
        link.symlink_to("two")
    elif change == "another record":
        (tmp_path / "two/adapter.json").replace(tmp_path / "one/adapter.json")
    elif change == "no record":
        (tmp_path / "one/adapter.json").unlink()
    assert trust() == (None if change == "no link" else "user, unverified")


def test_a_package_that_is_gone_is_not_kept(store: Store, capfd: pytest.CaptureFixture[str]) -> None:
    store.add_variant(acme("packed", base={"package": "no_such_package:a.gguf"}, adapters=()))
    error = {row["name"]: row for row in listed(capfd)}["packed"]["error"]
    assert (error["code"], error["field"]) == ("config.package", "base.package")
    assert not (store.home / "cache/variant-list.json").exists()
