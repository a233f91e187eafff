"""Puts bench/ last on the path: it holds a typing.py, and the standard library's must win."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "bench"))
