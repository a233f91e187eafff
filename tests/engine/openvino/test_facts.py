"""What a folder's configs say, and what is made of folders that say little or nonsense."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from warmline.backends import openvino_facts
from warmline.backends.openvino_facts import FolderConfig
from warmline.backends.openvino_guarantee import Canary, remember, remembered
from warmline.errors import ArtifactError
from warmline.settings import change_setting
from warmline.store.finding import find_variant


def config(folder: Path, **files: Any) -> FolderConfig:
    for name, value in files.items():
        (folder / f"{name}.json").write_text(json.dumps(value))
    return FolderConfig(folder)


def test_ends_context_and_kv_come_from_the_configs(tmp_path: Path) -> None:
    found = config(
        tmp_path,
        config={
            "eos_token_id": 2,
            "max_position_embeddings": 8192,
            "num_hidden_layers": 3,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "hidden_size": 64,
        },
        generation_config={"eos_token_id": [2, 7, True, -1, "x"]},
        tokenizer_config={"added_tokens_decoder": {"0": {"content": "<a>"}, "1": {"content": 3}, "2": "no"}},
    )
    assert (sorted(set(found.ends())), found.context(), found.added_texts()) == ([2, 7], 8192, ["<a>"])
    assert found.kv_rows() == [32] * 6


def test_an_empty_folder_says_nothing(tmp_path: Path) -> None:
    found = FolderConfig(tmp_path)
    assert (list(found.ends()), found.context(), found.kv_rows(), found.chat_template()) == ([], 2048, None, None)
    nonsense = config(tmp_path, config={"num_hidden_layers": 10**9, "num_attention_heads": 1, "hidden_size": 1})
    assert nonsense.kv_rows() is None


def test_a_template_is_a_file_of_its_own_or_the_default_one_of_several(tmp_path: Path) -> None:
    several = [{"name": "tool", "template": "t"}, {"name": "default", "template": "d"}]
    assert config(tmp_path, tokenizer_config={"chat_template": several}).chat_template() == "d"
    (tmp_path / "chat_template.jinja").write_text("own")
    assert FolderConfig(tmp_path).chat_template() == "own"


@pytest.mark.parametrize("text", ["{", "[" * 100, '{"a": NaN}', "\udcff"])
def test_a_broken_config_is_an_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.json").write_text(text, errors="surrogateescape")
    with pytest.raises(ArtifactError) as caught:
        FolderConfig(tmp_path)
    assert caught.value.code == "artifact.openvino.config"


def test_a_huge_config_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openvino_facts, "MAX_JSON_BYTES", 10)
    with pytest.raises(ArtifactError, match="the limit is"):
        config(tmp_path, config={"a": "long enough"})


def test_a_measurement_counts_for_its_version_alone(tmp_path: Path) -> None:
    found = Canary("1", shared_mixes=True, own_apart=True)
    assert remembered(tmp_path, "1") is None
    remember(tmp_path, found)
    assert remembered(tmp_path, "1") == found
    assert remembered(tmp_path, "2") is None
    (tmp_path / "cache/openvino.json").write_text('{"version": "1"}')
    assert remembered(tmp_path, "1") is None


def test_one_name_for_both_backends_is_picked_by_preference(tmp_path: Path) -> None:
    for backend in ("llama", "openvino"):
        folder = tmp_path / "variants" / backend
        folder.mkdir(parents=True)
        (folder / "v.json").write_text(json.dumps({"name": "v", "backend": backend, "base": {"name": "b"}}))
    assert find_variant(tmp_path, "v", None, None).backend == "llama"
    change_setting(tmp_path, "backend", "openvino")
    assert find_variant(tmp_path, "v", None, None).backend == "openvino"
    assert find_variant(tmp_path, "llama/v", None, None).backend == "llama"
    (tmp_path / "variants/openvino/v.json").unlink()
    assert find_variant(tmp_path, "v", None, None).backend == "llama"
