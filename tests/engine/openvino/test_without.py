"""Without OpenVINO GenAI: its variants are refused with the way to add it, all else goes on."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_backend import FakeBackend
from openvino_variants import variant
from warmline.backends import openvino_native
from warmline.digests import DigestCache
from warmline.errors import BackendError
from warmline.verified import Verifier


def test_a_variant_is_refused_with_the_way_to_add_it(tmp_path: Path) -> None:
    verifier = Verifier(FakeBackend(), DigestCache(), lambda _digest: True)
    with pytest.raises(BackendError) as caught:
        verifier.verify(variant(tmp_path))
    assert (caught.value.code, caught.value.field) == ("backend.unavailable", "backend")
    assert openvino_native.INSTALL in caught.value.remedy
    assert verifier.is_quick(variant(tmp_path / "missing"))


def test_a_package_that_cannot_be_imported_is_a_typed_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openvino_native, "PACKAGE", "no_such_package_at_all")
    assert not openvino_native.installed()
    with pytest.raises(BackendError) as caught:
        openvino_native.genai()
    assert caught.value.code == "backend.missing"
    assert openvino_native.INSTALL in caught.value.remedy
