"""`warmline trust`: approvals are by digest, listed before they are given, and can be taken back."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from store_tools import filled
from warmline.digests import DigestCache
from warmline.trust import TrustStore
from warmline_server.approval import taken_back

Run = Callable[..., Any]


@pytest.fixture
def project(tmp_path: Path, examples: Path) -> Path:
    """A copy of the example workspace that a test may change."""
    return Path(shutil.copytree(examples, tmp_path / "project"))


def approved(warmline: Run) -> list[str]:
    return [entry["digest"] for entry in warmline("trust", "list", "--json").json]


def test_a_file_is_approved_by_its_bytes(warmline: Run, project: Path) -> None:
    adapter = project / "adapters" / "acme-style" / "adapter.gguf"
    digest = DigestCache().digest(adapter)
    done = warmline("trust", "add", adapter)
    assert done.code == 0
    assert digest in done.out
    entries = warmline("trust", "list", "--json").json
    assert [(entry["digest"], entry["name"]) for entry in entries] == [(digest, "acme-style")]
    adapter.write_bytes(adapter.read_bytes() + b"\0")
    assert warmline("trust", "remove", adapter, "--json").json["error"]["code"] == "trust.unknown"
    assert approved(warmline) == [digest]


def test_a_workspace_is_approved_with_a_list_of_what_it_brings(warmline: Run, project: Path) -> None:
    done = warmline("trust", "add", "--workspace", cwd=project)
    assert done.code == 0
    digest = json.loads((project / "adapters/acme-style/adapter.json").read_text())["digest"]
    assert digest in done.out
    assert "acme-style" in done.out
    # Every variant's, though acme alone is selected; the base comes from a package.
    entries = warmline("trust", "list", "--json").json
    assert {entry["name"] for entry in entries} == {"acme-style", "fim-python"}
    assert all(entry["digest"] in done.out for entry in entries)


def test_one_variant_is_approved_alone(warmline: Run, project: Path) -> None:
    again = warmline("trust", "add", "--workspace", "--variant", "fim-python", "--json", cwd=project)
    assert [entry["name"] for entry in again.json] == ["fim-python"]
    assert len(approved(warmline)) == 1


def test_another_variant_that_is_broken_is_left_out_and_told(warmline: Run, project: Path) -> None:
    (project / "adapters/fim-python/adapter.gguf").unlink()
    done = warmline("trust", "add", "--workspace", cwd=project)
    assert done.code == 0
    assert "Left out: variant fim-python" in done.err
    assert [entry["name"] for entry in warmline("trust", "list", "--json").json] == ["acme-style"]


@pytest.mark.parametrize("stated", ["in the variant", "in its record"])
def test_a_workspace_whose_file_was_changed_is_not_approved(warmline: Run, project: Path, stated: str) -> None:
    adapter = project / "adapters" / "acme-style" / "adapter.gguf"
    if stated == "in its record":
        variant = project / ".warmline" / "variants" / "acme.json"
        content = json.loads(variant.read_text())
        del content["adapters"][0]["digest"]
        variant.write_text(json.dumps(content))
    adapter.write_bytes(adapter.read_bytes() + b"\0")
    error = warmline("trust", "add", "--workspace", "--json", cwd=project).json["error"]
    # The field is one that is there.
    field = {"in the variant": "adapters[0].digest", "in its record": "adapters[0].path"}[stated]
    assert (error["code"], error["field"]) == ("artifact.digest", field)
    assert ("record" in error["remedy"]) == (stated == "in its record")
    assert approved(warmline) == []


def test_a_variant_that_brings_nothing_needs_no_approval(warmline: Run, project: Path) -> None:
    done = warmline("trust", "add", "--workspace", "--variant", "base", "--json", cwd=project)
    assert (done.code, done.json) == (0, [])


def test_an_approval_is_taken_back_by_its_first_digits(warmline: Run) -> None:
    digests = ["sha256:" + "a" * 63 + end for end in "01"]
    for digest in digests:
        assert warmline("trust", "add", digest).code == 0
    assert warmline("trust", "remove", "a" * 12, "--json").json["error"]["code"] == "trust.ambiguous"
    assert warmline("trust", "remove", digests[0], "--json").json == {"removed": digests[0], "installed": []}
    assert warmline("trust", "remove", "a" * 12).code == 0
    assert approved(warmline) == []


def test_taking_back_what_is_installed_says_who_goes_on_using_it(warmline: Run, home: Path, tmp_path: Path) -> None:
    """Installing was the user's own choice: only workspaces are asked again, and nowhere is it shown as approved."""
    store = filled(home, tmp_path)
    digest = store.get_adapter("style").digest
    done = warmline("trust", "remove", digest)
    assert "adapter llama/style, used by llama/acme" in done.err
    assert "warmline variant remove llama/acme; warmline adapter remove llama/style" in done.err
    (row,) = warmline("variant", "list", "--json").json
    assert (row["trust"], row["error"]) == ("user, unverified, approval taken back", None)
    assert warmline("trust", "add", digest).code == 0
    assert warmline("trust", "remove", digest, "--json").json["installed"] == [
        {"kind": "adapter", "name": "style", "backend": "llama", "variants": ["llama/acme"]}
    ]
    resolved = store.resolve("acme")
    assert taken_back(resolved, TrustStore(home / "trust.json").approved) == ["style"]
    assert warmline("variant", "remove", "acme").code == warmline("adapter", "remove", "style").code == 0
    assert digest not in [each["digest"] for each in warmline("trust", "list", "--json").json]


@pytest.mark.parametrize("target", ["sha256:123", "no-such-file.gguf", "/"])
def test_what_is_neither_a_digest_nor_a_file(warmline: Run, target: str) -> None:
    done = warmline("trust", "add", target, "--json")
    assert done.code == 1
    assert done.json["error"]["remedy"]


def test_a_damaged_store_is_reported_and_kept(warmline: Run, home: Path) -> None:
    (home / "trust.json").write_text("{")
    error = warmline("trust", "add", "sha256:" + "a" * 64, "--json").json["error"]
    assert error["code"] == "trust.store"
    assert (home / "trust.json").read_text() == "{"


@pytest.mark.model
def test_approval_opens_the_way_and_removal_closes_it(warmline: Run, project: Path) -> None:
    place = "ledger.py:22:14"
    assert warmline("complete", place, "--json", cwd=project).json["error"]["code"] == "trust.unapproved"
    message = warmline("complete", place, cwd=project).err
    assert re.search(r"error the adapter `acme-style` \([0-9a-f]{12}\) is not approved", message)
    assert "If you trust where it came from: warmline trust add --workspace\n" in re.sub(r" +\n", "\n", message)
    other = warmline("status", "--variant", "fim-python", "--json", project).json["error"]
    assert other["remedy"].endswith(f"warmline trust add --workspace {project} --variant fim-python")
    approved = warmline("trust", "add", "--workspace", "--json", cwd=project).json
    digests = {entry["name"]: entry["digest"] for entry in approved}
    assert set(digests) == {"acme-style", "fim-python"}  # of all the workspace's variants
    digest = digests["acme-style"]
    assert warmline("complete", place, "--json", cwd=project).code == 0
    assert warmline("trust", "remove", digest).code == 0
    assert warmline("complete", place, "--json", cwd=project).json["error"]["code"] == "trust.unapproved"
