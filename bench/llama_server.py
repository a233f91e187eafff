"""The peer of `typing.py`: `llama-server`, built from the very llama.cpp that the installed llama-cpp-python holds.

    python bench/llama_server.py build     # some minutes, once; later calls return at once
    python bench/llama_server.py path      # print where it is, exit code 1 when it was not built

With it come the two programs that make a merged model (docs/benchmarking.md): `path llama-export-lora` and
`path llama-quantize` print where they are.

The source is llama-cpp-python's own sdist in the installed version, fetched with pip; nothing else is downloaded (the
web UI is left out). Build flags are llama-cpp-python's defaults: Release, GGML_NATIVE, shared libraries.

Environment: ``LLAMA_SERVER`` names a binary to use instead; ``WARMLINE_BENCH_CACHE`` is the folder to build in
(``bench/.build``); ``CMAKE_ARGS`` is handed to cmake, as llama-cpp-python does.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).resolve().parent
HOST = "127.0.0.1"
SERVER = "llama-server"
PROGRAMS = (SERVER, "llama-export-lora", "llama-quantize")
_CMAKE_OPTIONS = (
    "-DCMAKE_BUILD_TYPE=Release",
    "-DBUILD_SHARED_LIBS=ON",
    "-DLLAMA_BUILD_TESTS=OFF",
    "-DLLAMA_BUILD_EXAMPLES=OFF",
    "-DLLAMA_BUILD_APP=OFF",
    "-DLLAMA_BUILD_UI=OFF",
    "-DLLAMA_USE_PREBUILT_UI=OFF",  # else the build downloads a web page
    "-DLLAMA_OPENSSL=OFF",
    "-DCMAKE_BUILD_RPATH_USE_ORIGIN=ON",  # the folder may be moved
)


class PeerError(Exception):
    """The peer cannot be built, found or started; the text says what to do."""


def cache_folder() -> Path:
    """Return the folder that sources and binaries live in."""
    return Path(os.environ.get("WARMLINE_BENCH_CACHE") or HERE / ".build").expanduser().resolve()


def _folder() -> Path:
    return cache_folder() / f"llama-cpp-python-{version('llama-cpp-python')}"


def find(program: str = SERVER) -> Path | None:
    """Return the binary: for the server ``LLAMA_SERVER``'s, else the one built here, else None."""
    given = os.environ.get("LLAMA_SERVER")
    if given and program == SERVER:
        path = Path(given).expanduser().resolve()
        if not os.access(path, os.X_OK):
            raise PeerError(f"LLAMA_SERVER names no program: {path}")
        return path
    built = _folder() / "build" / "bin" / program
    return built if program in _complete() and built.exists() else None


def _complete() -> tuple[str, ...]:
    """Return the programs that were linked to their end; the file of older builds was empty, and stood for one."""
    marker = _folder() / "complete"
    return tuple(marker.read_text().split()) or (SERVER,) if marker.exists() else ()


def require(program: str = SERVER) -> Path:
    """Return the binary; `PeerError` when there is none."""
    found = find(program)
    if found is None:
        instead = ", or set LLAMA_SERVER" if program == SERVER else ""
        raise PeerError(f"{program} is not built: run `python bench/llama_server.py build`{instead}")
    return found


def build(jobs: int | None = None) -> Path:
    """Build what is missing of `PROGRAMS`, and return llama-server's binary."""
    missing = [program for program in PROGRAMS if find(program) is None]
    if not missing:
        return require()
    folder = _folder()
    folder.mkdir(parents=True, exist_ok=True)
    (cache_folder() / ".gitignore").write_text("*\n")
    source, commit = folder / "llama.cpp", folder / "commit"
    if not commit.exists():
        _extract(_download(folder), source, commit)
    cmake = _tool("cmake")
    if _configured_for(folder / "build") not in (None, source):
        shutil.rmtree(
            folder / "build"
        )  # the folder was moved: CMake refuses to go on with what it configured elsewhere
    _run(
        cmake,
        *("-S", str(source), "-B", str(folder / "build"), "-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={_tool('ninja')}"),
        *_CMAKE_OPTIONS,
        # Named here, since git would answer for the repository around the cache folder.
        *(f"-DLLAMA_BUILD_COMMIT={commit.read_text()[:9]}", "-DLLAMA_BUILD_NUMBER=0"),
        *shlex.split(os.environ.get("CMAKE_ARGS", "")),
    )
    _run(cmake, "--build", str(folder / "build"), "--target", *missing, "-j", str(jobs or os.cpu_count() or 1))
    (folder / "complete").write_text("\n".join({*_complete(), *missing}))
    return require()


def _configured_for(folder: Path) -> Path | None:
    """Return the source that CMake configured a build folder for; None where it has not."""
    cache = folder / "CMakeCache.txt"
    if not cache.exists():
        return None
    found = re.search(r"^CMAKE_HOME_DIRECTORY:INTERNAL=(.*)$", cache.read_text(errors="replace"), re.MULTILINE)
    return Path(found[1]) if found else Path()


def _download(folder: Path) -> Path:
    """Fetch the sdist of the installed version with pip."""
    name = "llama-cpp-python"
    _run(
        *(sys.executable, "-m", "pip", "download", "--no-deps", "--no-binary", name),
        *(f"{name}=={version(name)}", "-d", str(folder)),
    )
    return next(folder.glob("llama_cpp_python-*.tar.gz"))


def _extract(sdist: Path, source: Path, commit: Path) -> None:
    """Take llama.cpp out of the sdist, and the commit that it is."""
    with tempfile.TemporaryDirectory(dir=source.parent) as scratch:
        with tarfile.open(sdist) as archive:
            vendored = [m for m in archive if "/vendor/llama.cpp/" in m.name or m.name.endswith("/llama.cpp/HEAD")]
            archive.extractall(scratch, vendored, filter="data")
        root = next(Path(scratch).iterdir())
        head = next(root.glob(".git/modules/**/llama.cpp/HEAD")).read_text().strip()
        (root / "vendor" / "llama.cpp" / ".git").unlink(missing_ok=True)  # points nowhere now
        shutil.rmtree(source, ignore_errors=True)
        (root / "vendor" / "llama.cpp").rename(source)
    commit.write_text(head)
    sdist.unlink()


def _tool(name: str) -> str:
    """Return cmake's or ninja's path; installed into this environment when the machine has none."""
    here = str(Path(sys.executable).parent)
    search = os.pathsep.join([os.environ.get("PATH", os.defpath), here])
    found = shutil.which(name, path=search)
    if found is None:
        _run(sys.executable, "-m", "pip", "install", name)
        found = shutil.which(name, path=search)
    if found is None:
        raise PeerError(f"{name} is missing, and pip could not install it")
    return found


def _run(*command: str) -> None:
    try:
        subprocess.run(command, check=True, stdout=sys.stderr)
    except subprocess.CalledProcessError as error:
        raise PeerError(f"`{shlex.join(command[:4])} ...` failed with exit code {error.returncode}") from None


@dataclass(frozen=True)
class Server:
    """A running llama-server."""

    pid: int
    port: int
    command: tuple[str, ...]
    log: Path

    def cpu_seconds(self) -> float:
        """Return user and system time of the process so far, in steps of a clock tick (mostly 10 ms)."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def running_server(
    model: Path, *, threads: int, n_ctx: int, slots: int = 1, extra: tuple[str, ...] = (), wait_s: float = 120
) -> Iterator[Server]:
    """Start llama-server on a free loopback port, wait until it is healthy, and kill it in the end, come what may.

    Parameters
    ----------
    threads
        For decode and prefill alike.
    n_ctx
        Tokens of context of each slot.
    extra
        More arguments for its command line.

    Raises
    ------
    PeerError
        When it is not built, or leaves or stays silent instead of getting ready.
    """
    binary = require()
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port = probe.getsockname()[1]
    command = (
        *(str(binary), "--model", str(model), "--host", HOST, "--port", str(port), "--offline"),
        *("--threads", str(threads), "--threads-batch", str(threads)),
        *("--parallel", str(slots), "--ctx-size", str(n_ctx * slots), *extra),
    )
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "llama-server.log"
        with log.open("wb") as sink:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=sink, stderr=subprocess.STDOUT, start_new_session=True
            )
        try:
            _wait_until_healthy(process, port, log, wait_s)
            yield Server(process.pid, port, command, log)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _wait_until_healthy(process: subprocess.Popen[bytes], port: int, log: Path, wait_s: float) -> None:
    deadline = time.monotonic() + wait_s
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        connection = http.client.HTTPConnection(HOST, port, timeout=2)
        try:
            connection.request("GET", "/health")
            if connection.getresponse().status == 200:
                return
        except OSError:
            pass
        finally:
            connection.close()
        time.sleep(0.1)
    words = "\n".join(log.read_text(errors="replace").splitlines()[-10:])
    code = process.poll()
    what = "does not answer" if code is None else f"left with exit code {code}"
    raise PeerError(f"llama-server {what}; its last words:\n{words}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    builder = commands.add_parser("build", help="build it unless it is there")
    builder.add_argument("-j", "--jobs", type=int, help="compilers at a time (number of cores)")
    path = commands.add_parser("path", help="print where it is")
    path.add_argument("program", nargs="?", choices=PROGRAMS, default=SERVER)
    options = parser.parse_args()
    try:
        print(build(options.jobs) if options.command == "build" else require(options.program))
    except PeerError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
