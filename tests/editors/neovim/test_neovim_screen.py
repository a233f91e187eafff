"""The plugin on a person's screen: the same way in a terminal, kept as text to be looked at.

The screens go to `build/pictures/neovim/screens.txt`, or to the folder named in WARMLINE_TEST_PICTURES.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from neovim_binary import find_neovim

pytestmark = pytest.mark.model


@contextlib.contextmanager
def failing() -> Iterator[None]:
    """Make a failed test of what ends the script that the terminal is part of."""
    try:
        yield
    except SystemExit as error:
        raise AssertionError(str(error)) from None


class Screens:
    """A terminal, and the pictures of it that are kept."""

    def __init__(self, terminal: Any) -> None:
        self._terminal = terminal
        self.kept: list[str] = []

    def press(self, *keys: str) -> None:
        """Press keys, by tmux's names or as text."""
        self._terminal.press(*keys)

    def see(self, title: str, pattern: str) -> str:
        """Wait until the screen shows what it should; keep it."""
        with failing():
            self._terminal.wait(title, lambda screen: re.search(pattern, screen) is not None)
        screen = "\n".join(line.plain.rstrip() for line in self._terminal.lines(cursor=False))
        assert re.search(pattern, screen)
        self.kept.append(f"=== {title}\n{screen}\n")
        return screen


@pytest.fixture
def screens(repo: Path) -> Iterator[Screens]:
    """Neovim with the plugin in a terminal, in a copy of the example workspace."""
    if shutil.which("tmux") is None:
        pytest.skip("needs tmux: apt-get install tmux")
    spec = importlib.util.spec_from_file_location("pictures", repo / "docs" / "pictures" / "make.py")
    assert spec and spec.loader
    pictures = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(pictures)
    init = str(repo / "docs" / "pictures" / "nvim_init.lua")
    command = [str(find_neovim()), "--clean", "-u", init, "ledger.py"]
    with failing(), pictures.terminal(command, columns=100, rows=30) as terminal:
        made = Screens(terminal)
        yield made
    named = os.environ.get("WARMLINE_TEST_PICTURES")
    folder = Path(named) if named else repo / "build" / "pictures" / "neovim"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "screens.txt").write_text("\n".join(made.kept))


def test_a_persons_way_on_the_screen(screens: Screens) -> None:
    screens.see("nothing is loaded unasked", r"warmline acme: untrusted, :Warmline trust")
    screens.press(":Warmline trust", "Enter")
    screens.see("the question names the bytes", r"acme-style ba[\s\S]*1: Approve")
    screens.press("1", "Enter")
    screens.see("approved", r"warmline acme: (cold|warm)")
    screens.press("G", "A")
    ghost = screens.see("a suggestion", r"def transfer\(ledger: Ledger, account_id: str")
    screens.press("C-Right")
    screens.see("a word of it is taken", r"def transfer\(ledger: Ledger, account_id: str")
    screens.press("Tab", "Escape")
    screens.see("all of it is taken", r"ledger\.py \[\+\]")
    screens.press(":edit!", "Enter", ":Warmline variant base", "Enter")
    screens.see("another variant answers", r"base answers here")
    screens.press("G", "A")
    other = screens.see("another suggestion", r"def transfer\(\S[\s\S]*warmline base: (cold|warm)")
    assert other.count("account_id: str") < ghost.count("account_id: str")
    screens.press("Escape", ":Warmline status", "Enter")
    screens.see("where it came from", r"Variant +base[\s\S]*Adapters +none")
    screens.press("h", ":Warmline chat What is a ledger?", "Enter")
    screens.see("the chat names who answers", r"## base \(sha256:[0-9a-f]{12}\)")
