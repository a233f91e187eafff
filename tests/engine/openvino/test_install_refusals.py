"""A folder that could not be used is refused when it is installed, with the error that it would meet in use."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from store_tools import openvino_model, state
from warmline.errors import ArtifactError
from warmline.registry import Store
from warmline.verified_openvino import read_folder

BOMB = '<!DOCTYPE net [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]><net>&b;</net>'


def without(name: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).unlink()


def with_text(name: str, text: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_text(text)


def keeping(offset: int, size: int) -> str:
    """Write a network with one constant in its weights, of which `openvino_model` writes 7 bytes."""
    data = f'<data element_type="f32" shape="1" offset="{offset}" size="{size}"/>'
    return f'<net><layers><layer name="c" type="Const">{data}</layer></layers></net>'


@pytest.mark.parametrize("copy", [False, True])
@pytest.mark.parametrize(
    ("code", "spoil"),
    [
        ("artifact.folder", without("openvino_model.xml")),
        ("artifact.folder", without("openvino_model.bin")),
        ("artifact.openvino.tokenizer", without("openvino_tokenizer.xml")),
        ("artifact.openvino.tokenizer", without("openvino_detokenizer.bin")),
        ("artifact.openvino.config", without("config.json")),
        ("artifact.openvino.config", with_text("config.json", "[" * 1000)),
        ("artifact.openvino.config", with_text("tokenizer_config.json", "no JSON")),
        ("artifact.openvino.xml", with_text("openvino_model.xml", "")),
        ("artifact.openvino.xml", with_text("openvino_model.xml", "<net>")),
        ("artifact.openvino.xml", with_text("openvino_model.xml", BOMB)),
        ("artifact.openvino.weights", with_text("openvino_model.xml", keeping(offset=4, size=4))),
    ],
)
def test_what_cannot_be_used_is_not_installed(
    home: Path, tmp_path: Path, code: str, spoil: Callable[[Path], object], copy: bool
) -> None:
    folder = openvino_model(tmp_path / "ov")
    spoil(folder)
    before = state(home)
    with pytest.raises(ArtifactError) as caught:
        Store(home).add_model(folder, "m", "openvino", copy=copy)
    assert caught.value.code == code
    assert caught.value.remedy
    assert Path(caught.value.file or "").is_relative_to(folder)
    assert state(home) == before
    assert list((home / "staging").glob("*")) == []


def test_weights_that_are_just_long_enough_are_taken(tmp_path: Path) -> None:
    assert read_folder(openvino_model(tmp_path / "ov", xml=keeping(offset=3, size=4))).weights == 7


def test_use_needs_what_installing_needs(home: Path, tmp_path: Path) -> None:
    """What vanished from a folder after it was installed is missed by the same rules."""
    folder = openvino_model(tmp_path / "ov")
    Store(home).add_model(folder, "m", "openvino")
    for name in ("config.json", "openvino_tokenizer.bin"):
        spoilt = tmp_path / name
        shutil.copytree(folder, spoilt)
        (spoilt / name).unlink()
        with pytest.raises(ArtifactError):
            read_folder(spoilt)
    assert read_folder(folder).matmuls
