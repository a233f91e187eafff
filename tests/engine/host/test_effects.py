"""What an adapter was measured to change: kept by exact content, and never believed when it says "nothing"."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
from warmline.host.effects import Effects
from warmline.identity import AdapterIdentity, ContextIdentity, Identity

D = "sha256:" + "{:064x}"
ONE = Identity(
    backend="llama",
    backend_version="1",
    base=D.format(1),
    adapters=(AdapterIdentity(D.format(2), "1", "2"), AdapterIdentity(D.format(3), "1", "1")),
    template=D.format(4),
    bos="none",
    fim="none",
    context=ContextIdentity(n_ctx=512, type_k="f16", type_v="f16"),
)


def test_it_is_kept_for_the_next_engine(tmp_path: Path) -> None:
    path = tmp_path / "cache" / "effects.json"
    Effects(path).put(ONE, 0, 1.5)
    again = Effects(path)
    assert again.get(ONE, 0) == 1.5
    assert again.get(ONE, 1) is None
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "other",
    [
        replace(ONE, backend="openvino"),
        replace(ONE, backend_version="2"),
        replace(ONE, base=D.format(9)),
        replace(ONE, adapters=(AdapterIdentity(D.format(9), "1", "2"),)),
        replace(ONE, adapters=(AdapterIdentity(D.format(2), "0.5", "1"),)),
    ],
    ids=["backend", "version", "base", "adapter", "scale"],
)
def test_other_content_is_measured_anew(tmp_path: Path, other: Identity) -> None:
    effects = Effects(tmp_path / "effects.json")
    effects.put(ONE, 0, 1.5)
    assert effects.get(other, 0) is None


@pytest.mark.parametrize("value", [0.0, math.nan, math.inf])
def test_a_failure_is_not_kept(tmp_path: Path, value: float) -> None:
    effects = Effects(tmp_path / "effects.json")
    effects.put(ONE, 0, value)
    assert effects.get(ONE, 0) == pytest.approx(value, nan_ok=True)
    assert Effects(tmp_path / "effects.json").get(ONE, 0) is None


@pytest.mark.parametrize("data", [b"", b"[]", b"{", b'{"a": "b", "c": NaN, "d": 0, "e": true}', b"\xff", b"[" * 5000])
def test_a_broken_file_costs_measuring_again(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "effects.json"
    path.write_bytes(data)
    effects = Effects(path)
    effects.put(ONE, 0, 2.0)
    assert Effects(path).get(ONE, 0) == 2.0


def test_what_cannot_be_written_is_known_in_memory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    effects = Effects(tmp_path / "file" / "effects.json")
    effects.put(ONE, 0, 2.0)
    assert effects.get(ONE, 0) == 2.0
