"""Editors: which are here, and how they reach Warmline."""

from __future__ import annotations

import re
import shutil
import subprocess
from typing import Final

from . import Check, ok, warn

_NEOVIM: Final = (0, 11)


def command() -> Check:
    """Editors start `warmline lsp`: the command must be found by its name."""
    found = shutil.which("warmline")
    if found is None:
        remedy = "Put the folder of the command into PATH, or give editors its whole path"
        return warn("command", "`warmline` is not in PATH: editors do not find it", remedy)
    return ok("command", found, path=found)


def neovim() -> Check:
    """Neovim speaks to `warmline lsp` by itself, from version 0.11 on."""
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
    return ok("neovim", f"{version[0]}.{version[1]}; no plugin is needed: `warmline lsp` says how")


def vscode() -> Check:
    """Visual Studio Code needs an extension, which does not exist yet."""
    found = shutil.which("code") or shutil.which("codium")
    message = "Warmline's own extension is not shipped yet"
    return ok("vscode", f"{message}; {found}: one that starts any language server works" if found else message)
