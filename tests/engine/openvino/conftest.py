"""One engine with both backends for a module: each pipeline takes seconds to make."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from openvino_variants import Engine


@pytest.fixture(scope="package")
def engine(openvino_base: Path) -> Iterator[Engine]:
    """Room for the identities that most tests share: the bare base, and the base with `acme`."""
    made = Engine(warm_pipelines=2)
    yield made
    made.close()
