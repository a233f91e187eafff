"""`warmline eval` and `warmline certify` without a model: what is refused before anything is loaded."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from certificate_tools import paper
from store_tools import check
from warmline.certificate_store import Certificates
from warmline.registry import Store

Run = Callable[..., Any]
HEADER = {"schema": 1, "name": "ours", "kind": "style", "thresholds": [{"metric": "shown", "at_least": 0.5}]}
TASK = {"id": "one", "before": "def f(", "after": "def f(a):"}


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A workspace with one variant, of which nothing is ever loaded here."""
    folder = tmp_path / "workspace"
    variants = folder / ".warmline" / "variants"
    variants.mkdir(parents=True)
    (folder / "base.gguf").write_bytes(b"never read")
    (folder / ".warmline" / "config.json").write_text('{"variant": "acme"}')
    file = {"name": "acme", "base": {"path": "../../base.gguf"}}
    (variants / "acme.json").write_text(json.dumps(file))
    file = file | {"name": "claims", "profile": {"claims": ["completion"]}}
    (variants / "claims.json").write_text(json.dumps(file))
    return folder


def suite(folder: Path, *lines: Any) -> Path:
    path = folder / "ours.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def refused(done: Any, code: str) -> dict[str, Any]:
    assert done.code == 1, (done.out, done.err)
    error: dict[str, Any] = done.json["error"]
    assert error["code"] == code, error
    assert error["remedy"]
    return error


def test_bad_suites_are_refused_before_anything_is_loaded(warmline: Run, workspace: Path) -> None:
    def run(*arguments: str | Path) -> Any:
        return warmline("eval", "acme", "--json", *arguments, cwd=workspace)

    refused(run("--suite", "nothing"), "evaluation.suite")
    error = refused(run("--suite", suite(workspace, HEADER, TASK, {"id": "two"})), "evaluation.line")
    assert (error["file"], error["field"]) == (str(workspace / "ours.jsonl"), "line 3: before")
    refused(run("--suite", suite(workspace, HEADER | {"schema": 9})), "evaluation.schema")
    refused(run("--suite", "holes"), "evaluation.folder")
    refused(run("--suite", "humaneval-infill"), "evaluation.run_code")
    assert run().code == run("--suite", "style", "--folder", ".").code == 2


def test_what_cannot_be_certified_is_refused(warmline: Run, workspace: Path, home: Path) -> None:
    def run(*arguments: str | Path) -> Any:
        return warmline("certify", "--json", *arguments, cwd=workspace)

    assert refused(run("acme"), "certificate.claims")["field"] == "profile.claims"
    refused(run("claims"), "evaluation.folder")  # `holes` are cut from code
    refused(run("claims", "--suite", "smoke"), "evaluation.folder")
    refused(run("claims", "--suite", "smoke", "--suite", "style"), "certificate.suite")
    bare = {key: value for key, value in HEADER.items() if key != "thresholds"}
    refused(run("claims", "--suite", suite(workspace, bare, TASK)), "certificate.thresholds")
    refused(run("claims", "--suite", "style", "--check"), "certificate.none")
    Certificates(home).put(paper("sha256:" + "1" * 64, name="claims"))
    refused(run("claims", "--suite", "style", "--check"), "certificate.suite")  # of other tasks than this one
    (workspace / "last.json").write_text("{}")
    refused(run("claims", "--suite", "style", "--check", "--last", "last.json"), "config.field")
    check(Store(home))


def test_a_list_says_how_each_variant_stands(warmline: Run, workspace: Path, home: Path) -> None:
    done = warmline("variant", "list", "--json", cwd=workspace)
    assert {row["name"]: row["certificate"] for row in done.json} == {"acme": "none", "claims": "none"}
    Certificates(home).put(paper("sha256:" + "1" * 64, name="claims"))
    done = warmline("variant", "list", "--json", cwd=workspace)
    found = {row["name"]: row["certificate"] for row in done.json}
    assert found["acme"] == "none"
    assert found["claims"].startswith("void: ")  # of other bytes than these
    assert "base" in found["claims"]
    assert "certificate" in warmline("variant", "list", cwd=workspace).out


def test_the_schemas_are_printed(warmline: Run) -> None:
    assert warmline("schema", "certificate").json["properties"]["seal"]
    assert {"Header", "Style", "ToolUse"} <= set(warmline("schema", "suite").json["$defs"])
