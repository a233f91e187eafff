"""Fixtures of the agent's tests."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from platformdirs import user_cache_path

# The test modules share these, and the scripted engine with the language server's.
sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "lsp")]
from planned_engine import PlannedEngine  # noqa: E402
from protocol_schema import ProtocolSchema  # noqa: E402
from scripted import Room  # noqa: E402
from wire_client import Wire, wired  # noqa: E402

PACKAGES = ("@agentclientprotocol/sdk@2.4.0", "acpx@0.19.1")
Start = Callable[..., Awaitable[tuple[Wire, PlannedEngine]]]


@pytest.fixture(scope="session")
def node_modules() -> Path:
    """Independent clients and the official schema, installed once and kept in the user's cache."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is missing: no frame is held against the official schema")
    folder = user_cache_path("warmline-tests") / "acp-2.4.0-0.19.1"
    modules = folder / "node_modules"
    if not (folder / "complete").exists():
        folder.mkdir(parents=True, exist_ok=True)
        quiet = ("--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error")
        subprocess.run([npm, "install", "--prefix", str(folder), *quiet, *PACKAGES], check=True, timeout=120)
        (folder / "complete").touch()
    return modules


@pytest.fixture(scope="session")
def schema_file(node_modules: Path) -> Path:
    """The protocol's schema, version 1."""
    return node_modules / "@agentclientprotocol" / "sdk" / "schema" / "v1" / "schema.json"


@pytest.fixture
def schema(schema_file: Path) -> ProtocolSchema:
    """The schema, with nothing found yet."""
    return ProtocolSchema(schema_file)


@pytest.fixture
def room(tmp_path: Path) -> Room:
    """A workspace that selects `acme`, and a store with `acme` and `plain`."""
    made = Room.__new__(Room)
    made.home, made.root = tmp_path / "home", tmp_path / "ws"
    (made.root / "src").mkdir(parents=True)
    for name in ("base", "acme"):
        (tmp_path / f"{name}.gguf").touch()
    made.base, made.adapter = tmp_path / "base.gguf", tmp_path / "acme.gguf"
    made.variant("plain", {"base": {"path": str(made.base)}})
    adapter = {"name": "style", "path": str(made.adapter)}
    made.variant("acme", {"base": {"path": str(made.base)}, "adapters": [adapter]})
    made.select("acme")
    return made


@pytest_asyncio.fixture
async def start(room: Room, schema: ProtocolSchema) -> AsyncIterator[Start]:
    """Give what starts an agent over a planned engine and says hello; every frame is checked when the test ends."""
    async with AsyncExitStack() as stack:

        async def begin(*plans: str, capabilities: Any = None, limits: Any = None) -> tuple[Wire, PlannedEngine]:
            engine = PlannedEngine(*(plans or ('{"answer": "Hello."}',)))
            wire = await stack.enter_async_context(wired(engine, room.home, schema, limits))
            await wire.hello(capabilities)
            return wire, engine

        yield begin


@pytest.fixture(autouse=True)
def _no_store_of_others(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARMLINE_HOME", str(room.home))
    assert os.environ["WARMLINE_HOME"] == str(room.home)
