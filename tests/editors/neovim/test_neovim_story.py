"""A person's way through the plugin, in a real Neovim with the real server and a real model."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from neovim_editor import Neovim, Workspace

pytestmark = pytest.mark.model

Start = Callable[..., Neovim]
INLINE = "textDocument/inlineCompletion"
STARTED = r"^## acme \(sha256:[0-9a-f]{12}\)$"


STOPPING = """
  vim.api.nvim_buf_attach(0, false, { on_lines = function()
    local lines, answers = vim.api.nvim_buf_get_lines(0, 0, -1, false), 0
    for _, line in ipairs(lines) do
      answers = answers + (line:match('^## acme') and 1 or 0)
    end
    if answers == 2 and lines[#lines] ~= '' then
      vim.schedule(function() vim.api.nvim_input('s') end)
      return true
    end
  end })
"""


@pytest.fixture
def editor(neovim: Start, workspace: Workspace, approved: Path) -> Neovim:
    """An editor with the example open, in which a suggestion is shown after `def transfer(`."""
    started = neovim(workspace.root, approved, "ledger.py")
    started.status("acme: ")
    started.press("GA")
    started.suggested(begins="ledger: Ledger")
    return started


def commands(editor: Neovim) -> list[str]:
    return [each["params"]["command"] for each in editor.wire("workspace/executeCommand")]


def test_all_of_a_suggestion(editor: Neovim) -> None:
    ghost, before = editor.ghost, editor.lines
    editor.press("<Tab>")
    editor.until(lambda: editor.lines != before, "the text")
    assert "\n".join(editor.lines).startswith("\n".join(before) + ghost)
    editor.until(lambda: "warmline.accepted" in commands(editor), "the acceptance")
    # One step of undo takes back the suggestion, and nothing else.
    editor.press("<C-\\><C-n>u")
    editor.until(lambda: editor.lines == before, "the undo")


def test_word_by_word_and_line_by_line(editor: Neovim) -> None:
    ghost, before = editor.ghost, editor.lines
    asked = len(editor.wire(INLINE))
    editor.press("<C-Right>")
    editor.until(lambda: editor.lines[-1] == before[-1] + "ledger", "a word")
    assert editor.ghost == ghost.removeprefix("ledger")
    editor.press("<C-Right>")
    editor.until(lambda: editor.lines[-1] == before[-1] + "ledger:", "a colon")
    editor.press("<C-End>")
    first, _, others = ghost.partition("\n")
    editor.until(lambda: editor.lines[-1] == before[-1] + first, "the line")
    if others:
        assert editor.ghost == "\n" + others
        editor.press("<C-End>")
        editor.until(lambda: editor.lines[-1] == others.partition("\n")[0], "the next line")
    # What was left stood there already: nothing was asked on the way.
    assert len(editor.wire(INLINE)) <= asked + (not others)
    editor.press("<C-\\><C-n>uu")
    editor.until(lambda: editor.lines[-1].startswith("def transfer(ledger"), "two of the steps to be undone")


def test_typing_along_asks_nothing(editor: Neovim) -> None:
    ghost = editor.ghost
    asked = len(editor.wire(INLINE))
    ahead = "ledger: "
    for at, key in enumerate(ahead, start=1):
        editor.type(key)
        assert editor.ghost == ghost[at:]
    assert len(editor.wire(INLINE)) == asked
    editor.type("x")  # no longer what was suggested
    editor.until(lambda: len(editor.wire(INLINE)) == asked + 1, "the next question")
    # The server is told of every key before it is asked.
    methods = [each.get("method") for each in editor.wire()]
    assert methods[-2:] == ["textDocument/didChange", INLINE]
    assert editor.wire("textDocument/didChange")[-1]["params"]["contentChanges"][-1]["text"].endswith("x")


def test_an_overtaken_question_is_cancelled(neovim: Start, workspace: Workspace, approved: Path) -> None:
    editor = neovim(workspace.root, approved, "ledger.py")
    editor.status("acme: ")
    editor.press("Go")
    for key in "x = [":
        editor.type(key)
    editor.suggested()
    asked = [each["id"] for each in editor.wire(INLINE)]
    answered = {each["id"] for each in editor.wire(way="<") if "id" in each}
    cancelled = {each["params"]["id"] for each in editor.wire("$/cancelRequest")}
    assert len(asked) >= 2
    assert set(asked) <= answered | cancelled
    assert cancelled <= set(asked[:-1])


def test_other_candidates_come_when_they_are_asked_for(editor: Neovim) -> None:
    first = editor.ghost
    editor.press("<M-n>")
    shown = editor.until(lambda: editor.ghost if re.search(r" 2/[23]$", editor.ghost) else "", "the second one")
    assert shown[:-4] != first
    kinds = [each["params"]["context"]["triggerKind"] for each in editor.wire(INLINE)]
    assert kinds in ([2, 1], [2, 1, 1])
    editor.press("<M-p>")
    editor.until(lambda: re.search(r" 1/[23]$", editor.ghost), "the first one again")
    assert editor.ghost[:-4] == first
    editor.press("<C-]>")
    editor.until(lambda: editor.ghost == "", "no ghost text")
    editor.press("<Tab>")  # nothing to accept: the key does what it always does
    editor.until(lambda: re.search(r"def transfer\(\s+$", editor.lines[-1]), "white space")


def test_paused_asks_nothing_and_resumes(editor: Neovim) -> None:
    editor.command("Warmline pause filetype")
    editor.status(r"^paused \(python\)$")
    assert editor.ghost == ""
    asked = len(editor.wire(INLINE))
    editor.type("s")
    assert len(editor.wire(INLINE)) == asked
    editor.command("Warmline resume")
    editor.status("^acme: ")
    editor.suggested()
    editor.run("require('warmline').toggle()")
    editor.status(r"^paused \(all\)$")


def test_another_variant_suggests_something_else_and_says_so(editor: Neovim, workspace: Workspace) -> None:
    as_acme = editor.ghost
    provenance = editor.float()
    for part in (
        "Variant     acme",
        "Adapter 1   acme-style · scale 1 · trust: user",
        "sha256:ba7a4e56a839",
        "llama.cpp",
    ):
        assert part in provenance
    names = editor.lua("vim.fn.getcompletion('Warmline variant ', 'cmdline')")
    assert names == ["acme", "base", "fim-python"]
    editor.command("Warmline variant base")
    editor.said("base answers here")
    editor.status("^base: ")
    assert workspace.selected == "base"
    editor.press("<C-\\><C-n>A")
    as_base = editor.until(lambda: editor.ghost if editor.ghost not in ("", as_acme) else "", "another suggestion")
    assert as_base != as_acme
    provenance = editor.float()
    assert "Variant     base" in provenance and "Adapters    none" in provenance
    assert "acme-style" not in provenance


def test_a_broken_variant_is_told_and_mended(editor: Neovim, workspace: Workspace) -> None:
    file = workspace.variants / "acme.json"
    good = file.read_text()
    file.write_text(good.replace('"scale": 1', '"scale": "much"'))
    editor.status(r"^acme: error [a-z._]+$")
    told = editor.said("no suggestions from acme")
    assert told.endswith(":Warmline status says more") and len(told) < 120
    assert "scale" in editor.float()
    editor.type("so")
    editor.until(lambda: editor.ghost == "", "no suggestion")
    assert len([each for each in editor.messages if "no suggestions" in each]) == 1
    file.write_text(good)
    editor.status("^acme: (warm|cold)$")
    editor.type("u")
    editor.suggested()


def test_a_chat_streams_and_stops(editor: Neovim) -> None:
    editor.press("<C-\\><C-n>")
    editor.command("Warmline chat What is a ledger? Answer in one sentence.")
    editor.until(lambda: any(re.match(STARTED, line) for line in editor.lines), "the variant's name")
    editor.until(lambda: "<CR> ask" in winbar(editor), "the end")
    assert editor.lines[0] == "## you"
    said = "\n".join(editor.lines)
    pieces = streamed(editor)
    assert len(pieces) > 3
    assert "".join(pieces).strip() in said
    # Somebody presses the key as soon as the second answer has begun.
    editor.run(STOPPING)
    editor.run("_G.answer = 'Write a very long story about a bank.' vim.api.nvim_input('<CR>')")
    editor.until(lambda: "> stopped" in editor.lines, "the answer to be stopped")
    stopped = editor.lines
    cancelled = [each["params"]["id"] for each in editor.wire("$/cancelRequest")]
    chats = [each for each in editor.wire("workspace/executeCommand") if each["params"]["command"] == "warmline.chat"]
    assert chats[-1]["id"] in cancelled
    # The next question goes on in the same conversation.
    editor.command("Warmline chat Is a ledger a book?")
    editor.until(lambda: len([line for line in editor.lines if re.match(STARTED, line)]) == 3, "the third answer")
    assert editor.lines[: len(stopped) - 2] == stopped[:-2]
    first, second, third = (
        each["params"]["arguments"][0]["conversation"]
        for each in editor.wire("workspace/executeCommand")
        if each["params"]["command"] == "warmline.chat"
    )
    assert first == second == third
    # What was stopped is no part of it; a server that was started anew would be told the rest.
    history = editor.wire("workspace/executeCommand")[-1]["params"]["arguments"][0]["history"]
    assert [each["role"] for each in history] == ["user", "assistant"]
    assert history[0]["content"].startswith("What is a ledger?")
    editor.press("<C-c>")


def winbar(editor: Neovim) -> str:
    return str(editor.lua("vim.wo.winbar"))


def streamed(editor: Neovim) -> list[str]:
    values = [each["params"]["value"] for each in editor.wire("$/progress", way="<")]
    return [value["text"] for value in values if value.get("kind") == "text"]


def test_explaining_a_selection_sends_it_along(editor: Neovim) -> None:
    editor.press("<C-\\><C-n>")
    editor.command("9,10Warmline explain")
    editor.until(lambda: any(re.match(STARTED, line) for line in editor.lines), "an answer")
    [asked] = [each["params"] for each in editor.wire("workspace/executeCommand")]
    assert asked["command"] == "warmline.explain"
    given: dict[str, Any] = asked["arguments"][0]
    assert given["range"]["start"] == {"line": 8, "character": 0} and given["range"]["end"]["line"] == 9
    assert "> about ledger.py, lines 9 to 10" in editor.lines
    editor.press("<C-c>")
