"""The worlds that the suite runs on. A backend joins by a `World` of its own in `WORLDS`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parent))

from harness.llama_world import LlamaWorld
from harness.smollm2_world import cut_world, whole_world
from harness.world import World

WORLDS: dict[str, Callable[[Path], World]] = {"llama.cpp": cut_world}


@pytest.fixture(scope="module", params=WORLDS)
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Each backend in turn, on a base that is small enough for hundreds of programs."""
    made = WORLDS[request.param](tmp_path_factory.mktemp("world"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def llama_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LlamaWorld]:
    """The llama.cpp world alone, for faults that are planted in its sessions."""
    made = cut_world(tmp_path_factory.mktemp("llama"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LlamaWorld]:
    """All thirty layers."""
    made = whole_world(tmp_path_factory.mktemp("whole"))
    yield made
    made.close()
