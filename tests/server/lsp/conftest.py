"""Fixtures of the language server's tests."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest_asyncio

sys.path.insert(0, str(Path(__file__).parent))  # the test modules share `scripted` and `editor`
from scripted import Room, ScriptedEngine


@pytest_asyncio.fixture
async def room(tmp_path: Path) -> AsyncIterator[Callable[..., Room]]:
    """Give a maker of one workspace and session over a scripted engine."""
    rooms: list[Room] = []

    def make(*pieces: str, client: Any = None, suggest: Any = None, **how: Any) -> Room:
        rooms.append(Room(tmp_path, ScriptedEngine(*pieces, **how), client, suggest))
        return rooms[-1]

    yield make
    for made in rooms:
        await made.session.close()
