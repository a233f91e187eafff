"""`warmline complete` with the real model, and how it reads places and documents."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer
from warmline.errors import WarmlineError
from warmline_server.cli.document import Place, as_document, parse_place

Run = Callable[..., Any]

KEYS = {"variant", "identity", "text", "reason", "fim", "prompt_tokens", "reused_tokens", "ttft_ms", "total_ms"}


@pytest.fixture
def store(home: Path, examples: Path) -> Path:
    """The examples' variants in the user's own store, where nothing needs approval; small, to be quick."""
    folder = home / "variants" / "llama"
    folder.mkdir(parents=True)
    for file in (examples / ".warmline" / "variants").glob("*.json"):
        variant = json.loads(file.read_text())
        for adapter in variant.get("adapters", []):
            adapter["path"] = str(file.parent / adapter["path"])
        variant.setdefault("profile", {}).update(max_tokens=40, n_ctx=512)
        (folder / file.name).write_text(json.dumps(variant))
    return home


@pytest.fixture
def code(examples: Path, tmp_path: Path) -> Path:
    """The examples' code outside their workspace, so that the store's variants are found."""
    folder = tmp_path / "code"
    folder.mkdir()
    for file in examples.glob("*.py"):
        shutil.copy(file, folder)
    return folder


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("a.py:1:1", Place("a.py", 1, 1)),
        ("C:\\src\\a.py:12:34", Place("C:\\src\\a.py", 12, 34)),
        ("a:3:4:5", Place("a:3", 4, 5)),
        ("-:2:7", Place("-", 2, 7)),
        ("/x/ü 😀.py:10:1", Place("/x/ü 😀.py", 10, 1)),
    ],
)
def test_a_place(text: str, place: Place) -> None:
    assert parse_place(text) == place


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a",
        "a:1",
        "a:1:",
        "a::1",
        ":1:1",
        "a:0:1",
        "a:1:0",
        "a:-1:1",
        "a:1:²",
        "a:1:x",
        "a:1:" + "0" * 11 + "1" * 5000,
    ],
)
def test_no_place(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        parse_place(text)


@pytest.mark.parametrize(
    ("data", "place", "cursor"),
    [
        ("ab\ncd", Place("f", 2, 2), (1, 1)),
        ("ab\ncd", Place("f", 1, 3), (0, 2)),
        ("ab\r\ncd\r\n", Place("f", 1, 3), (0, 2)),
        ("ab\r\n", Place("f", 2, 1), (1, 0)),
        ("a\x0cb\nc", Place("f", 2, 1), (1, 0)),
        ("😀😀x", Place("f", 1, 3), (0, 2)),
        ("\ufeffab", Place("f", 1, 2), (0, 1)),
        ("", Place("f", 1, 1), (0, 0)),
    ],
    ids=["plain", "at the end", "CRLF, at the end", "after the last", "form feed", "astral", "BOM", "empty"],
)
def test_a_cursor_counts_characters_from_1(data: str, place: Place, cursor: tuple[int, int]) -> None:
    assert as_document(None, data.encode()).cursor(place) == cursor


@pytest.mark.parametrize("place", [Place("f", 1, 4), Place("f", 3, 1)], ids=["column", "line"])
def test_there_is_no_such_place(place: Place) -> None:
    with pytest.raises(WarmlineError) as caught:
        as_document(None, b"ab\r\ncd").cursor(place)
    assert (caught.value.code, caught.value.file) == ("document.line", "f")


def test_typing_changes_the_text_at_the_cursor() -> None:
    document = as_document(None, b"one\r\ntwo\r\nthree").with_text(1, 1, "XY")
    assert document.snapshot.text == "one\r\ntXYwo\r\nthree"


@pytest.mark.model
def test_the_variant_decides_the_text(warmline: Run, store: Path, code: Path) -> None:
    place = code / "ledger.py:22:14"
    answers = {name: warmline("complete", place, "--variant", name, "--json") for name in ("base", "acme")}
    for name, answer in answers.items():
        assert answer.code == 0, answer.err
        assert set(answer.json) >= KEYS
        assert answer.json["variant"] == name
        assert answer.json["reused_tokens"] == 0
        assert answer.json["prompt_tokens"] > 100
        assert answer.json["ttft_ms"] <= answer.json["total_ms"]
    base, acme = (answers[name].json for name in ("base", "acme"))
    assert acme["text"].startswith("ledger: Ledger, account_id: str, amount_cents: int)")
    assert base["text"] != acme["text"]
    assert base["identity"] != acme["identity"]


@pytest.mark.model
def test_a_hole_is_filled_from_both_sides(warmline: Run, store: Path, code: Path) -> None:
    answer = warmline("complete", code / "words.py:20:5", "--variant", "fim-python", "--json").json
    # The name stands only in what follows the cursor.
    assert answer["text"] == "counts = {}"
    assert answer["fim"].startswith("suffix first: fill-in-the-middle tokens named by the profile")


@pytest.mark.model
def test_stdout_is_the_suggestion_alone(warmline: Run, store: Path, code: Path) -> None:
    done = warmline("complete", "words.py:20:5", "--variant", "fim-python", cwd=code)
    assert (done.code, done.out) == (0, "counts = {}\n")
    assert "prompt tokens reused" in done.err


@pytest.mark.model
def test_stdin_is_completed_in_its_workspace(warmline: Run, store: Path, code: Path, tmp_path: Path) -> None:
    (tmp_path / ".warmline").mkdir()
    (tmp_path / ".warmline" / "config.json").write_text('{"variant": "acme"}')
    answer = warmline("complete", "-:22:14", "--json", cwd=tmp_path, stdin=(code / "ledger.py").read_bytes())
    assert answer.json["variant"] == "acme"
    assert answer.json["text"].startswith("ledger: Ledger")


@pytest.mark.model
def test_a_document_with_crlf_gets_crlf(warmline: Run, store: Path, code: Path) -> None:
    text = (code / "ledger.py").read_text().replace("\n", "\r\n")
    answer = warmline("complete", "-:22:14", "--variant", "acme", "--json", stdin=text).json
    assert "\r\n" in answer["text"]
    assert "\n" not in answer["text"].replace("\r\n", "")


@pytest.mark.model
@pytest.mark.parametrize(
    ("data", "place"),
    [
        (b"", "-:1:1"),
        (bytes(range(128)) * 50, "-:2:1"),
        (b"x = 1\n" * 900_000, "-:450000:3"),
        ("s = '😀\x0c\u2028'\nt = ".encode(), "-:2:5"),
        (b"y" * 5_000_000, "-:1:2500000"),
    ],
    ids=["empty", "binary", "5 MB of lines", "astral and odd line ends", "5 MB in a line"],
)
def test_odd_documents_are_answered(warmline: Run, store: Path, data: bytes, place: str) -> None:
    done = warmline("complete", place, "--variant", "base", "--json", stdin=data)
    assert done.code in (0, 3), done.err
    assert set(done.json) >= KEYS
    assert (done.json["text"] is None) == (done.code == 3)
    assert done.json["text"] is not None or done.json["shown"]


@pytest.mark.parametrize("data", [b"\0" * 5000, b"x = 1\n" * 1000 + b"\0" * 2000], ids=["all", "at the cursor"])
def test_a_document_that_is_no_text_is_refused_as_in_an_editor(warmline: Run, store: Path, data: bytes) -> None:
    line = data.count(b"\n") + 1
    done = warmline("complete", f"-:{line}:5", "--variant", "base", "--json", stdin=data)
    assert (done.code, done.json["text"], done.json["shown"], done.json["reason"]) == (3, None, "binary", None)
    assert set(done.json) >= KEYS
    assert "binary" in warmline("complete", f"-:{line}:5", "--variant", "base", stdin=data).err


def test_no_text_of_a_secret_file_is_completed(warmline: Run, store: Path, tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("KEY=")
    (tmp_path / "harmless.txt").symlink_to(tmp_path / ".env")
    for name in (".env", "harmless.txt"):
        error = warmline("complete", f"{tmp_path / name}:1:1", "--variant", "base", "--json").json["error"]
        assert error["code"] == "config.secret"
        assert "secretPaths" in error["remedy"]


def test_an_unknown_variant_by_option_names_the_option(warmline: Run, store: Path) -> None:
    error = warmline("complete", "-:1:1", "--variant", "acne", "--json").json["error"]
    assert (error["code"], error["field"]) == ("variant.unknown", "--variant")
    assert "acme" in error["remedy"]


def test_no_workspace_and_no_variant(warmline: Run) -> None:
    error = warmline("complete", "-:1:1", "--json").json["error"]
    assert error["code"] == "config.no_workspace"
    assert "--variant" in error["remedy"]
