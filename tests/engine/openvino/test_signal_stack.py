"""OpenVINO leaves no alternate signal stack behind that it has freed: the next signal would end the process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.model, pytest.mark.slow]

_INTERRUPTED = """
import faulthandler, os, signal, sys
from pathlib import Path
from warmline.backends.base import ContextConfig
from warmline.backends.openvino_native import PRECISE
from warmline.backends.openvino_pipeline import Recipe, construct
faulthandler.enable()
config = ContextConfig(n_ctx=64, properties=tuple(PRECISE.items()))
construct(Recipe(Path(sys.argv[1]), "", (), config), [])
try:
    os.kill(os.getpid(), signal.SIGINT)
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="sigaltstack is put back on Linux only")
def test_an_interrupt_after_a_compilation_is_one(openvino_base: Path) -> None:
    command = [sys.executable, "-c", _INTERRUPTED, str(openvino_base)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "interrupted"), done.stderr[-2000:]
