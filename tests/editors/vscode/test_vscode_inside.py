"""The extension in VS Code's own extension host, over the real server and the real model: the tests of `inside/`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import pytest
from vscode_server import Room, serving
from vscode_tools import Extension, Tools

pytestmark = [pytest.mark.model, pytest.mark.slow, pytest.mark.timeout(600)]

_INSIDE: Final = Path(__file__).parent / "inside"
_SECONDS: Final = 240.0
_NAMES: Final = [
    name
    for path in sorted(_INSIDE.glob("*.js"))
    for name in re.findall(r'^test\("(.*)",', path.read_text("utf-8"), re.M)
]


@pytest.fixture(scope="module")
def results(
    tools: Tools, extension: Extension, room: Room, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, dict[str, Any]]:
    """What came of each test, all of them run once in one window."""
    top = tmp_path_factory.mktemp("inside")
    result, scratch = top / "result.json", top / "scratch"
    scratch.mkdir()
    env = {**room.env, "WARMLINE_TEST_RESULT": str(result), "WARMLINE_TEST_SCRATCH": str(scratch)}
    with serving(tools, top, room.folder, env, inside=True) as vscode:
        found: dict[str, dict[str, Any]] = vscode.inside(
            extension.folder, _INSIDE / "index.js", result, seconds=_SECONDS
        )
    return found


def test_there_are_tests(results: dict[str, dict[str, Any]]) -> None:
    assert set(results) == set(_NAMES)


@pytest.mark.parametrize("name", _NAMES)
def test_in_the_extension_host(results: dict[str, dict[str, Any]], name: str) -> None:
    found = results[name]
    if "skipped" in found:
        pytest.skip(found["skipped"])
    assert found["error"] is None, found["error"]
