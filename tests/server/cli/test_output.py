"""Text from files, models and names is data: it neither drives the terminal nor is read as markup."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from warmline_server.cli.output import one_line, visible

Run = Callable[..., Any]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("def f():\n\treturn 1", "def f():\n\treturn 1"),
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        ("over\rwritten", "over\\x0dwritten"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("\x9b2J", "\\x9b2J"),
        ("[bold]not markup[/bold]", "[bold]not markup[/bold]"),
        ("\ud800 alone", "\\ud800 alone"),
        ("naïve 😀 変数", "naïve 😀 変数"),
    ],
)
def test_visible(text: str, shown: str) -> None:
    assert visible(text) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("ac\u200bme", "ac\\u200bme"),
        ("\ufeffacme", "\\ufeffacme"),
        ("a\u00adb\u2060c\u3164", "a\\xadb\\u2060c\\u3164"),
        ("a\U000e0041", "a\\U000e0041"),
        ("a\n\tb\x1b", "a\\n\\tb\\x1b"),
        ("naïve 😀 ❤️ 変数", "naïve 😀 ❤️ 変数"),
    ],
)
def test_what_cannot_be_seen_is_shown_in_names_and_metadata(text: str, shown: str) -> None:
    assert one_line(text) == shown


@given(st.text())
def test_one_line_is_one_printable_line(text: str) -> None:
    shown = one_line(text)
    shown.encode("utf-8")  # has no lone surrogates
    assert not any(ord(character) < 32 or 127 <= ord(character) < 160 for character in shown)


def test_an_error_shows_a_hostile_name_as_data(warmline: Run, tmp_path: Path) -> None:
    name = "\x1b]0;owned\x07[red]x[/red].py"
    done = warmline("complete", f"{name}:1:1")
    assert done.code == 1
    assert "\x1b" not in done.err
    assert "[red]x[/red].py" in done.err.replace("\n", "")


def test_a_hostile_description_of_a_variant_is_data(warmline: Run, home: Path) -> None:
    folder = home / "variants" / "llama"
    folder.mkdir(parents=True)
    (folder / "v.json").write_text(json.dumps({"name": "v", "base": {"path": "\x1b[2J[red]gone.gguf"}}))
    done = warmline("status", "--variant", "v")
    assert done.code == 1
    assert "\x1b" not in done.err
    assert "[red]gone.gguf" in done.err
