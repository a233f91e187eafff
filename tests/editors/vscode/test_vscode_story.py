"""What a person sees in the browser of a clean VS Code with the VSIX installed: the scripts of `browser/`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from vscode_server import Room, VSCode, serving
from vscode_tools import Extension, Tools

pytestmark = [pytest.mark.model, pytest.mark.slow, pytest.mark.timeout(600)]

_SECONDS = 240.0


@pytest.fixture(scope="module")
def vscode(
    tools: Tools, extension: Extension, room: Room, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[VSCode]:
    """A VS Code with nothing in it but the VSIX."""
    with serving(tools, tmp_path_factory.mktemp("story"), room.folder, room.env, vsix=extension.vsix) as server:
        yield server


def test_from_the_first_key_to_a_broken_variant(vscode: VSCode, pictures: Path) -> None:
    vscode.drive("story.mjs", seconds=_SECONDS, pictures=str(pictures))


def test_two_windows_on_one_workspace(
    vscode: VSCode, pictures: Path, record_property: Callable[[str, object], None]
) -> None:
    milliseconds = vscode.drive("two_windows.mjs", seconds=_SECONDS, pictures=str(pictures))
    # What activation takes is reported, not asserted: machines differ. `measure_activation.py` has more of it.
    record_property("activation_ms", milliseconds)
    (pictures / "activation.json").write_text(json.dumps(milliseconds), "utf-8")
