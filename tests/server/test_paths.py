"""Paths as people read them; programs get absolute ones."""

from __future__ import annotations

from pathlib import Path

import pytest
from warmline_server.paths import short_path, short_paths

ROOT = Path("/srv/ada/project")


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/srv/ada")


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("/srv/ada/project/.warmline/config.json", ".warmline/config.json"),
        ("/srv/ada/project", "."),
        ("/srv/ada/project2/x.json", "~/project2/x.json"),
        ("/srv/ada", "~"),
        ("/srv/adam/x", "/srv/adam/x"),
        ("/srv/x", "/srv/x"),
        ("relative/x", "relative/x"),
        ("-", "-"),
    ],
)
def test_a_path(path: str, shown: str) -> None:
    assert short_path(path, ROOT) == shown


def test_paths_in_a_sentence() -> None:
    text = "`/srv/ada/project/a b.gguf`: not /srv/ada/x, /mnt/srv/ada/x or x/srv/ada/y (/srv/ada/project/c)"
    assert short_paths(text, ROOT) == "`a b.gguf`: not ~/x, /mnt/srv/ada/x or x/srv/ada/y (c)"


def test_the_top_of_the_file_system_stands_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/")
    assert short_path("/srv/x", Path("/")) == "/srv/x"
    assert short_paths("see /srv/x", Path("/")) == "see /srv/x"
