"""Runs a VS Code server for a test, and drives a browser at it."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from vscode_tools import Tools

_HERE: Final = Path(__file__).parent
_READY: Final = re.compile(r"Extension host agent listening on (\d+)")
_START_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class Room:
    """A workspace with the example variants, approved in a store of its own, and the environment to use them."""

    folder: Path
    env: dict[str, str]


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
    """

    tools: Tools
    port: int
    folder: Path
    env: Mapping[str, str]
    log: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        """Address of the workbench with the folder open."""
        return f"http://127.0.0.1:{self.port}/?folder={self.folder}"

    def drive(self, script: str, *arguments: str, seconds: float, **settings: Any) -> Any:
        """Run a browser script of `browser/` at this server; return what it printed last, as JSON.

        `settings` are what the script finds as ``settings``. Raises `AssertionError` with the script's own words.
        """
        given = {"url": self.url, "folder": str(self.folder), "chromium": self.tools.chromium, **settings}
        command = [str(self.tools.node), str(_HERE / "browser" / script), json.dumps(given), *arguments]
        env = {**self.env, "PLAYWRIGHT_MODULES": str(self.tools.modules)}
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=seconds, check=False)
        assert done.returncode == 0, f"{script}:\n{done.stdout[-4000:]}\n{done.stderr[-6000:]}"
        return json.loads(done.stdout.strip().rpartition("\n")[2] or "null")

    def inside(self, extension: Path, tests: Path, result: Path, *, seconds: float) -> Any:
        """Run a test module in the extension host, with an unpacked extension; return what it wrote to `result`."""
        where = f"vscode-remote://127.0.0.1:{self.port}"
        payload = [["extensionDevelopmentPath", where + str(extension)], ["extensionTestsPath", where + str(tests)]]
        self.drive("inside.mjs", seconds=seconds, payload=payload, result=str(result), within=seconds - 10)
        return json.loads(result.read_text("utf-8"))


@contextlib.contextmanager
def serving(
    tools: Tools, room: Path, folder: Path, env: Mapping[str, str], *, trust: bool = True, vsix: Path | None = None
) -> Iterator[VSCode]:
    """Run a VS Code server whose folders are all in `room`.

    Parameters
    ----------
    trust
        Whether every workspace counts as trusted; else people are asked.
    vsix
        An extension to install first.
    """
    folders = {name: room / name for name in ("extensions", "user", "data")}
    for each in folders.values():
        each.mkdir(parents=True, exist_ok=True)
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
    command += ["--enable-smoke-test-driver", *(["--disable-workspace-trust"] if trust else [])]
    process = subprocess.Popen(
        command,
        env=everything,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,  # with all that it starts, so that nothing outlives the test
    )
    lines: list[str] = []
    try:
        yield VSCode(tools, _port(process, lines), folder, everything, lines)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(10)


def install_vsix(tools: Tools, where: list[str], vsix: Path, env: Mapping[str, str]) -> str:
    """Install a VSIX as a person does on the command line; return what was said."""
    command = [str(tools.node), str(tools.vscode), *where, "--install-extension", str(vsix), "--force"]
    done = subprocess.run(command, env=dict(env), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _port(process: subprocess.Popen[str], lines: list[str]) -> int:
    """Read on until the server says where it listens; what it says later goes to `lines` too."""
    found: queue.Queue[int] = queue.Queue()

    def read() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line)
            if match := _READY.search(line):
                found.put(int(match[1]))

    threading.Thread(target=read, daemon=True).start()
    end = time.monotonic() + _START_SECONDS
    while process.poll() is None and time.monotonic() < end:
        with contextlib.suppress(queue.Empty):
            return found.get(timeout=0.2)
    raise AssertionError("VS Code does not start:\n" + "".join(lines))
