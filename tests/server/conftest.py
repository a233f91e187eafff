"""Of the faces: what a command does once in a process is taken back where that process is the tests'."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from warmline_server.cli.output import Output


@pytest.fixture(autouse=True)
def _given_back() -> Iterator[None]:
    """A command that guards its stdout takes descriptors 0 and 1 for good: whoever runs here next has them again."""
    kept = os.dup(0), os.dup(1)
    try:
        yield
        if Output._guarded is not None:
            for mine, descriptor in zip(kept, (0, 1), strict=True):
                os.dup2(mine, descriptor)
            Output._guarded.close()
            Output._guarded = None
    finally:
        for descriptor in kept:
            os.close(descriptor)
