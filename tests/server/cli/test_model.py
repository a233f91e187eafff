"""`warmline model`: bases come into the store checked, are told apart, and leave only when nothing needs them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fake_backend import write_adapter, write_base
from smollm2 import PACKAGE
from store_tools import filled, openvino_model
from warmline.digests import DigestCache, bytes_digest

Run = Callable[..., Any]


def test_a_file_is_installed_where_it_lies(warmline: Run, tmp_path: Path) -> None:
    file = write_base(tmp_path / "base.gguf")
    done = warmline("model", "add", file, "--name", "b", "--json")
    assert done.code == 0, done.err
    assert (done.json["digest"], done.json["copied"]) == (DigestCache().digest(file), False)
    (row,) = warmline("model", "list", "--json").json
    assert (row["name"], row["backend"], row["kind"], row["architecture"]) == ("b", "llama", "base", "llama")
    assert warmline("model", "verify", "b", "--json").json["ok"] is True
    file.write_bytes(file.read_bytes() + b"\0")
    again = warmline("model", "verify", "b", "--json")
    assert (again.code, again.json["ok"], again.json["error"]["code"]) == (1, False, "artifact.digest")
    assert warmline("model", "remove", "b", "--json").json == {"removed": "llama/b"}
    assert file.exists()


def test_a_copy_is_the_stores_own(warmline: Run, home: Path, tmp_path: Path) -> None:
    file = write_base(tmp_path / "base.gguf")
    assert warmline("model", "add", file, "--name", "b", "--copy").code == 0
    file.unlink()
    assert warmline("model", "verify", "b").code == 0
    assert warmline("model", "remove", "b").code == 0
    assert list((home / "blobs/sha256").iterdir()) == []


def test_a_merged_export_is_told_from_a_base(warmline: Run, tmp_path: Path) -> None:
    file = write_base(tmp_path / "merged.gguf")
    assert warmline("model", "add", file, "--name", "m", "--merged-from", "qwen+acme").code == 0
    assert warmline("variant", "add", "v", "--base", "m").code == 0
    (model,) = warmline("model", "list", "--json").json
    assert (model["kind"], model["merged_from"]) == ("merged", "qwen+acme")
    assert "merged: qwen+acme" in warmline("model", "list").out
    (variant,) = warmline("variant", "list", "--json").json
    assert (variant["kind"], variant["merged_from"]) == ("merged", "qwen+acme")


def test_a_needed_base_stays_and_says_who_needs_it(warmline: Run, home: Path, tmp_path: Path) -> None:
    filled(home, tmp_path)
    error = warmline("model", "remove", "base", "--json").json["error"]
    assert error["code"] == "store.needed"
    assert "llama/acme" in error["message"]
    assert warmline("variant", "remove", "acme").code == 0
    assert warmline("adapter", "remove", "style").code == 0
    assert warmline("model", "remove", "base").code == 0


def test_openvino_folders_are_models_too(warmline: Run, tmp_path: Path) -> None:
    folder = openvino_model(tmp_path / "ov")
    assert warmline("model", "add", folder, "--name", "o", "--backend", "openvino", "--copy").code == 0
    shown = warmline("model", "show", "o", "--json").json
    assert (shown["backend"], shown["format"]) == ("openvino", "openvino")
    assert shown["fim"].startswith("prefix only")


def test_show_reads_a_folder_without_its_library(
    warmline: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "openvino_genai", None)
    constants = "".join(
        f'<layer name="c{size}" type="Const"><data element_type="{kind}" size="{size}"/></layer>'
        for kind, size in (("f16", 20), ("u4", 70), ("f16", 10))
    )
    folder = openvino_model(tmp_path / "ov", bytes(70), xml=f"<net><layers>{constants}</layers></net>")
    names = ["<|endoftext|>", "<s>", "<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"]
    files = {
        "config.json": {"model_type": "qwen2", "max_position_embeddings": 4096, "bos_token_id": 1, "eos_token_id": 0},
        "tokenizer_config.json": {
            "add_bos_token": True,
            "chat_template": "{{ messages[0].content }}",
            "added_tokens_decoder": {str(token): {"content": text} for token, text in enumerate(names)},
        },
    }
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content))
    assert warmline("model", "add", folder, "--name", "o", "--backend", "openvino").code == 0
    shown = warmline("model", "show", "o", "--json").json
    assert (shown["n_ctx_train"], shown["bos"]) == (4096, {"id": 1, "text": "<s>"})
    assert shown["quantisation"] == {"u4": 70, "f16": 30}
    digest = bytes_digest(b"{{ messages[0].content }}")
    assert shown["template"] == {"source": "metadata", "digest": digest}
    assert shown["fim"].startswith("prefix first: qwen's")
    assert shown["architecture"] == "qwen2"
    assert warmline("model", "list", "--json").json[0]["architecture"] == "qwen2"
    out = " ".join(warmline("model", "show", "o").out.split())
    for line in ("architecture qwen2", "quantisation u4 70 %, f16 30 %", "context 4096 tokens", "BOS <s> (1)"):
        assert line in out
    (folder / "tokenizer_config.json").write_text("{}")
    assert warmline("model", "show", "o", "--json").json["error"]["code"] == "artifact.digest"
    assert warmline("model", "add", folder, "--name", "p", "--backend", "openvino").code == 0
    assert "BOS as its tokenizer says" in " ".join(warmline("model", "show", "p").out.split())


@pytest.mark.model
def test_show_reads_what_the_engine_reads(warmline: Run) -> None:
    assert warmline("model", "add", PACKAGE, "--name", "smollm2").code == 0
    shown = warmline("model", "show", "smollm2", "--json").json
    assert shown["n_ctx_train"] == 8192
    assert max(shown["quantisation"], key=shown["quantisation"].get) == "q4_1"
    assert shown["template"]["source"] == "metadata"
    assert shown["bos"] is None
    assert shown["fim"].startswith("prefix only")
    text = warmline("model", "show", "smollm2").out
    for part in ("8192 tokens", "q4_1", "prefix only", "apache-2.0", "no variant"):
        assert part in text


BAD_NAMES = ["", "A", ".x", "x" * 65, "../x", "a/b", "con", "nul.txt", "x.", "ä", "a b", "-x\n"]


@pytest.mark.parametrize("name", BAD_NAMES)
def test_a_name_that_could_be_a_path_is_refused(warmline: Run, home: Path, tmp_path: Path, name: str) -> None:
    """Row 26: a name never leads out of the store."""
    done = warmline("model", "add", write_base(tmp_path / "b.gguf"), f"--name={name}", "--json")
    assert (done.code, done.json["error"]["code"]) == (1, "store.name")
    assert list(home.rglob("record.json")) == []


def test_a_name_that_differs_only_in_capitals_is_taken(warmline: Run, home: Path, tmp_path: Path) -> None:
    (home / "models/llama/BASE").mkdir(parents=True)
    error = warmline("model", "add", write_base(tmp_path / "b.gguf"), "--name", "base", "--json").json["error"]
    assert error["code"] == "store.name_case"


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda path: os.mkfifo(path), "artifact.not_a_file"),
        (lambda path: path.symlink_to("/dev/zero"), "artifact.not_a_file"),
        (lambda path: path.mkdir(), "artifact.backend"),
        (lambda path: None, "artifact.missing"),
        (lambda path: path.write_bytes(b"GGUF\x03\0\0\0"), "artifact.gguf."),
    ],
    ids=["FIFO", "device", "folder", "missing", "truncated"],
)
def test_what_is_no_model_file(warmline: Run, tmp_path: Path, make: Callable[[Path], Any], code: str) -> None:
    path = tmp_path / "base.gguf"
    make(path)
    for copy in ([], ["--copy"]):
        done = warmline("model", "add", path, "--name", "b", "--json", *copy)
        assert done.code == 1
        assert done.json["error"]["code"].startswith(code), done.json
        assert done.json["error"]["remedy"]


@pytest.mark.parametrize("suffix", [".bin", ".pt", ".pth", ".ckpt", ".pkl"])
def test_a_pickle_is_refused_unopened(warmline: Run, tmp_path: Path, suffix: str) -> None:
    """Row 25: opening would block for ever on this FIFO."""
    path = tmp_path / f"weights{suffix}"
    os.mkfifo(path)
    assert warmline("model", "add", path, "--name", "b", "--json").json["error"]["code"] == "artifact.pickle"
    assert warmline("adapter", "add", path, "--base", "b", "--json").json["error"]["code"] == "artifact.pickle"


def test_a_link_in_the_store_is_not_followed(warmline: Run, home: Path, tmp_path: Path) -> None:
    """Row 26: no symlink is followed out of the store."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (home / "models").symlink_to(outside)
    error = warmline("model", "add", write_base(tmp_path / "b.gguf"), "--name", "b", "--json").json["error"]
    assert error["code"] == "store.link"
    assert list(outside.iterdir()) == []


def test_a_store_that_cannot_be_written_says_so(warmline: Run, home: Path, tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root writes everywhere")
    file = write_base(tmp_path / "b.gguf")
    home.chmod(0o500)
    try:
        error = warmline("model", "add", file, "--name", "b", "--json").json["error"]
    finally:
        home.chmod(0o700)
    assert error["code"] == "store.read_only"
    assert "WARMLINE_HOME" in error["remedy"]


def test_a_full_disk_leaves_nothing_half_written(home: Path, tmp_path: Path, entry: list[str]) -> None:
    file = write_base(tmp_path / "b.gguf")
    file.write_bytes(file.read_bytes().ljust(1 << 20, b"\0"))  # larger than the limit below
    # RLIMIT_FSIZE stands in for a full disk: writing beyond it fails with EFBIG.
    limit = "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
    limit += "resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000)); "
    code = limit + entry[-1]
    done = subprocess.run(
        [entry[0], "-c", code, "model", "add", str(file), "--name", "b", "--copy", "--json"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert '"store.full"' in done.stdout, done.stdout
    assert list(home.rglob("record.json")) == []
    assert list((home / "staging").iterdir()) == []


def test_an_adapter_is_no_model(warmline: Run, tmp_path: Path) -> None:
    file = write_adapter(tmp_path / "a.gguf")
    assert warmline("model", "add", file, "--name", "b", "--json").json["error"]["code"] == "artifact.base.kind"


def test_a_nearly_right_name_is_named(warmline: Run, home: Path, tmp_path: Path) -> None:
    filled(home, tmp_path)
    error = warmline("model", "show", "bas", "--json").json["error"]
    assert (error["code"], error["remedy"]) == ("store.unknown_model", "Did you mean `base`?")
