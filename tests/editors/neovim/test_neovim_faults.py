"""Whatever goes wrong, the statusline says so, one message says what to do, and nothing freezes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from neovim_editor import HERE, Neovim, Workspace

Start = Callable[..., Neovim]
QUICK = "require('warmline.server').timing.first_pause = 20"


def scripted(**script: Any) -> dict[str, Any]:
    return {"cmd": [sys.executable, str(HERE / "scripted_server.py"), json.dumps(script)]}


def test_no_server_on_the_path(neovim: Start, workspace: Workspace, home: Path) -> None:
    editor = neovim(workspace.root, home, "ledger.py", {"cmd": ["warmline", "lsp"]}, PATH="/nowhere")
    editor.status("^no server$")
    told = editor.said("`warmline` is not there")
    assert told.endswith(":Warmline restart")
    editor.press("GAx")
    editor.command("edit words.py")
    assert editor.messages == [told]
    assert "Install it" in editor.float()
    editor.command("Warmline chat hello")
    editor.until(lambda: len(editor.messages) == 2, "what the chat says")
    editor.command("Warmline doctor")
    editor.until(lambda: ":checkhealth warmline" in editor.messages[-1], "what doctor says")


@pytest.mark.parametrize(
    ("info", "says"),
    [
        ({"name": "warmline", "version": "0.0.9"}, "too old (version 0.0.9; needs 0.1.0)"),
        ({"name": "pyright", "version": "9.9"}, "too old (it is another program; needs"),
        ({}, "too old (it is another program; needs"),
    ],
)
def test_a_server_that_is_too_old(
    neovim: Start, workspace: Workspace, home: Path, info: dict[str, str], says: str
) -> None:
    editor = neovim(workspace.root, home, "ledger.py", scripted(info=info))
    editor.status("^server too old$")
    assert says in editor.float()
    editor.press("GAx")
    editor.command("edit words.py")
    assert editor.statusline == "server too old"
    assert len(editor.messages) == 1


def test_a_server_that_does_not_stay(neovim: Start, workspace: Workspace, home: Path) -> None:
    options = {"cmd": ["sh", "-c", "exit 3"]}
    editor = neovim(workspace.root, home, "ledger.py", options, WARMLINE_BEFORE=QUICK)
    editor.status("^server stopped$")
    first, last = editor.messages
    assert "the server ended (exit code 3)" in first
    assert "the server does not stay (exit code 3)" in last and ":Warmline log says why" in last
    assert ":Warmline restart" in editor.float()


def test_a_server_that_says_nothing(neovim: Start, workspace: Workspace, home: Path) -> None:
    before = QUICK + " require('warmline.server').timing.patience = 300"
    editor = neovim(workspace.root, home, "ledger.py", scripted(), WARMLINE_BEFORE=before)
    editor.said("the server ended \\(no answer\\)")


@pytest.mark.model
def test_a_server_that_is_killed_in_the_middle_of_typing(neovim: Start, workspace: Workspace, approved: Path) -> None:
    editor = neovim(workspace.root, approved, "ledger.py")
    editor.status("^acme: ")
    editor.press("GA")
    editor.suggested()
    editor.type("l")
    os.kill(editor.server_pids[0], signal.SIGKILL)
    editor.type("ed")
    editor.status("^restarting$")
    assert editor.ghost == ""
    told = editor.said("the server ended")
    editor.type("g")
    editor.status("^acme: ")
    assert len(editor.server_pids) == 2
    editor.type("e")
    editor.suggested()
    assert editor.lines[-1] == "def transfer(ledge"
    assert editor.messages == [told]


def test_no_variant(neovim: Start, tmp_path: Path, home: Path) -> None:
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "a.py").write_text("x = ")
    editor = neovim(tmp_path / "plain", home, "a.py")
    editor.status("^no variant$")
    editor.press("GAx")
    assert "none: no workspace selects one" in editor.float()
    assert editor.messages == []


@pytest.mark.model
def test_what_a_workspace_brings_is_asked_about(neovim: Start, workspace: Workspace, home: Path) -> None:
    editor = neovim(workspace.root, home, "ledger.py")
    editor.status("^acme: untrusted, :Warmline trust$")
    told = editor.said("brings a file")
    assert told.endswith(":Warmline trust asks") and len(told) < 120
    editor.press("GA")
    assert editor.lua("_G.questions") == []  # nothing pops up in the middle of typing
    editor.lua("vim.cmd('Warmline trust') or true")
    editor.said("nothing was approved")
    [question] = editor.lua("_G.questions")
    assert "acme-style ba7a4e56a839" in question["prompt"] and question["labels"] == ["Approve", "Not now"]
    editor.run("_G.answer = 'Approve' vim.cmd('Warmline trust')")
    editor.said("1 approved")
    editor.status("^acme: (cold|warm)$")
    editor.type("s")
    editor.suggested()


def test_an_engine_that_cannot_be_started(neovim: Start, workspace: Workspace, home: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    env = {"WARMLINE_RUNTIME_DIR": str(tmp_path / "file" / "run")}
    editor = neovim(workspace.root, home, "ledger.py", **env)
    editor.status("^acme: engine down$")
    told = editor.said("the engine is down")
    assert told.endswith(":Warmline status says more")
    assert "Error       backend.runtime_folder" in editor.float() and "Do  " in editor.float()
    editor.press("GAx")
    editor.command("doautocmd FocusGained")
    assert editor.messages == [told]


@pytest.mark.model
def test_twenty_switches_in_a_row(neovim: Start, workspace: Workspace, approved: Path) -> None:
    editor = neovim(workspace.root, approved, "ledger.py")
    editor.status("^acme: ")
    names = ["base", "fim-python", "acme"] * 6 + ["acme", "fim-python"]
    editor.run("".join(f"vim.cmd('Warmline variant {name}') " for name in names))
    editor.said("^Warmline: fim-python answers here$")
    editor.status("^fim-python: (cold|warm)$")
    assert workspace.selected == "fim-python"
    assert len([each for each in editor.messages if "answers here" in each]) == 1
    editor.press("GA")
    editor.until(lambda: editor.wire("textDocument/inlineCompletion"), "a question")
    assert "fim-python" in editor.float()


@pytest.mark.model
def test_two_windows_on_one_workspace(neovim: Start, workspace: Workspace, approved: Path) -> None:
    one, other = (neovim(workspace.root, approved, "ledger.py") for _ in range(2))
    one.status("^acme: ")
    other.status("^acme: ")
    one.command("Warmline variant base")
    one.status("^base: ")
    other.press("GA")
    other.status("^base: ")
    other.suggested()
    assert "Variant     base" in other.float()
    assert one.messages == ["Warmline: base answers here"] and other.messages == []


def test_a_workspace_that_cannot_be_written(
    neovim: Start, workspace: Workspace, approved: Path, tmp_path: Path
) -> None:
    script = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && cd "$0" && exec "$@"'
    unshare = ["unshare", "-rm", "sh", "-c", script, str(workspace.root)]
    if subprocess.run([*unshare, "sh", "-c", "! touch x"], capture_output=True, check=False).returncode:
        pytest.skip("this machine allows no read-only mount of one's own")
    editor = neovim(workspace.root, approved, "ledger.py", wrapped=unshare)
    editor.status("^acme: ")
    editor.command("Warmline variant base")
    editor.said("(?i)read-only|permission|cannot be written")
    assert workspace.selected == "acme"
    editor.status("^acme: ")
    assert "Variant     acme" in editor.float()


def test_files_of_other_machines_get_no_server(neovim: Start, workspace: Workspace, home: Path) -> None:
    editor = neovim(workspace.root, home)
    editor.run(
        "local b = vim.api.nvim_create_buf(true, false) vim.api.nvim_buf_set_name(b, 'ssh://host/a.py') "
        "vim.api.nvim_win_set_buf(0, b) vim.bo[b].filetype = 'python'"
    )
    editor.status("^not for ssh:$")
    assert "not for ssh:" in editor.float()
    editor.press("ix")
    assert editor.server_pids == [] and editor.messages == []


def test_names_and_messages_of_others_are_data(neovim: Start, workspace: Workspace, home: Path, tmp_path: Path) -> None:
    evil = f"%{{system('touch {tmp_path}/pwned')}}%#Error#\u001b[31m\u202e\nx"
    report = {"state": "ready", "variant": evil, "identity": "", "adapters": [], "suggestion": evil}
    says = [
        {"method": "warmline/status", "params": report},
        {"method": "window/showMessage", "params": {"type": 2, "message": evil * 40}},
    ]
    options = scripted(info={"name": "warmline", "version": "0.1.0"}, says=says)
    editor = neovim(workspace.root, home, "ledger.py", options)
    editor.status(r"^%\{system\('touch")
    [message] = editor.until(lambda: editor.messages, "the message")
    for text in (editor.statusline, message, editor.float().replace("\n", "")):
        assert not any(ord(each) < 32 or each in "\u202e\u007f" for each in text)
    assert len(message) < 120
    assert not (tmp_path / "pwned").exists()
