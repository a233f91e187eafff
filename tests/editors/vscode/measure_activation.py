"""Prints how long the extension takes to be activated, by VS Code's own clock, in some new windows.

    python tests/editors/vscode/measure_activation.py [WINDOWS]

Builds the extension as it is in the checkout and installs its VSIX into a VS Code of its own (see `vscode_tools`). The
figure is the one of *Developer: Show Running Extensions*; it is without the server, which is started afterwards. All
extensions are activated at the same time, so it is worth something on a machine that does nothing else.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "support"))
import vscode_tools
from vscode_server import serving


def main() -> None:
    """Measure and print."""
    windows = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    tools = vscode_tools.install()
    vsix = vscode_tools.build(tools).vsix
    with tempfile.TemporaryDirectory(prefix="wl-") as folder:
        top = Path(folder)
        (top / "workspace").mkdir()
        env = {"WARMLINE_HOME": str(top / "home"), "WARMLINE_RUNTIME_DIR": str(top / "runtime")}
        with serving(tools, top / "vscode", top / "workspace", env, vsix=vsix) as vscode:
            milliseconds = vscode.drive("activation.mjs", seconds=30 * windows, windows=windows)
    print(f"{windows} windows: {milliseconds} ms; median {statistics.median(milliseconds)} ms")


if __name__ == "__main__":
    main()
