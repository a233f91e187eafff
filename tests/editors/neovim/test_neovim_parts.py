"""The plugin's parts that need no model: options, text of others, what of a suggestion is taken, keys, help, health."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from neovim_editor import HERE, PLUGIN, SERVER, WIRE, Neovim, Workspace
from warmline import __version__
from warmline_server.cli.lsp import _FOR_PEOPLE

Start = Callable[..., Neovim]
INLINE = "textDocument/inlineCompletion"
INFO = {"name": "warmline", "version": __version__}


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Neovim]:
    """An editor with the plugin on its path, in which `setup{}` has not been called."""
    folder = tmp_path_factory.mktemp("bare")
    editor = Neovim(folder / "nvim", folder, None)
    yield editor
    editor.stop()


def scripted(**script: Any) -> dict[str, Any]:
    server = [sys.executable, str(HERE / "scripted_server.py"), json.dumps({"info": INFO, **script})]
    return {"cmd": [*WIRE, *server]}


def item(text: str, start: int, end: int, line: int = 0) -> dict[str, Any]:
    """An item whose text replaces a part of a line."""
    span = {"start": {"line": line, "character": start}, "end": {"line": line, "character": end}}
    command = {"title": "accepted", "command": "warmline.accepted", "arguments": []}
    return {"insertText": text, "range": span, "command": command}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (
            "{ ghsot = {} }",
            "ghsot: there is no such option; options here: chat, cmd, filetypes, ghost, keymaps, settings",
        ),
        ("{ cmd = 'warmline lsp' }", "cmd: takes a list of strings, the program first, not "),
        ("{ cmd = {} }", "cmd: takes a list of strings"),
        ("{ ghost = { enabled = 1 } }", "ghost.enabled: takes true or false, not 1"),
        ("{ ghost = true }", "ghost: takes a table, not true"),
        ("{ ghost = { native = true } }", "ghost.native: this Neovim has no vim.lsp.inline_completion"),
        ("{ keymaps = { acept = '<Tab>' } }", "keymaps.acept: there is no such option; options here: accept, "),
        ("{ keymaps = { accept = true } }", "keymaps.accept: takes a key"),
        ("{ chat = { size = 2 } }", "chat.size: takes a number between 0.1 and 0.9, not 2"),
        ("{ chat = { position = 'left' } }", "chat.position: takes 'right', 'below' or 'tab'"),
        ("{ settings = { 1 } }", "settings: takes a table, not "),
        ("'x'", "options: takes a table"),
    ],
)
def test_a_wrong_option_is_named(bare: Neovim, options: str, says: str) -> None:
    error = bare.run(f"local ok, e = pcall(require('warmline').setup, {options}) return (not ok) and e or 'no error'")
    assert str(error).startswith("warmline: setup{}: " + says)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("acme", "acme"),
        ("a\x1b[31mb\x07", "a[31mb"),
        ("one\r\ntwo\tthree", "one two three"),
        ("abc\u202ecba\u200b\ufeff", "abccba"),
        ("a\x85b", "ab"),
        ("naïve 日本", "naïve 日本"),
        ("x" * 30, "x" * 23 + "…"),
    ],
)
def test_names_of_others_are_one_line_without_controls(bare: Neovim, text: str, line: str) -> None:
    quoted = "".join(f"\\{byte:03d}" for byte in text.encode())
    assert bare.lua(f'require("warmline.text").line("{quoted}", 24)') == line


def test_text_for_a_statusline_holds_no_item(bare: Neovim) -> None:
    assert bare.lua("require('warmline.text').for_statusline('%{x}%#E#')") == "%%{x}%%#E#"
    shown = "vim.api.nvim_eval_statusline(require('warmline.text').for_statusline('%{x}%#E#'), {}).str"
    assert bare.lua(shown) == "%{x}%#E#"


@pytest.mark.parametrize(
    ("rest", "word", "line"),
    [
        ("ledger: Ledger", "ledger", "ledger: Ledger"),
        (": Ledger", ":", ": Ledger"),
        (" = [1]", " =", " = [1]"),
        ("\n    return a\n", "\n    return", "\n    return a"),
        ("größe, x", "größe", "größe, x"),
        ("x\n    y", "x", "x"),
        ("   ", "   ", "   "),
    ],
)
def test_words_and_lines_of_a_suggestion(bare: Neovim, rest: str, word: str, line: str) -> None:
    for part, taken in (("word", word), ("line", line), ("all", rest)):
        assert (
            bare.run(f"return require('warmline.suggestion').part({json.dumps(rest, ensure_ascii=False)}, '{part}')")
            == taken
        )


def test_tags_of_the_help_file(bare: Neovim, tmp_path: Path) -> None:
    shutil.copytree(PLUGIN / "doc", tmp_path / "doc")
    bare.command(f"helptags {tmp_path}/doc")
    tags = {line.split("\t")[0] for line in (tmp_path / "doc" / "tags").read_text().splitlines()}
    assert {"warmline", "warmline.txt", "warmline-setup", "warmline-statusline", ":Warmline"} <= tags
    told = (PLUGIN / "doc" / "warmline.txt").read_text()
    for action in bare.lua("vim.tbl_keys(require('warmline.config').options.keymaps)"):
        assert f"*warmline.{action}()*" in told
    # What the text refers to is there.
    assert set(re.findall(r"\|(:?[Ww]armline[^|\s]*)\|", told)) <= tags
    bare.command(f"set runtimepath+={tmp_path}")
    bare.command("help warmline")
    assert "warmline.txt" in bare.lua("vim.api.nvim_buf_get_name(0)")
    bare.command("close")


def test_the_oldest_server_that_will_do_is_none_of_the_future(bare: Neovim) -> None:
    assert bare.lua(f"vim.version.ge('{__version__}', require('warmline.server').OLDEST)") is True


def test_subcommands_are_completed_and_documented(neovim: Start, workspace: Workspace, home: Path) -> None:
    editor = neovim(workspace.root, home, "", scripted())
    names = editor.lua("vim.fn.getcompletion('Warmline ', 'cmdline')")
    told = (PLUGIN / "doc" / "warmline.txt").read_text()
    assert len(names) == 12 and all(f"*:Warmline-{name}*" in told for name in names)
    assert editor.lua("vim.fn.getcompletion('Warmline pause f', 'cmdline')") == ["filetype"]
    editor.command("Warmline nonsense")
    editor.said("there is no :Warmline nonsense")
    editor.command("Warmline pause nowhere")
    editor.said("there is no scope")


def test_suggestions_in_a_line_that_has_wide_characters(neovim: Start, workspace: Workspace, home: Path) -> None:
    (workspace.root / "a.py").write_text("s = '😀é'; tra(x)\n")
    # UTF-16: the emoji is two units. The cursor stands before "(x)".
    items = [item("transfer", 11, 14), item("trade", 11, 14)]
    editor = neovim(workspace.root, home, "a.py", scripted(items=items))
    editor.press("gg0f(i")
    editor.suggested(begins="nsfer 1/2")
    editor.press("<M-n>")
    editor.until(lambda: editor.ghost == "de 2/2", "the other candidate")
    editor.press("<Tab>")
    editor.until(lambda: editor.lines == ["s = '😀é'; trade(x)"], "the text")
    editor.press("!")  # the cursor stands behind what was taken
    editor.until(lambda: editor.lines == ["s = '😀é'; trade!(x)"], "the next key")


def test_a_suggestion_goes_when_it_holds_no_more(neovim: Start, workspace: Workspace, home: Path) -> None:
    (workspace.root / "a.py").write_text("x\n")
    editor = neovim(workspace.root, home, "a.py", scripted(items=[item("xyz", 0, 1)]))
    editor.press("A")
    editor.suggested(begins="yz")
    asked = len(editor.wire(INLINE))
    editor.type("y")
    assert editor.ghost == "z" and len(editor.wire(INLINE)) == asked
    editor.type("q")
    editor.until(lambda: len(editor.wire(INLINE)) == asked + 1, "another question")
    assert [each.get("method") for each in editor.wire()][-2:] == ["textDocument/didChange", INLINE]
    editor.press("<BS>")
    editor.until(lambda: editor.lines == ["xy"], "the deletion")
    editor.suggested(begins="z")
    asked = len(editor.wire(INLINE))
    editor.press("<BS>")  # before the place where it was asked for: it is another question
    editor.until(lambda: editor.lines == ["x"], "the deletion")
    editor.until(lambda: len(editor.wire(INLINE)) == asked + 1, "another question")
    editor.suggested(begins="yz")
    editor.press("<Left>")
    editor.suggested(begins="xyz")
    editor.press("<Right>")
    editor.suggested(begins="yz")
    editor.press("<C-\\><C-n>")
    editor.until(lambda: editor.ghost == "", "no ghost text outside of insert mode")


def test_a_key_does_what_it_did_where_nothing_is_shown(neovim: Start, workspace: Workspace, home: Path) -> None:
    before = (
        "vim.keymap.set('i', '<Tab>', function() return 'expr' end, { expr = true }) "
        "vim.keymap.set('i', '<C-Right>', 'plain') "
        "vim.keymap.set('i', '<C-End>', function() _G.called = true end)"
    )
    (workspace.root / "a.py").write_text("\n")
    editor = neovim(workspace.root, home, "a.py", scripted(), WARMLINE_BEFORE=before)
    editor.press("i<Tab> <C-Right> <C-End>")
    editor.until(lambda: editor.lines == ["expr plain "] and editor.lua("_G.called"), "the keys of before")


def test_nothing_is_shown_beside_a_chosen_entry_of_the_menu(neovim: Start, workspace: Workspace, home: Path) -> None:
    (workspace.root / "a.py").write_text("word worn\nw\n")
    editor = neovim(workspace.root, home, "a.py", scripted(items=[item("was", 0, 1, line=1)]))
    editor.press("GA")
    editor.suggested(begins="as")
    asked = len(editor.wire(INLINE))
    editor.press("<C-n>")
    editor.until(lambda: editor.lua("vim.fn.pumvisible()") == 1 and editor.ghost == "", "the menu alone")
    editor.press("<C-n>")
    editor.until(lambda: editor.lines[-1] == "worn", "the next entry")
    assert len(editor.wire(INLINE)) == asked


def row(name: str, base: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "base": base, "adapters": [], "selected": False, "trust": "user", "error": None, **more}


def test_a_variant_is_chosen_from_a_list(neovim: Start, workspace: Workspace, home: Path) -> None:
    style = [{"name": "style", "scale": "0.5"}]
    broken = {"message": "no such file", "code": "artifact.missing"}
    rows = [row("zeta", "alpha"), row("acme", "beta", adapters=style, selected=True), row("bad", None, error=broken)]
    results = {"warmline.listVariants": rows, "warmline.selectVariant": {"variant": "zeta", "file": "x"}}
    editor = neovim(workspace.root, home, "ledger.py", scripted(results=results))
    editor.until(lambda: editor.wire("textDocument/didOpen"), "the server")
    editor.run("_G.answer = 'zeta' vim.cmd('Warmline variant')")
    editor.said("^Warmline: zeta answers here$")
    [question] = editor.lua("_G.questions")
    assert [" ".join(label.split()) for label in question["labels"]] == [
        "bad [broken: no such file]",
        "zeta alpha [user]",
        "* acme beta -> style@0.5 [user]",
    ]
    chosen = editor.wire("workspace/executeCommand")[-1]["params"]
    assert chosen["command"] == "warmline.selectVariant"
    assert chosen["arguments"] == [{"variant": "zeta", "uri": (workspace.root / "ledger.py").as_uri()}]


def test_an_edit_is_a_diff_first(neovim: Start, workspace: Workspace, home: Path) -> None:
    file = workspace.root / "a.py"
    file.write_text("one\ntwo\nthree\n")
    span = {"start": {"line": 1, "character": 0}, "end": {"line": 1, "character": 3}}
    document = {"uri": file.as_uri(), "version": 0}
    edit = {"documentChanges": [{"textDocument": document, "edits": [{"range": span, "newText": "zwei"}]}]}
    results = {
        "warmline.edit": {"edit": edit, "reason": "written", "variant": "acme", "text": ""},
        "warmline.fix": {"edit": None, "reason": "no-code", "variant": "acme", "text": "Sorry."},
    }
    editor = neovim(workspace.root, home, "a.py", scripted(results=results))
    editor.until(lambda: editor.wire("textDocument/didOpen"), "the server")
    editor.command("2Warmline edit in German")
    shown = editor.until(lambda: editor.lines if "+zwei" in editor.lines else [], "the diff")
    assert "-two" in shown and " three" in shown
    [asked] = editor.wire("workspace/executeCommand")
    given = asked["params"]["arguments"][0]
    assert given == {"uri": file.as_uri(), "range": span, "instruction": "in German"}
    editor.press("q")
    editor.until(lambda: editor.lines == ["one", "two", "three"], "the file as it was")
    editor.command("2Warmline edit in German")
    editor.until(lambda: "+zwei" in editor.lines, "the diff again")
    editor.press("<CR>")
    editor.until(lambda: editor.lines == ["one", "zwei", "three"], "the change")
    # The edit is for the text as it was: it does not land in another one.
    editor.command("2Warmline edit in German")
    editor.until(lambda: "+zweii" in editor.lines, "the diff")
    editor.run(f"vim.api.nvim_buf_set_lines(vim.fn.bufnr('{file}'), 0, 0, true, {{ 'zero' }})")
    editor.press("<CR>")
    editor.said("acme changes nothing: the text was changed meanwhile")
    assert editor.lines == ["zero", "one", "zwei", "three"]
    editor.command("2Warmline fix")
    editor.said("acme changes nothing: its answer holds no code")


FLOAT = """
local win = vim.iter(vim.api.nvim_list_wins()):find(function(each)
  return vim.api.nvim_win_get_config(each).relative ~= ''
end)
local lines = vim.api.nvim_buf_get_lines(vim.api.nvim_win_get_buf(win), 0, -1, false)
return { table.concat(lines, ' '), vim.api.nvim_win_get_height(win) - #lines }
"""


def test_the_status_that_is_read_goes_along(neovim: Start, workspace: Workspace, home: Path) -> None:
    editor = neovim(workspace.root, home, "ledger.py", scripted(items=[]))
    editor.until(lambda: editor.wire("textDocument/didOpen"), "the server")
    editor.command("Warmline status")
    assert editor.run(FLOAT) == ["Server      starting", 0]
    says = "require('warmline.reports').received(vim.lsp.get_clients()[1].id, { variant = '%s', backend = %s })"
    editor.run(says % ("acme", "{ name = 'llama.cpp', version = '1' }"))
    assert editor.run(FLOAT) == ["Variant     acme Backend     llama.cpp 1", 0]
    editor.run(says % ("acme " * 100, "nil"))  # wider than the screen
    words, more = editor.run(FLOAT)
    assert (words.count("acme"), more > 0) == (100, True)
    editor.press("<C-w>p")
    editor.run("vim.api.nvim_win_close(vim.iter(vim.api.nvim_list_wins()):last(), true)")
    editor.run(says % ("base", "nil"))
    assert "base" in editor.float()


def test_the_status_in_the_chat_is_that_of_its_document(neovim: Start, workspace: Workspace, home: Path) -> None:
    editor = neovim(workspace.root, home, "ledger.py", scripted(items=[]))
    editor.until(lambda: editor.wire("textDocument/didOpen"), "the server")
    editor.run("vim.ui.input = function(_, done) done(nil) end vim.cmd('Warmline chat')")
    assert editor.lua("vim.bo.buftype") == "nofile"
    assert editor.float() == "Server      starting"


def test_a_server_that_was_asked_to_leave_is_not_started_again(neovim: Start, workspace: Workspace, home: Path) -> None:
    says = [{"method": "warmline/status", "params": {"state": "ready", "variant": "acme"}}]
    editor = neovim(workspace.root, home, "ledger.py", scripted(says=says))
    editor.status("^acme: cold$")
    editor.command("Warmline restart")
    editor.until(lambda: len(editor.server_pids) == 2, "another server")
    begun = (
        "vim.tbl_map(function(each) return each.initialized == true end, vim.lsp.get_clients({ name = 'warmline' }))"
    )
    editor.until(lambda: editor.lua(begun) == [True], "that it has begun, and the first one has left")
    editor.status("^acme: cold$")
    editor.run("vim.lsp.enable('warmline', false)")
    editor.until(lambda: editor.statusline == "", "an empty statusline")
    assert editor.messages == [] and len(editor.server_pids) == 2


def test_a_server_that_is_disabled_while_it_starts_leaves(neovim: Start, workspace: Workspace, home: Path) -> None:
    says = [{"method": "warmline/status", "params": {"state": "ready", "variant": "acme"}}]
    editor = neovim(workspace.root, home, "ledger.py", scripted(says=says))
    editor.status("^acme: cold$")
    editor.run("vim.lsp.enable('warmline', false)")
    running = "#require('warmline.process').running"
    editor.until(lambda: editor.lua(running) == 0, "that it has left")
    editor.run(
        "vim.lsp.enable('warmline') "
        f"vim.wait(5000, function() return {running} == 1 end, 5) "
        "vim.lsp.enable('warmline', false)"
    )
    editor.until(lambda: len(editor.server_pids) == 2, "the second one to begin")
    editor.until(lambda: editor.lua(running) == 0, "that it has left")
    editor.until(lambda: editor.statusline == "", "an empty statusline")
    assert editor.messages == [] and len(editor.server_pids) == 2


def test_the_health_check(neovim: Start, workspace: Workspace, home: Path) -> None:
    editor = neovim(workspace.root, home, "ledger.py", {"cmd": SERVER})
    editor.status(":")
    editor.command("checkhealth warmline")
    report = "\n".join(editor.until(lambda: editor.lines if "doctor ended" in "\n".join(editor.lines) else [], "it"))
    assert f"OK warmline {__version__}" in report
    assert "ghost text is drawn by this plugin" in report
    assert "a server runs for" in report and "Variant     acme" in report


def test_the_health_check_without_a_server(neovim: Start, workspace: Workspace, home: Path) -> None:
    editor = neovim(workspace.root, home, "ledger.py", {"cmd": ["warmline-nowhere", "lsp"]})
    editor.command("checkhealth warmline")
    report = "\n".join(editor.lines)
    assert "`warmline-nowhere` is not there" in report and "Install Warmline, or set cmd" in report


def test_doctor_and_log(neovim: Start, workspace: Workspace, home: Path) -> None:
    editor = neovim(workspace.root, home, "ledger.py", {"cmd": SERVER})
    editor.status(":")
    editor.command("Warmline doctor")
    found = editor.until(lambda: editor.lines if len(editor.lines) > 5 else [], "what doctor finds")
    assert any("python" in line.lower() for line in found)
    editor.command("close")
    windows = editor.lua("#vim.api.nvim_list_wins()")
    editor.command("Warmline log")
    editor.until(lambda: editor.messages or editor.lua("vim.api.nvim_buf_get_name(0)").endswith("log"), "the log")
    assert editor.lua("#vim.api.nvim_list_wins()") - windows in (0, 1)


def test_neovims_own_inline_completion_is_used_as_it_is_documented(
    neovim: Start, workspace: Workspace, home: Path
) -> None:
    # 0.12's module does not run in 0.11: this one has its documented functions, and notes how they are called.
    before = """
      _G.calls = {}
      local function noted(name, result)
        return function(...) table.insert(_G.calls, { name, ... }) return result end
      end
      vim.lsp.inline_completion = {
        enable = noted('enable'), select = noted('select'), is_enabled = noted('is_enabled', true),
        get = function(options)
          table.insert(_G.calls, { 'get' })
          if _G.item and options and options.on_accept then
            vim.schedule(function() options.on_accept(_G.item) end)
          end
          return _G.item ~= nil
        end,
      }"""
    (workspace.root / "a.py").write_text("tra\n")
    editor = neovim(workspace.root, home, "a.py", scripted(), WARMLINE_BEFORE=before)
    editor.until(lambda: editor.lua("_G.calls[1]") == ["enable", True, {"bufnr": 1}], "it to be enabled")
    editor.press("A<Tab>")  # nothing is shown: the key itself
    editor.until(lambda: re.match(r"tra\s+$", editor.lines[0]), "white space")
    editor.press("<BS>")
    editor.run("_G.item = { insert_text = 'transfer(ledger)', range = { start = { row = 0, col = 0 } } }")
    editor.press("<C-\\><C-n>ccatra<C-\\><C-n>0xA<C-Right>")
    editor.until(lambda: editor.lines[0] == "transfer", "the word")
    editor.press("<M-n>")
    editor.until(lambda: editor.lua("_G.calls[#_G.calls]") == ["select", {"count": 1}], "the next candidate")
    editor.command("Warmline pause")
    assert editor.lua("_G.calls[#_G.calls]") == ["enable", False, {"bufnr": 1}]
    # Of two questions about a buffer the first one is cancelled, which Neovim does not do.
    editor.run(
        "local client = vim.lsp.get_clients({ name = 'warmline' })[1] "
        "for _ = 1, 2 do client:request('textDocument/inlineCompletion', {}, function() end, 1) end"
    )
    cancelled = editor.until(lambda: editor.wire("$/cancelRequest"), "the cancellation")
    asked = editor.wire(INLINE)
    assert [each["params"]["id"] for each in cancelled] == [asked[0]["id"]]


def test_what_the_command_advises_without_the_plugin(bare: Neovim, workspace: Workspace) -> None:
    advised = re.search(r"vim\.lsp\.config.*vim\.lsp\.enable\('warmline'\)", _FOR_PEOPLE, re.DOTALL)
    assert advised
    command = ", ".join(f"'{word}'" for word in SERVER)
    bare.run(advised[0].replace("'warmline', 'lsp'", command))
    bare.command(f"edit {workspace.root / 'ledger.py'}")
    client = "(vim.lsp.get_clients({ bufnr = 0, name = 'warmline' })[1] or {})"
    bare.until(lambda: bare.lua(f"{client}.initialized"), "the server")
    assert bare.lua(f"{client}.root_dir") == str(workspace.root)
    bare.run("vim.lsp.enable('warmline', false)")
