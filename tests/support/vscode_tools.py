"""Installs a real VS Code, its Node and what drives a browser, once, into the user's cache; builds the extension there.

``WARMLINE_VSCODE_TOOLS`` names another folder. Everything comes from npm, but for the browser, which is the system's.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bounded import run
from platformdirs import user_cache_path

NODE: Final = "node@24.21.0"  # code-server 4.139 starts with none older
CODE_SERVER: Final = "code-server@4.139.1"  # VS Code 1.139
WATCHER: Final = "@parcel/watcher-linux-x64-glibc@2.5.6"
PLAYWRIGHT: Final = "playwright-core@1.65.1"
_BROWSERS: Final = ("chromium", "chromium-browser", "google-chrome")
# A registry that does not answer is given up on, and not asked for minutes.
_PATIENT: Final = ("--fetch-retries=2", "--fetch-timeout=30000")
_QUIET: Final = ("--no-audit", "--no-fund", "--no-package-lock", "--loglevel=error", *_PATIENT)
_SECONDS: Final = 150.0
_LOCK_SECONDS: Final = 280.0  # while another worker installs or builds the same
_KEPT_SECONDS: Final = 3600  # a build of other sources, and no test at work with it
REPO: Final = Path(__file__).resolve().parents[2]
SOURCES: Final = REPO / "editors" / "vscode"


class Missing(Exception):
    """What the tests need is not on this machine; the text says what, and how it comes there."""


@dataclass(frozen=True, slots=True)
class Tools:
    """What is installed.

    Attributes
    ----------
    node
        The Node that runs VS Code and the drivers.
    vscode
        VS Code's server, ``server-main.js``.
    modules
        The folder with `playwright-core` in it.
    chromium
        The browser.
    """

    node: Path
    vscode: Path
    modules: Path
    chromium: str


@dataclass(frozen=True, slots=True)
class Extension:
    """The extension as it was built.

    Attributes
    ----------
    folder
        What VS Code loads of it, not minified.
    vsix
        What people install.
    modules
        The ``node_modules`` that it is built with.
    """

    folder: Path
    vsix: Path
    modules: Path


def install() -> Tools:
    """Install what is not there yet.

    Raises
    ------
    Missing
        There is no npm, or no browser.
    """
    npm, chromium = _npm(), next(filter(None, map(shutil.which, _BROWSERS)), None)
    if chromium is None:
        raise Missing("there is no Chromium: apt-get install chromium")
    folder = _cache() / "tools"
    with _once(folder, f"{NODE} {CODE_SERVER} {WATCHER} {PLAYWRIGHT}") as wanted:
        if wanted:
            # Each in a folder of its own: a second `npm install` in one takes away what the first brought.
            for name, package in (("node", NODE), ("browser", PLAYWRIGHT)):
                _install(npm, folder / name, package)
            _install(npm, folder / "server", CODE_SERVER, "--ignore-scripts", path=_path(_node(folder)))
            inner = _vscode(folder)
            plain = ("--omit=dev", "--omit=optional", "--ignore-scripts", *_QUIET)
            _run([npm, "install", *plain], inner, path=_path(_node(folder)))
            _run([npm, "install", "--no-save", *plain, WATCHER], inner, path=_path(_node(folder)))
    return Tools(
        _node(folder), _vscode(folder) / "out" / "server-main.js", folder / "browser" / "node_modules", chromium
    )


def build(tools: Tools) -> Extension:
    """Build the extension as it is in the checkout, and its VSIX, with the versions that its manifest names.

    Raises
    ------
    AssertionError
        It does not build; with its compiler's words.
    """
    manifest = json.loads((SOURCES / "package.json").read_text("utf-8"))
    wanted = json.dumps([manifest.get("dependencies", {}), manifest["devDependencies"]], sort_keys=True)
    folder = _cache() / f"extension-{hashlib.sha256(wanted.encode()).hexdigest()[:12]}"
    with _once(folder, wanted) as fresh:
        if fresh:
            shutil.copy(SOURCES / "package.json", folder / "package.json")
            _run([_npm(), "install", *_QUIET], folder, path=_path(tools.node))
    path = f"{tools.node.parent}{os.pathsep}{folder / 'node_modules' / '.bin'}{os.pathsep}{os.environ['PATH']}"
    with _locked(folder):
        for each in folder.iterdir():
            if each.is_dir() and each.name not in ("node_modules", "built"):
                shutil.rmtree(each)
        shutil.copytree(
            SOURCES, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("node_modules", "dist", "out", "*.vsix")
        )
        built = Path(folder / "built" / _digest(folder))
        vsix = built / "warmline.vsix"
        if not vsix.is_file():
            for old in built.parent.glob("*"):
                if time.time() - old.stat().st_mtime > _KEPT_SECONDS:
                    shutil.rmtree(old, ignore_errors=True)
            built.mkdir(parents=True, exist_ok=True)
            _run(["npm", "run", "--silent", "check"], folder, path=path)
            _run(["npm", "run", "--silent", "package", "--", "--out", str(vsix)], folder, path=path)
            _run([str(tools.node), "scripts/build.mjs"], folder, path=path)
            _unpack(folder, built / "extension")
        os.utime(built)  # in use: another checkout that builds now is not to take it away
    return Extension(built / "extension", vsix, folder / "node_modules")


def _unpack(folder: Path, target: Path) -> None:
    """Copy what VS Code loads: the extension without what it is built with."""
    for name in ("package.json", "dist", "media", "schemas"):
        source = folder / name
        if source.is_dir():
            shutil.copytree(source, target / name, dirs_exist_ok=True)
        else:
            target.mkdir(exist_ok=True)
            shutil.copy(source, target / name)


def _digest(folder: Path) -> str:
    sha = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder)
        if (
            path.is_file()
            and inside.parts[0] not in ("node_modules", "built")
            and inside.name not in ("complete", "lock")
        ):
            sha.update(f"{inside}\0".encode() + path.read_bytes())
    return sha.hexdigest()[:16]


def _npm() -> str:
    npm = shutil.which("npm")
    if npm is None:
        raise Missing("there is no npm: apt-get install nodejs npm")
    return npm


def _cache() -> Path:
    return Path(os.environ.get("WARMLINE_VSCODE_TOOLS") or user_cache_path("warmline-tests") / "vscode-1.139")


def _node(folder: Path) -> Path:
    return folder / "node" / "node_modules" / "node" / "bin" / "node"


def _vscode(folder: Path) -> Path:
    return folder / "server" / "node_modules" / "code-server" / "lib" / "vscode"


def _path(node: Path) -> str:
    """Have our Node found first: a distribution's own may be too old."""
    return f"{node.parent}{os.pathsep}{os.environ['PATH']}"


def _install(npm: str, folder: Path, *what: str, path: str | None = None) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "package.json").write_text('{"private": true}\n')
    _run([npm, "install", *_QUIET, *what], folder, path=path)


def _run(command: list[str], folder: Path, *, path: str | None = None) -> None:
    env = os.environ | ({"PATH": path} if path else {})
    ran = run(command, seconds=_SECONDS, cwd=folder, env=env)
    assert ran.status == 0, f"{command}: {ran.status}\n{ran.said}"


@contextlib.contextmanager
def _once(folder: Path, wanted: str) -> Iterator[bool]:
    """Say whether a folder has to be filled; it counts as filled when that did not fail."""
    folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder):
        mark = folder / "complete"
        missing = not mark.is_file() or mark.read_text("utf-8") != wanted
        yield missing
        if missing:
            mark.write_text(wanted, "utf-8")


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    with open(folder / "lock", "w") as lock:
        until = time.monotonic() + _LOCK_SECONDS
        while True:
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            assert time.monotonic() < until, f"{folder} is locked for {_LOCK_SECONDS} s"
            time.sleep(0.2)
        yield
