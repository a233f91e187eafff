"""The extension's pure modules (``unit/``, under Node), and what is made for it from the server's models."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from vscode_tools import SOURCES, Extension, Tools

pytestmark = pytest.mark.timeout(600)  # the first one may install VS Code

_UNIT = Path(__file__).parent / "unit"
_MAX_VSIX = 1_000_000  # bytes


def test_pure_modules(tools: Tools, extension: Extension, tmp_path: Path) -> None:
    sources = sorted(map(str, _UNIT.glob("*.test.ts")))
    assert sources
    build = [str(extension.modules / ".bin" / "esbuild"), *sources, "--bundle", "--platform=node", "--format=cjs"]
    subprocess.run([*build, "--log-level=warning", f"--outdir={tmp_path}"], check=True, timeout=60)
    made = sorted(map(str, tmp_path.glob("*.js")))
    assert len(made) == len(sources)
    done = subprocess.run([str(tools.node), "--test", *made], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout[-8000:]


@pytest.mark.parametrize("script", ["make_settings.py", "make_editor_schemas.py"])
def test_what_is_made_from_the_servers_models_is_current(repo: Path, script: str) -> None:
    done = subprocess.run([sys.executable, str(repo / "docs" / script), "--check"], check=False)
    assert done.returncode == 0, f"run docs/{script}"


def test_the_manifest_says_what_the_code_does() -> None:
    manifest = json.loads((SOURCES / "package.json").read_text("utf-8"))
    contributed = {each["command"] for each in manifest["contributes"]["commands"]}
    sources = "".join(path.read_text("utf-8") for path in (SOURCES / "src").rglob("*.ts"))
    for command in contributed:
        assert f'"{command}"' in sources, f"{command} is offered and not registered"
    assert {each["command"] for each in manifest["contributes"]["keybindings"]} <= contributed


def test_the_vsix_is_small_and_holds_no_source(extension: Extension) -> None:
    assert extension.vsix.stat().st_size < _MAX_VSIX
    with zipfile.ZipFile(extension.vsix) as archive:
        names = archive.namelist()
    assert "extension/dist/extension.js" in names
    assert "extension/schemas/variant.schema.json" in names
    assert not [name for name in names if name.endswith((".ts", ".map")) or "node_modules" in name]
