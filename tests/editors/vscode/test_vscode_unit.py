"""The extension's pure modules (``unit/``, under Node), and what is made for it from the server's models."""

from __future__ import annotations

import json
import re
import sys
import zipfile
from pathlib import Path

import pytest
from bounded import run
from vscode_tools import SOURCES, Extension, Tools
from warmline.host import wire
from warmline_server.lsp import status

pytestmark = pytest.mark.timeout(600)  # the first one may install VS Code

_UNIT = Path(__file__).parent / "unit"
_MAX_VSIX = 1_000_000  # bytes
_MAX_BEGIN = 100_000  # bytes of JavaScript that VS Code reads while it activates the extension


def test_pure_modules(tools: Tools, extension: Extension, tmp_path: Path) -> None:
    sources = sorted(map(str, _UNIT.glob("*.test.ts")))
    assert sources
    build = [str(extension.modules / ".bin" / "esbuild"), *sources, "--bundle", "--platform=node", "--format=cjs"]
    built = run([*build, "--log-level=warning", f"--outdir={tmp_path}"], seconds=60)
    assert built.status == 0, built.said
    made = sorted(map(str, tmp_path.glob("*.js")))
    assert len(made) == len(sources)
    done = run([str(tools.node), "--test", *made], seconds=60)
    assert done.status == 0, done.said


@pytest.mark.parametrize("script", ["make_settings.py", "make_editor_schemas.py"])
def test_what_is_made_from_the_servers_models_is_current(repo: Path, script: str) -> None:
    done = run([sys.executable, str(repo / "docs" / script), "--check"], seconds=60)
    assert done.status == 0, f"run docs/{script}\n{done.said}"


def test_the_status_is_known_with_all_its_fields() -> None:
    protocol = (SOURCES / "src" / "protocol.ts").read_text("utf-8")
    for report in (status.StatusReport, status.LastReport, status.BaseReport, status.AdapterReport, wire.ErrorInfo):
        [known] = re.findall(rf"^export interface {report.__name__} {{$(.*?)^}}$", protocol, re.M | re.S)
        fields = re.findall(r"^  (\w+)\??: ", known, re.M)
        assert set(fields) == set(report.model_fields), report.__name__


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
        begin = archive.getinfo("extension/dist/extension.js").file_size
    assert begin < _MAX_BEGIN, "what is not needed to begin belongs into the bundle that is loaded later"
    assert "extension/dist/server/client.js" in names
    assert "extension/schemas/variant.schema.json" in names
    assert not [name for name in names if name.endswith((".ts", ".map")) or "node_modules" in name]
