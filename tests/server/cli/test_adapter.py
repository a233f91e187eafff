"""`warmline adapter`: what training tools write comes in checked, keeps its label, and leaves when nothing needs it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fake_backend import write_adapter, write_base
from smollm2 import ADAPTERS, PACKAGE
from store_tools import filled, openvino_model, peft
from warmline.digests import DigestCache
from warmline.registry import Store

Run = Callable[..., Any]


@pytest.fixture
def based(warmline: Run, tmp_path: Path) -> Run:
    """A store with the base `base`."""
    assert warmline("model", "add", write_base(tmp_path / "base.gguf"), "--name", "base").code == 0
    return warmline


def test_without_a_digest_of_its_base_it_is_unverified_wherever_it_is_shown(based: Run, tmp_path: Path) -> None:
    """Row 11: names alone prove nothing."""
    file = write_adapter(tmp_path / "style.gguf")
    done = based("adapter", "add", file, "--base", "base")
    assert done.code == 0
    assert "nverified" in done.err
    (row,) = based("adapter", "list", "--json").json
    assert (row["name"], row["trust"], row["verified"]) == ("style", "user", False)
    assert "user, unverified" in based("adapter", "list").out
    assert "user, unverified" in based("adapter", "show", "style").out
    assert based("variant", "add", "v", "--base", "base", "--adapter", "style").code == 0
    assert "user, unverified" in based("variant", "list").out
    doctor = based("doctor", "--json").json["checks"]
    (check,) = [each for each in doctor if each["check"] == "variant llama/v"]
    assert (check["level"], check["detail"]["unverified"]) == ("warn", ["style"])


def test_a_base_of_the_other_backend_is_named_as_such(warmline: Run, home: Path, tmp_path: Path) -> None:
    Store(home).add_model(openvino_model(tmp_path / "ov-model"), "ov", "openvino")
    file = write_adapter(tmp_path / "style.gguf")
    error = warmline("adapter", "add", file, "--base", "ov", "--json").json["error"]
    assert error["code"] == "artifact.backend"
    assert "installed for the backend `openvino`" in error["message"]
    assert "PEFT folder" in error["remedy"]
    folder = peft(tmp_path / "folder")
    error = warmline("adapter", "add", folder, "--base", "ov", "--backend", "llama", "--json").json["error"]
    assert (error["code"], "`openvino/ov` is there" in error["remedy"]) == ("store.unknown_model", True)


def test_a_record_that_names_the_bases_digest_verifies_it(based: Run, tmp_path: Path) -> None:
    folder = tmp_path / "acme"
    folder.mkdir()
    file = write_adapter(folder / "adapter.gguf")
    digest = DigestCache().digest(tmp_path / "base.gguf")
    record = {"name": "x", "digest": DigestCache().digest(file), "size": 1, "rank": 4, "base": {"digest": digest}}
    (folder / "adapter.json").write_text(json.dumps(record))
    added = based("adapter", "add", file, "--base", "base", "--json").json
    assert (added["name"], added["verified"]) == ("acme", True)
    record["base"] = {"name": "other", "digest": "sha256:" + "0" * 64}
    (folder / "adapter.json").write_text(json.dumps(record))
    error = based("adapter", "add", file, "--base", "base", "--name", "b", "--json").json["error"]
    assert error["code"] == "artifact.adapter.base"


def test_it_is_the_stores_own_and_is_stored_once(based: Run, home: Path, tmp_path: Path) -> None:
    file = write_adapter(tmp_path / "style.gguf")
    for name in ("a", "b"):
        assert based("adapter", "add", file, "--base", "base", "--name", name).code == 0
    file.unlink()
    assert based("adapter", "verify", "a", "--json").json["ok"] is True
    assert len(list((home / "blobs/sha256").iterdir())) == 1
    assert based("adapter", "remove", "a").code == 0
    assert based("adapter", "verify", "b").code == 0
    assert based("adapter", "remove", "b").code == 0
    assert list((home / "blobs/sha256").iterdir()) == []


def test_installing_is_approval_and_removing_takes_it_back(based: Run, tmp_path: Path) -> None:
    file = write_adapter(tmp_path / "style.gguf")
    digest = based("adapter", "add", file, "--base", "base", "--json").json["digest"]
    assert digest in [each["digest"] for each in based("trust", "list", "--json").json]
    assert based("adapter", "remove", "style").code == 0
    assert digest not in [each["digest"] for each in based("trust", "list", "--json").json]


def test_a_changed_blob_is_noticed(based: Run, home: Path, tmp_path: Path) -> None:
    assert based("adapter", "add", write_adapter(tmp_path / "style.gguf"), "--base", "base").code == 0
    (blob,) = (home / "blobs/sha256").iterdir()
    data = blob.read_bytes()
    blob.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    found = based("adapter", "verify", "style", "--json")
    assert (found.code, found.json["error"]["code"]) == (1, "artifact.digest")
    assert based("doctor", "--deep", "--json").json["counts"]["fail"] >= 1


def test_a_needed_adapter_stays(warmline: Run, home: Path, tmp_path: Path) -> None:
    filled(home, tmp_path)
    error = warmline("adapter", "remove", "style", "--json").json["error"]
    assert error["code"] == "store.needed"
    assert "llama/acme" in error["message"]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["nowhere", "--base", "base"], "artifact.missing"),
        (["base.gguf", "--base", "base"], "artifact."),
        (["style.gguf", "--base", "other"], "store.unknown_model"),
        (["style.gguf", "--base", "base", "--name", "../x"], "store.name"),
        (["style.gguf", "--base", "../base"], "store.unknown_model"),
    ],
    ids=["missing", "a base", "unknown base", "name", "base's name"],
)
def test_what_cannot_be_installed(based: Run, home: Path, tmp_path: Path, arguments: list[str], code: str) -> None:
    write_adapter(tmp_path / "style.gguf")
    done = based("adapter", "add", *arguments, "--json", cwd=tmp_path)
    assert (done.code, done.json["error"]["code"].startswith(code)) == (1, True), done.json
    assert list((home / "adapters").rglob("record.json")) == []


@pytest.mark.model
def test_a_peft_folder_is_converted_here(warmline: Run) -> None:
    assert warmline("model", "add", PACKAGE, "--name", "smollm2").code == 0
    added = warmline("adapter", "add", ADAPTERS / "acme-style", "--base", "smollm2", "--json")
    assert added.code == 0, added.err
    assert (added.json["name"], added.json["format"], added.json["rank"]) == ("acme-style", "gguf", 4)
    assert added.json["source_digest"] != added.json["digest"]
    text = warmline("adapter", "show", "acme-style").out
    for part in ("factor at scale 1", "converted from", "60 weights", "no variant"):
        assert part in text


@pytest.mark.parametrize(
    ("arguments", "installed"),
    [
        (["peft", "--base", "openvino/exported"], "openvino/style"),
        (["peft", "--base", "exported"], "openvino/style"),
        (["peft", "--base", "openvino/base"], "openvino/style"),
        (["peft", "--base", "base", "--backend", "openvino"], "openvino/style"),
        (["style.gguf", "--base", "base"], "llama/style"),
    ],
)
def test_the_backend_is_that_of_the_base(
    home: Path, tmp_path: Path, warmline: Run, arguments: list[str], installed: str
) -> None:
    store = Store(home)
    store.add_model(write_base(tmp_path / "base.gguf"), "base")
    for name in ("exported", "base"):
        store.add_model(openvino_model(tmp_path / name), name, "openvino")
    peft(tmp_path / "peft")
    write_adapter(tmp_path / "style.gguf")
    done = warmline("adapter", "add", *arguments, "--name", "style", cwd=tmp_path)
    assert done.code == 0, done.err
    assert f"Installed {installed}:" in done.err
