"""`warmline status` and `warmline variant list`: what would answer, and where it comes from."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]

KEYS = {"state", "variant", "identity", "base", "adapters", "backend", "context", "last"}


@pytest.fixture
def project(tmp_path: Path, examples: Path, warmline: Run) -> Path:
    """A copy of the example workspace, approved."""
    root = Path(shutil.copytree(examples, tmp_path / "project"))
    assert warmline("trust", "add", "--workspace", cwd=root).code == 0
    return root


@pytest.mark.model
def test_status_says_what_would_answer(warmline: Run, project: Path) -> None:
    done = warmline("status", "--json", project)
    assert done.code == 0, done.err
    status = done.json
    assert set(status) >= KEYS
    assert status["variant"] == "acme"
    assert status["identity"].startswith("sha256:")
    assert set(status["base"]) >= {"name", "digest"}
    (adapter,) = status["adapters"]
    assert set(adapter) >= {"name", "digest", "scale", "effective_scale", "trust"}
    assert (adapter["name"], adapter["scale"], adapter["effective_scale"]) == ("acme-style", "1", "2")
    assert adapter["verified"] is True
    assert set(status["backend"]) == {"name", "version"}
    assert status["context"] == {"n_ctx": 4096, "clamped": False}
    assert status["last"] is None
    assert status["error"] is None


@pytest.mark.model
@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_without_some_streams_the_engine_is_opened_all_the_same(entry: list[str], project: Path, closed: str) -> None:
    """The event loop's own descriptor must not get the number of a stream that is missing: protecting it ends it."""
    command = ["sh", "-c", f'exec "$@" {closed}', "sh", *entry, "status", "--json"]
    done = subprocess.run(command, cwd=project, input=b"", capture_output=True, timeout=200)
    assert (done.returncode, done.stderr) == (0, b"")
    if " >&-" not in f" {closed}":
        assert json.loads(done.stdout)["variant"] == "acme"


@pytest.mark.model
def test_status_for_people_names_every_part(warmline: Run, project: Path) -> None:
    done = warmline("status", cwd=project / "adapters")
    assert done.code == 0, done.err
    for part in ("acme", "smollm2-135m-instruct", "acme-style", "1 (effective 2)", "llama.cpp", "4096 tokens"):
        assert part in done.out
    assert re.search(r"^file +\.\./\.warmline/variants/acme\.json *$", done.out, re.MULTILINE)
    # The engine's own state, whoever it works for, and not this variant's.
    assert re.search(r"^engine +(empty|ready) *$", done.out, re.MULTILINE)
    assert "prefix only: this base has no fill-in-the-middle tokens" in done.out


@pytest.mark.model
def test_an_overridden_scale_is_another_identity(warmline: Run, project: Path) -> None:
    before = warmline("status", "--json", project).json
    (project / ".warmline/config.json").write_text('{"variant": "acme", "overrides": {"scales": {"acme-style": 0.5}}}')
    after = warmline("status", "--json", project).json
    assert after["adapters"][0]["effective_scale"] == "1"
    assert after["identity"] != before["identity"]
    # Asked for by name it is the variant as its file says.
    assert warmline("status", "--json", "--variant", "acme", project).json["identity"] == before["identity"]


def test_a_broken_variant_is_a_failed_state(warmline: Run, project: Path) -> None:
    (project / "adapters/acme-style/adapter.gguf").unlink()
    done = warmline("status", "--json", project)
    assert done.code == 1
    assert set(done.json) >= KEYS
    assert (done.json["state"], done.json["variant"], done.json["identity"]) == ("failed", "acme", None)
    assert done.json["error"]["code"] == "artifact.missing"


def test_no_workspace_is_a_failed_state(warmline: Run) -> None:
    done = warmline("status", "--json")
    assert done.code == 1
    assert (done.json["state"], done.json["error"]["code"]) == ("failed", "config.no_workspace")


def test_the_list_marks_the_selected_variant(warmline: Run, project: Path) -> None:
    rows = warmline("variant", "list", project, "--json").json
    assert [row["name"] for row in rows] == ["acme", "base", "fim-python"]
    assert [row["name"] for row in rows if row["selected"]] == ["acme"]
    assert {row["from"] for row in rows} == {"workspace"}


def test_the_list_helps_while_the_workspace_file_is_broken(warmline: Run, project: Path) -> None:
    (project / ".warmline/config.json").write_text("{")
    done = warmline("variant", "list", project)
    assert done.code == 0
    assert "fim-python" in done.out
