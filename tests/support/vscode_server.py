"""Runs a VS Code server for a test, and drives a browser at it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bounded import ended_within, run, started
from process_sweep import end_all_with
from vscode_tools import Tools

_BROWSER: Final = Path(__file__).parents[1] / "editors" / "vscode" / "browser"
_READY: Final = re.compile(r"Extension host agent listening on (\d+)")
_START_SECONDS: Final = 90.0
_INSTALL_SECONDS: Final = 90.0
_LEAVE_SECONDS: Final = 10.0
# A person's own: they hold in a workspace that is not trusted, and from the first moment on.
_SETTINGS: Final[dict[str, Any]] = {
    "files.autoSave": "off",
    "editor.quickSuggestions": {"other": "off", "comments": "off", "strings": "off"},
    "workbench.editor.useModal": "off",
    "workbench.startupEditor": "none",
    "workbench.reduceMotion": "on",
    "workbench.colorTheme": "Dark Modern",
    "workbench.secondarySideBar.defaultVisibility": "hidden",
    "window.autoDetectColorScheme": False,
    "chat.disableAIFeatures": True,
    "security.workspace.trust.startupPrompt": "never",
    "extensions.autoCheckUpdates": False,
    "warmline.chat.maxTokens": 200,
}
_MARK: Final = "WARMLINE_TEST_DRIVE"


@dataclass(frozen=True, slots=True)
class Room:
    """A workspace with the example variants, approved in a store of its own, and the environment to use them."""

    folder: Path
    env: dict[str, str]

    def set(self, settings: Mapping[str, Any]) -> None:
        """Add to the settings of the workspace."""
        file = self.folder / ".vscode" / "settings.json"
        file.parent.mkdir(exist_ok=True)
        known = json.loads(file.read_text("utf-8")) if file.is_file() else {}
        file.write_text(json.dumps({**known, **settings}, indent=2), "utf-8")


@dataclass(frozen=True, slots=True)
class VSCode:
    """A VS Code server that runs.

    Attributes
    ----------
    tools
        What it and its browser are of.
    port
        Where it listens, on 127.0.0.1.
    folder
        The workspace folder that it opens.
    env
        The environment of its extension hosts.
    log
        The file with what it says.
    """

    tools: Tools
    port: int
    folder: Path
    env: Mapping[str, str]
    log: Path

    @property
    def url(self) -> str:
        """Address of the workbench with the folder open."""
        return f"http://127.0.0.1:{self.port}/?folder={self.folder}"

    def drive(self, script: str, *arguments: str, seconds: float, **settings: Any) -> Any:
        """Run a browser script of `browser/` at this server; return what it printed last, as JSON.

        `settings` are what the script finds as ``settings``. Raises `AssertionError` with the script's own words.
        """
        given = {"url": self.url, "folder": str(self.folder), "chromium": self.tools.chromium, **settings}
        command = [str(self.tools.node), str(_BROWSER / script), json.dumps(given), *arguments]
        mark = uuid.uuid4().hex
        env = {**self.env, "PLAYWRIGHT_MODULES": str(self.tools.modules), _MARK: mark}
        try:
            ran = run(command, seconds=seconds, env=env)
        finally:
            end_all_with(_MARK, mark)  # its browser too, which is in a group of its own
        assert ran.status == 0, f"{script}: {ran.status}\n{ran.said}\n{self.log.read_text('utf-8', 'replace')[-2000:]}"
        return json.loads(ran.out.strip().rpartition("\n")[2] or "null")

    def inside(self, extension: Path, tests: Path, result: Path, *, seconds: float) -> Any:
        """Run a test module in the extension host, with an unpacked extension; return what it wrote to `result`."""
        where = f"vscode-remote://127.0.0.1:{self.port}"
        payload = [["extensionDevelopmentPath", where + str(extension)], ["extensionTestsPath", where + str(tests)]]
        try:
            self.drive("inside.mjs", seconds=seconds, payload=payload, result=str(result), within=seconds - 10)
        except AssertionError as error:
            part = result.with_name(f"{result.name}.part")  # it may be in the middle of one of the tests
            raise AssertionError(f"{error}\n{part.read_text('utf-8') if part.exists() else 'none began'}") from None
        return json.loads(result.read_text("utf-8"))


@contextlib.contextmanager
def serving(
    tools: Tools,
    room: Path,
    folder: Path,
    env: Mapping[str, str],
    *,
    trust: bool = True,
    vsix: Path | None = None,
    inside: bool = False,
) -> Iterator[VSCode]:
    """Run a VS Code server whose folders are all in `room`.

    Parameters
    ----------
    trust
        Whether every workspace counts as trusted; else people are asked.
    vsix
        An extension to install first.
    inside
        Whether it is for `VSCode.inside`; it shows no messages then.
    """
    folders = {name: room / name for name in ("extensions", "user", "data")}
    for each in folders.values():
        each.mkdir(parents=True, exist_ok=True)
    own = folders["user"] / "User" / "settings.json"
    own.parent.mkdir()
    own.write_text(json.dumps(_SETTINGS), "utf-8")
    where = [f"--extensions-dir={folders['extensions']}", f"--user-data-dir={folders['user']}"]
    where += [f"--server-data-dir={folders['data']}"]
    everything = {**os.environ, **env, "HOME": str(room), "VSCODE_AGENT_FOLDER": str(folders["data"])}
    if vsix is not None:
        install_vsix(tools, where, vsix, everything)
    command = [str(tools.node), str(tools.vscode), "--host=127.0.0.1", "--port=0", "--without-connection-token"]
    command += [
        "--accept-server-license-terms",
        "--telemetry-level=off",
        "--force-disable-user-env",
        f"--default-folder={folder}",
        *where,
    ]
    if trust:
        command.append("--disable-workspace-trust")
    if inside:
        command.append("--enable-smoke-test-driver")
    log = room / "server.log"
    try:
        with log.open("wb") as out, started(command, out=out, err=out, env=everything) as process:
            try:
                yield VSCode(tools, _port(process, log), folder, everything, log)
            finally:
                os.kill(process.pid, signal.SIGTERM)
                ended_within(process, _LEAVE_SECONDS)
    finally:
        # Terminals, extension hosts and engines may outlive it by seconds.
        end_all_with("VSCODE_AGENT_FOLDER", everything["VSCODE_AGENT_FOLDER"])


def install_vsix(tools: Tools, where: list[str], vsix: Path, env: Mapping[str, str]) -> str:
    """Install a VSIX as a person does on the command line; return what was said."""
    command = [str(tools.node), str(tools.vscode), *where, "--install-extension", str(vsix), "--force"]
    ran = run(command, seconds=_INSTALL_SECONDS, env=env)
    assert ran.status == 0, ran.said
    return ran.out


def _port(process: subprocess.Popen[bytes], log: Path) -> int:
    """Wait until the server says where it listens."""
    until = time.monotonic() + _START_SECONDS
    while time.monotonic() < until:
        over = ended_within(process, 0.1)
        if match := _READY.search(log.read_text("utf-8", "replace")):
            return int(match[1])
        if over:
            break
    raise AssertionError(f"VS Code does not start:\n{log.read_text('utf-8', 'replace')}")
