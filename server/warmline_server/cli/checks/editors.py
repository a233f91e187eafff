"""Editors: which are here, and how they reach Warmline."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from . import Check, ok, warn

# publisher.name of editors/vscode/package.json; an installed extension's folder is called so, with its version behind.
EXTENSION: Final = "warmline.warmline"
# Where VS Code, its builds and its servers on other machines keep extensions, in the home folder.
_EXTENSIONS: Final = tuple(
    f"{product}/extensions"
    for product in (
        *(".vscode", ".vscode-insiders", ".vscode-oss"),
        *(".vscode-server", ".vscode-server-insiders", ".vscodium-server"),
    )
)
_PLUGIN: Final = "lua/warmline/init.lua"
# Below Neovim's folders: where packages lie, by hand and by the plugin managers that have a folder of their own. A
# checkout of all of Warmline has the plugin inside.
_PACKAGES: Final = tuple(
    f"{place}{inner}/{_PLUGIN}"
    for place in ("site/pack/*/start/*", "site/pack/*/opt/*", "pack/*/start/*", "pack/*/opt/*", "lazy/*", "plugged/*")
    for inner in ("", "/editors/neovim")
)

_NEOVIM: Final = (0, 11)


def command() -> Check:
    """Editors start `warmline lsp`: the command must be found by its name."""
    found = shutil.which("warmline")
    if found is None:
        remedy = "Put the folder of the command into PATH, or give editors its whole path"
        return warn("command", "`warmline` is not in PATH: editors do not find it", remedy)
    return ok("command", found, path=found)


def neovim() -> Check:
    """Neovim speaks to `warmline lsp` from version 0.11 on, by Warmline's plugin or by its own configuration."""
    found = shutil.which("nvim")
    if found is None:
        return ok("neovim", "not here")
    try:
        done = subprocess.run([found, "--version"], stdin=subprocess.DEVNULL, capture_output=True, timeout=1)
        number = re.search(rb"NVIM v(\d+)\.(\d+)", done.stdout)
    except (OSError, subprocess.TimeoutExpired):
        number = None
    if number is None:
        return warn("neovim", f"{found} does not say its version", "Run it by hand: nvim --version")
    version = (int(number[1]), int(number[2]))
    if version < _NEOVIM:
        message = f"{version[0]}.{version[1]} has no vim.lsp.config"
        return warn("neovim", message, "Use 0.11 or newer, or another plugin that starts language servers")
    number_here = f"{version[0]}.{version[1]}"
    plugin = next(_plugins(), None)
    if plugin is not None:
        return ok("neovim", f"{number_here}, with the plugin in {plugin}", plugin=str(plugin))
    message = (
        f"{number_here}; the plugin is in none of its packages: put editors/neovim on the runtimepath, and "
        "require('warmline').setup {} (a runtimepath that init.lua sets is not looked at)"
    )
    return ok("neovim", message, plugin=None)


def _plugins() -> Iterator[Path]:
    name = os.environ.get("NVIM_APPNAME") or "nvim"
    home = Path.home()
    for variable, usual in (("XDG_DATA_HOME", home / ".local/share"), ("XDG_CONFIG_HOME", home / ".config")):
        folder = Path(os.environ.get(variable) or usual) / name
        for pattern in (_PLUGIN, *_PACKAGES):
            for found in sorted(folder.glob(pattern)):
                yield found.parents[2]


def vscode() -> Check:
    """Visual Studio Code speaks to `warmline lsp` by Warmline's extension."""
    folders = [Path.home() / each for each in _EXTENSIONS]
    if own := os.environ.get("VSCODE_EXTENSIONS"):
        folders.insert(0, Path(own))
    for folder in folders:
        for manifest in sorted(folder.glob(f"{EXTENSION}-*/package.json"), reverse=True):
            if version := _version(manifest):
                message = f"the extension {version} is in {manifest.parent}"
                return ok("vscode", message, extension=version, path=str(manifest.parent))
    editor = next(filter(None, map(shutil.which, ("code", "code-insiders", "codium"))), None)
    if editor is None and not any(folder.is_dir() for folder in folders):
        return ok("vscode", "not here", extension=None)
    how = f"{Path(editor).name if editor else 'code'} --install-extension warmline.vsix (editors/vscode/README.md)"
    return ok("vscode", f"the extension is not installed: {how}", extension=None)


def _version(manifest: Path) -> str | None:
    try:
        data = json.loads(manifest.read_bytes())
    except (OSError, ValueError):
        return None
    version = data.get("version") if isinstance(data, dict) else None
    return version if isinstance(version, str) else None
