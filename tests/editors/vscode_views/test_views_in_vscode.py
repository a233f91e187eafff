"""The chat and the performance view in a real VS Code: with the real model, and with text that no model here writes."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Final

import pytest
from vscode_server import Room, serving
from vscode_tools import Extension, Tools

pytestmark = [pytest.mark.model, pytest.mark.slow, pytest.mark.timeout(600)]

_HERE: Final = Path(__file__).parent
_BROWSER: Final = _HERE / "browser"
_SECONDS: Final = 240.0


@pytest.fixture(autouse=True)
def _as_it_was(room: Room, examples: Path) -> None:
    for name in ("ledger.py", "words.py"):
        shutil.copy(examples / name, room.folder / name)
    # What is decoded ahead of a cursor would be among the answers that are drawn.
    room.set({"warmline.suggest.speculate": False})


def test_a_chat_with_the_real_model(
    tools: Tools, extension: Extension, room: Room, pictures: Path, tmp_path: Path
) -> None:
    """Asked, streamed, stopped, its code copied, inserted and applied, kept over a reload, drawn in three themes."""
    with serving(tools, tmp_path, room.folder, room.env, vsix=extension.vsix) as vscode:
        seen = vscode.drive(str(_BROWSER / "story.mjs"), seconds=_SECONDS, pictures=str(pictures))
    assert seen["exchanges"] == 2
    for theme in ("light", "contrast", "dark"):
        assert (pictures / f"chat-{theme}.png").stat().st_size > 10_000


def test_hostile_text_stays_text_and_failures_are_said(
    tools: Tools, extension: Extension, room: Room, pictures: Path, tmp_path: Path
) -> None:
    """Markup, links and terminal codes do nothing; a server that dies in mid-answer loses nothing of it."""
    command, pids = tmp_path / "bin" / "warmline", tmp_path / "pids"
    pids.mkdir()
    command.parent.mkdir()
    script = _HERE / "scripted_server.py"
    command.write_text(f"#!{sys.executable}\nimport runpy\nrunpy.run_path({str(script)!r}, run_name='__main__')\n")
    command.chmod(0o755)
    room.set({"warmline.server.path": str(command)})
    variant = room.folder / ".warmline" / "variants" / "acme.json"
    reasoning = {"reasoning": {"open": "<think>", "close": "</think>"}}
    variant.write_text(json.dumps(json.loads(variant.read_text("utf-8")) | {"profile": reasoning}), "utf-8")
    env = room.env | {"WARMLINE_TEST_PIDS": str(pids)}
    with serving(tools, tmp_path / "vscode", room.folder, env, vsix=extension.vsix) as vscode:
        own = {"pids": str(pids), "command": str(command)}
        vscode.drive(str(_BROWSER / "hostile.mjs"), seconds=_SECONDS, pictures=str(pictures), **own)
