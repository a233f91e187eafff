"""Fixtures of the language server's tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest_asyncio
from scripted import Room, ScriptedEngine


@pytest_asyncio.fixture
async def room(tmp_path: Path) -> AsyncIterator[Callable[..., Room]]:
    """Give a maker of one workspace and session over a scripted engine."""
    rooms: list[Room] = []

    def make(*pieces: str, client: Any = None, **how: Any) -> Room:
        rooms.append(Room(tmp_path, ScriptedEngine(*pieces, **how), client))
        return rooms[-1]

    yield make
    for made in rooms:
        await made.session.close()
