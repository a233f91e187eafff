"""One engine with both backends for a module: each pipeline takes seconds to make."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from openvino_variants import Engine
from warmline.backends.signal_stack import kept_signal_stack


@pytest.fixture(scope="package")
def engine(openvino_base: Path) -> Iterator[Engine]:
    """Room for the identities that most tests share: the bare base, and the base with `acme`."""
    made = Engine(warm_pipelines=2)
    yield made
    made.close()


@pytest.fixture(autouse=True)
def _signal_stack() -> Iterator[None]:
    """For tests that compile models themselves: a later test's time limit or interrupt would end the process."""
    with kept_signal_stack():
        yield
