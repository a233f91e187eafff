"""A runtime folder of a test's own, with a name short enough for sockets, and how hosts are reached there."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(params=["unix", "tcp"])
def runtime(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Path:
    folder = tmp_path_factory.mktemp("r")
    monkeypatch.setenv("WARMLINE_TRANSPORT", request.param)
    monkeypatch.setenv("WARMLINE_RUNTIME_DIR", str(folder))
    return folder
