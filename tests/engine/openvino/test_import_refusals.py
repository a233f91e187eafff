"""What cannot be imported is refused with a code and a remedy, and leaves the store as it was."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import smollm2
from fake_backend import write_adapter, write_base
from gguf_writer import TENSOR_F16, U32, base, gguf, kv, kv_str, laid_out, u32
from store_tools import state
from warmline.artifacts.gguf import TensorInfo
from warmline.artifacts.openvino_ir import Weight
from warmline.errors import WarmlineError
from warmline.importing import process
from warmline.importing.weights import GGUFWeights
from warmline.registry import Store
from warmline.store.blobs import digest_of


def llama_tensors() -> dict[str, tuple[tuple[int, ...], int]]:
    """One block of the least that a llama has."""
    sizes = {"attn_q": (32, 32), "attn_k": (32, 32), "attn_v": (32, 32), "attn_output": (32, 32)}
    sizes |= {"ffn_gate": (32, 64), "ffn_up": (32, 64), "ffn_down": (64, 32)}
    tensors = {f"blk.0.{name}.weight": (shape, TENSOR_F16) for name, shape in sizes.items()}
    return {"token_embd.weight": ((32, 8), TENSOR_F16), **tensors}


def refused(home: Path, source: Path, **options: str) -> WarmlineError:
    before = state(home)
    with pytest.raises(WarmlineError) as caught:
        Store(home).add_model(source, "b", "openvino", **options)  # type: ignore[arg-type]
    assert state(home) == before
    assert list((home / "staging").glob("*")) == []
    assert caught.value.remedy
    return caught.value


def test_bad_files_are_refused_before_native_code_sees_them(home: Path, tmp_path: Path) -> None:
    whole = write_base(tmp_path / "base.gguf").read_bytes()
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(whole[:-1])
    text = tmp_path / "text.gguf"
    text.write_text("no model")
    other = tmp_path / "gemma.gguf"
    other.write_bytes(base({"token_embd.weight": ((32, 8), TENSOR_F16)}, architecture="gemma3"))
    lora = write_adapter(tmp_path / "lora.gguf")
    found = {path.name: refused(home, path).code for path in (cut, text, other, lora, tmp_path / "none.gguf")}
    assert found == {
        "cut.gguf": "artifact.gguf.truncated",
        "text.gguf": "artifact.gguf.magic",
        "gemma.gguf": "artifact.import.architecture",
        "lora.gguf": "artifact.base.kind",
        "none.gguf": "artifact.missing",
    }


def test_what_the_reader_would_leave_out_is_refused(home: Path, tmp_path: Path) -> None:
    keys = [kv_str("general.architecture", "llama"), kv_str("llama.rope.scaling.type", "yarn")]
    keys += [kv(f"llama.{key}", U32, u32(1)) for key in ("block_count", "attention.head_count")]

    def refusal(keys: list[bytes], **more: tuple[tuple[int, ...], int]) -> tuple[str, str | None]:
        tensors = llama_tensors() | {name.replace("__", "."): each for name, each in more.items()}
        infos, data = laid_out({name: each for name, each in tensors.items() if each[0]})
        path = tmp_path / "llama.gguf"
        path.write_bytes(gguf(keys, infos, data=data))
        error = refused(home, path)
        return error.code, error.field

    assert refusal(keys) == ("artifact.import.rope", "llama.rope.scaling.type")
    plain = [keys[0], *keys[2:]]
    unknown = refusal(plain, rope_freqs__weight=((16,), TENSOR_F16))
    assert unknown == ("artifact.import.tensor", "rope_freqs.weight")
    missing = refusal(plain, blk__0__attn_v__weight=((), TENSOR_F16))
    assert missing == ("artifact.import.tensor", "blk.0.attn_v.weight")


@pytest.mark.parametrize(
    ("dtype", "data", "code"),
    [
        ("f32", np.full(32, np.nan, "<f4").tobytes(), "artifact.import.not_finite"),
        ("q8_k", bytes(292), "artifact.import.type"),
        ("f32", bytes(4), "artifact.unreadable"),
    ],
)
def test_weights_without_values_are_refused(dtype: str, data: bytes, code: str) -> None:
    columns = 256 if dtype == "q8_k" else 32
    nbytes = 292 if dtype == "q8_k" else 128
    weight = Weight("lm_head", TensorInfo("output.weight", (columns, 1), dtype, 0, nbytes), None)
    weights = GGUFWeights(lambda at, count: data[at : at + count], "base.gguf")
    with pytest.raises(WarmlineError) as caught:
        list(weights.chunks(weight))
    assert (caught.value.code, caught.value.field) == (code, "output.weight")


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that passes every check of its header; its network cannot be built."""
    from warmline.artifacts import openvino_ir

    path = tmp_path / "llama.gguf"
    path.write_bytes(base(llama_tensors()))
    monkeypatch.setattr(openvino_ir, "block_count", lambda *_: 1)
    monkeypatch.setattr(openvino_ir, "heads", lambda *_: None)
    monkeypatch.setattr(openvino_ir, "name_map", lambda *_: gguf_name)
    return path


def gguf_name(module: str) -> str:
    names = {"q_proj": "attn_q", "k_proj": "attn_k", "v_proj": "attn_v", "o_proj": "attn_output"}
    last = module.rpartition(".")[2]
    return f"blk.0.{names.get(last) or 'ffn_' + last.removesuffix('_proj')}.weight"


def test_without_the_package_it_says_how_to_add_it(home: Path, source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process.importlib.util, "find_spec", lambda name: None)
    error = refused(home, source)
    assert error.code == "backend.missing"
    assert "pip install 'warmline[openvino]'" in error.remedy


def test_a_disk_without_room_is_said_before_anything_is_done(
    home: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "check_package", lambda: None)
    monkeypatch.setattr(process.shutil, "disk_usage", lambda folder: shutil._ntuple_diskusage(1, 1, 0))
    monkeypatch.setattr(process, "WORKER", ("/nonexistent",))
    assert refused(home, source).code == "store.full"


@pytest.mark.parametrize(
    ("code", "body", "seconds"),
    [
        ("artifact.import.crashed", "import os; print('noise'); os.abort()", 30.0),
        ("artifact.import.crashed", "raise SystemError('of no kind that is known')", 30.0),
        ("artifact.import.crashed", "print('{\"report\"')", 30.0),
        ("artifact.import.time", "import time; time.sleep(60)", 0.5),
    ],
)
def test_whatever_native_code_does_is_one_error(
    home: Path, source: Path, monkeypatch: pytest.MonkeyPatch, code: str, body: str, seconds: float
) -> None:
    monkeypatch.setattr(process, "check_package", lambda: None)
    monkeypatch.setattr(process, "WORKER", (sys.executable, "-c", body))
    monkeypatch.setattr(process, "SECONDS", seconds)
    monkeypatch.setattr(process, "SECONDS_PER_GB", 0.0)
    started = time.monotonic()
    assert refused(home, source).code == code
    assert time.monotonic() - started < 10


@pytest.mark.slow
def test_what_the_reader_refuses_is_said_in_its_words(home: Path, tmp_path: Path) -> None:
    pytest.importorskip("openvino_genai")
    path = tmp_path / "llama.gguf"
    infos, data = laid_out(llama_tensors())
    keys = [kv_str("general.architecture", "llama")]
    keys += [kv(f"llama.{key}", U32, u32(1)) for key in ("block_count", "attention.head_count")]
    path.write_bytes(gguf(keys, infos, data=data))
    error = refused(home, path)
    assert (error.code, error.file) == ("artifact.import.reader", str(path))


@pytest.mark.model
@pytest.mark.slow
def test_it_is_installed_whole_and_removed_whole(home: Path) -> None:
    pytest.importorskip("openvino_genai")
    store, told = Store(home), []
    record = store.add_model(
        smollm2.PACKAGE, "b", "openvino", precision="compact", progress=lambda done, total: told.append(done / total)
    )
    assert (record.format, record.architecture, record.copied) == ("openvino", "llama", True)
    assert (record.source_digest, record.precision) == (digest_of(smollm2.base_path()), "compact")
    names = {file.name for file in record.files}
    assert names == {
        *(f"openvino_{part}.{kind}" for part in ("model", "tokenizer", "detokenizer") for kind in ("xml", "bin")),
        *("config.json", "generation_config.json", "tokenizer_config.json", "chat_template.jinja"),
    }
    assert told == sorted(told) and 0.99 < told[-1] <= 1
    assert store.verify_model("b", "openvino").ok
    config = store.model_path(record) / "tokenizer_config.json"
    config.write_text(config.read_text().replace("false", "true", 1))
    assert not store.verify_model("b", "openvino").ok
    store.remove_model("b", "openvino")
    assert [name for name in state(home) if name.startswith(("blobs", "models"))] == []


@pytest.mark.model
@pytest.mark.slow
def test_a_killed_import_leaves_nothing_and_nobody(home: Path) -> None:
    pytest.importorskip("openvino_genai")
    code = f"from warmline.registry import Store; from pathlib import Path; Store(Path({str(home)!r}))"
    code += f".add_model({smollm2.PACKAGE!r}, 'b', 'openvino')"
    running = subprocess.Popen([sys.executable, "-c", code])
    try:
        soon(lambda: bool(list(home.glob("staging/*/work/raw"))))
    finally:
        running.send_signal(signal.SIGKILL)
        running.wait()
    soon(lambda: not workers_of(home), seconds=3)  # at its next report it would find out by itself
    Store(home).sweep()
    assert list((home / "staging").glob("*")) == []
    assert [name for name in state(home) if name.startswith(("blobs", "models"))] == []


def workers_of(home: Path) -> list[str]:
    """The processes that were told to import into this store."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = entry.read_bytes()
        except OSError:
            continue
        if os.fsencode(home) in line and b"importing.worker" in line:
            found.append(line.decode())
    return found


def soon(true: Callable[[], bool], seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)
