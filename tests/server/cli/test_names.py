"""A shell completes the names of what is installed; a broken store shows no error in the middle of a line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fake_backend import write_adapter
from store_tools import filled
from warmline.trust import TrustStore

Run = Callable[..., Any]
DIGEST = "sha256:" + "ab" * 32


def complete(warmline: Run, line: str) -> set[str]:
    words = line.split(" ")
    asked = {"_WARMLINE_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    done = warmline(environment=asked)
    assert "Traceback" not in done.err
    return set(done.out.split())


@pytest.fixture
def store(home: Path, tmp_path: Path) -> Path:
    filled(home, tmp_path).add_adapter(write_adapter(tmp_path / "b.gguf", weights=b"\x02"), "strict", base="base")
    TrustStore(home / "trust.json").add("sha256:" + "cd" * 32, name="x", file="")
    (home / "crashes").mkdir()
    (home / "crashes/counts.json").write_text(json.dumps({DIGEST: {"crashes": 2, "name": "x", "last": ""}}))
    return home


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("warmline model show ", {"base"}),
        ("warmline model remove b", {"base"}),
        ("warmline adapter show st", {"style", "strict"}),
        ("warmline adapter show sty", {"style"}),
        ("warmline adapter add x --base ", {"base"}),
        ("warmline variant add v --adapter sty", {"style"}),
        ("warmline variant diff acme ", {"acme"}),
        ("warmline variant remove ", {"acme"}),
        ("warmline chat --variant a", {"acme"}),
        ("warmline complete --variant a", {"acme"}),
        ("warmline status --variant a", {"acme"}),
        ("warmline trust add --variant a", {"acme"}),
        ("warmline trust remove cd", {"cd" * 6}),
        ("warmline config get default", {"default-variant"}),
        ("warmline config set default-variant ", {"acme"}),
        ("warmline engine release ", {"ab" * 6}),
        ("warmline model show z", set()),
        ("warmline mod", {"model"}),
    ],
)
def test_names_are_completed(warmline: Run, store: Path, line: str, names: set[str]) -> None:
    assert complete(warmline, line) == names


def test_a_broken_store_completes_to_nothing(warmline: Run, store: Path) -> None:
    (store / "variants/llama/acme.json").write_text("{")
    (store / "crashes/counts.json").write_text("[")
    (store / "trust.json").write_text("{")
    assert complete(warmline, "warmline engine release ") == set()
    assert complete(warmline, "warmline variant diff ") == {"acme"}
