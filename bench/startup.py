"""CPU time until `warmline lsp` has answered `initialize`, beside the smallest pygls server in the same environment.

    python bench/startup.py [--runs 7] [--json]

Both are started as an editor starts them, with pipes, in an empty workspace and with an empty home, in turn; one run of
each beforehand fills the file cache and writes byte code. Two moments are measured, each when its answer has arrived:

- *initialize*: the answer to the first request.
- *ready*: the answer to a hover on a document that was opened meanwhile, for which the whole server must be there.
  (`warmline lsp` answers `initialize` before it imports pygls, so the first figure alone would flatter it.)

CPU time is user and system time of all threads of the process since it began (Linux: /proc/PID/task/*/schedstat,
nanoseconds). *python* is the interpreter alone, `python -c pass`: the floor below the floor.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any

from rich.console import Console
from rich.table import Table

_BARE = """\
from lsprotocol import types
from pygls.lsp.server import LanguageServer

server = LanguageServer("bare", "0")


@server.feature(types.TEXT_DOCUMENT_HOVER)
def hover(parameters: types.HoverParams) -> None:
    return None


server.start_io()
"""
COMMANDS = {
    "warmline lsp": (sys.executable, "-m", "warmline_server", "lsp"),
    "bare pygls": (sys.executable, "-c", _BARE),
}
_NANOSECONDS = 1_000_000


@dataclass(frozen=True)
class Moment:
    """Milliseconds of CPU and of wall time since the process was started."""

    cpu_ms: float
    wall_ms: float


@dataclass(frozen=True)
class Start:
    """One run of one server."""

    initialize: Moment
    ready: Moment


def cpu_ms(pid: int) -> float:
    """Return the CPU time of all living threads of a process, in milliseconds."""
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        total += int((task / "schedstat").read_text().split()[0])
    return total / _NANOSECONDS


class Editor:
    """Just enough of a language client: frames on two pipes."""

    def __init__(self, reader: IO[bytes], writer: IO[bytes]) -> None:
        self._reader = reader
        self._writer = writer
        self._requests = 0

    def notify(self, method: str, parameters: object) -> None:
        self._send({"method": method, "params": parameters})

    def request(self, method: str, parameters: object) -> Any:
        """Send a request and wait for its answer; what the server asks meanwhile is answered with null."""
        self._requests += 1
        self._send({"id": self._requests, "method": method, "params": parameters})
        while True:
            message = self._receive()
            if "method" in message and "id" in message:
                self._send({"id": message["id"], "result": None})
            elif message.get("id") == self._requests:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return message.get("result")

    def _send(self, content: dict[str, object]) -> None:
        body = json.dumps({"jsonrpc": "2.0", **content}).encode()
        self._writer.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        self._writer.flush()

    def _receive(self) -> dict[str, Any]:
        length = 0
        while (line := self._reader.readline()) != b"\r\n":
            if not line:
                raise RuntimeError("the server left")
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        message: dict[str, Any] = json.loads(self._reader.read(length))
        return message


def start(command: Sequence[str], folder: Path) -> Start:
    """Start a server in an empty workspace, ask twice, and let it go."""
    environment = {**os.environ, "WARMLINE_HOME": str(folder / "home")}
    uri = (folder / "workspace").as_uri()
    began = time.perf_counter()
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=folder / "workspace",
        env=environment,
    )
    assert process.stdin is not None
    assert process.stdout is not None

    def now() -> Moment:
        return Moment(cpu_ms(process.pid), (time.perf_counter() - began) * 1000)

    try:
        editor = Editor(process.stdout, process.stdin)
        editor.request(
            "initialize",
            {
                "processId": os.getpid(),
                "rootUri": uri,
                "workspaceFolders": [{"uri": uri, "name": "workspace"}],
                "capabilities": {"general": {"positionEncodings": ["utf-16"]}},
                "clientInfo": {"name": "startup.py"},
            },
        )
        initialize = now()
        editor.notify("initialized", {})
        document = {"uri": f"{uri}/a.py", "languageId": "python", "version": 1, "text": "import os\n"}
        editor.notify("textDocument/didOpen", {"textDocument": document})
        place = {"textDocument": {"uri": document["uri"]}, "position": {"line": 0, "character": 3}}
        editor.request("textDocument/hover", place)
        ready = now()
        editor.request("shutdown", None)
        editor.notify("exit", None)
        process.wait(timeout=30)
        return Start(initialize, ready)
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


def interpreter_ms() -> float:
    """Return the CPU time of a Python that does nothing, in milliseconds."""
    process = subprocess.Popen([sys.executable, "-c", "pass"])
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return (usage.ru_utime + usage.ru_stime) * 1000


def run(runs: int) -> dict[str, Any]:
    folder = Path(tempfile.mkdtemp())
    starts: dict[str, list[Start]] = {name: [] for name in COMMANDS}
    python = []
    try:
        (folder / "workspace").mkdir()
        for number in range(runs + 1):
            python.append(interpreter_ms())
            for name, command in COMMANDS.items():
                one = start(command, folder)
                if number:
                    starts[name].append(one)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    servers = {
        name: {moment: _median([getattr(one, moment) for one in every]) for moment in ("initialize", "ready")}
        for name, every in starts.items()
    }
    ours, bare = servers["warmline lsp"], servers["bare pygls"]
    return {
        "runs": runs,
        "python": platform.python_version(),
        "pygls": version("pygls"),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}",
        "interpreter_cpu_ms": round(statistics.median(python[1:]), 1),
        "servers": servers,
        "cpu_ratio": {moment: round(ours[moment]["cpu_ms"] / bare[moment]["cpu_ms"], 2) for moment in ours},
        "samples": {name: [asdict(one) for one in every] for name, every in starts.items()},
    }


def _median(moments: list[Moment]) -> dict[str, float]:
    cpu = [moment.cpu_ms for moment in moments]
    return {
        "cpu_ms": round(statistics.median(cpu), 1),
        "cpu_ms_worst": round(max(cpu), 1),
        "wall_ms": round(statistics.median([moment.wall_ms for moment in moments]), 1),
    }


def show(report: dict[str, Any], console: Console) -> None:
    table = Table(title=f"Milliseconds since the start, median of {report['runs']} runs", title_justify="left")
    table.add_column("server")
    for name in ("initialize: CPU", "worst", "wall", "ready: CPU", "worst", "wall"):
        table.add_column(name, justify="right")
    for name, server in report["servers"].items():
        moments = (server["initialize"], server["ready"])
        table.add_row(name, *(f"{value:,.0f}" for moment in moments for value in moment.values()))
    ratio = report["cpu_ratio"]
    table.add_row("ratio of CPU", f"{ratio['initialize']:.2f}", "", "", f"{ratio['ready']:.2f}", "", "")
    console.print(table)
    console.print(
        f"python -c pass: {report['interpreter_cpu_ms']} ms CPU; Python {report['python']}, pygls {report['pygls']}, "
        f"{report['machine']}",
        highlight=False,
    )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=7, help="runs of each server (7)")
    parser.add_argument("--quick", action="store_true", help="one run of each: shows that it works, measures little")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args(arguments)
    if not Path("/proc/self/schedstat").exists():
        print("startup.py reads CPU time from Linux's /proc/PID/task/*/schedstat, which is not here", file=sys.stderr)
        return 1
    report = run(1 if options.quick else max(options.runs, 1))
    if options.json:
        print(json.dumps(report, indent=2))
    else:
        show(report, Console(width=120))
    return 0


if __name__ == "__main__":
    sys.exit(main())
