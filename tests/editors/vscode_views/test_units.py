"""The parts of the views that need no editor, by Node's own test runner: the tests of `units/`."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

import pytest
from bounded import run
from vscode_tools import Extension, Tools

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

_UNITS: Final = Path(__file__).parent / "units"
_NAMES: Final = [
    name
    for path in sorted(_UNITS.glob("*.ts"))
    for name in re.findall(r'^test\("(.*)", ', path.read_text("utf-8"), re.M)
]


@pytest.fixture(scope="module")
def lines(tools: Tools, extension: Extension, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What Node said of each test, by its name; all are bundled with the extension's own tools and run once."""
    folder = tmp_path_factory.mktemp("units")
    modules = extension.modules
    env = {**os.environ, "NODE_PATH": str(modules), "PATH": f"{tools.node.parent}{os.pathsep}{os.environ['PATH']}"}
    bundle = [str(modules / ".bin" / "esbuild"), *map(str, sorted(_UNITS.glob("*.ts"))), f"--outdir={folder}"]
    bundle += ["--bundle", "--platform=node", "--format=cjs", "--log-level=warning"]
    bundled = run(bundle, seconds=60, env=env)
    assert bundled.status == 0, bundled.said
    command = [str(tools.node), "--test", "--test-reporter=tap", *map(str, sorted(folder.glob("*.js")))]
    done = run(command, seconds=100, env=env)
    said = re.split(r"^\s*(not ok|ok) \d+ - (.*)$", done.out, flags=re.M)
    return {name: f"{outcome}{more}" for outcome, name, more in zip(said[1::3], said[2::3], said[3::3], strict=True)}


@pytest.mark.parametrize("name", _NAMES)
def test_unit(lines: dict[str, str], name: str) -> None:
    assert re.match(r"ok\b", lines[name]), lines[name]
