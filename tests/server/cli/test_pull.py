"""`warmline model pull`: from a hub that HF_ENDPOINT names, checked by digest, and resumed."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_backend import write_base
from fake_hub import COMMIT, FakeHub
from store_tools import openvino_model
from warmline.errors import WarmlineError
from warmline_server.cli.hub import look

Run = Callable[..., Any]
CHUNK = 1 << 20  # what is written at once


@pytest.fixture
def hub() -> Iterator[FakeHub]:
    with FakeHub().running() as hub:
        yield hub


@pytest.fixture
def pull(warmline: Run, hub: FakeHub, tmp_path: Path) -> Run:
    """Pull from the hub of the test; nothing of the user's own is read."""

    def run(*arguments: str, **environment: str) -> Any:
        own = {"HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "hf"), "HF_TOKEN": ""}
        return warmline("model", "pull", *arguments, environment=own | environment)

    return run


@pytest.fixture
def base(tmp_path: Path) -> bytes:
    return write_base(tmp_path / "base.gguf").read_bytes()


def test_the_only_gguf_of_a_repository(pull: Run, warmline: Run, hub: FakeHub, home: Path, base: bytes) -> None:
    hub.repos["acme/Tiny-GGUF"] = {"README.md": b"hello", "Tiny.Q4.gguf": base}
    done = pull("acme/Tiny-GGUF", "--json")
    assert done.code == 0, done.err + done.out
    assert done.json["name"] == "tiny.q4"
    assert done.json["digest"] == "sha256:" + hashlib.sha256(base).hexdigest()
    assert done.json["copied"] is True
    assert done.json["licence"] == "apache-2.0"
    assert done.json["source"] == f"{hub.url}/acme/Tiny-GGUF/tree/{COMMIT}/Tiny.Q4.gguf"
    assert warmline("model", "verify", "tiny.q4").code == 0
    assert list((home / "downloads").iterdir()) == []
    assert not any("README" in path for _, path, _ in hub.requests)


def test_one_of_several_files_must_be_named(pull: Run, hub: FakeHub, base: bytes) -> None:
    hub.repos["acme/t"] = {"a.gguf": base, "b.gguf": base + b"\0" * 32}
    error = pull("acme/t", "--json").json["error"]
    assert error["code"] == "hub.choose"
    assert "acme/t:a.gguf" in error["remedy"]
    assert pull("acme/t:b.gguf", "--name", "x", "--json").json["name"] == "x"
    assert pull("acme/t:c.gguf", "--json").json["error"]["code"] == "hub.unknown"


def test_an_openvino_folder_comes_whole(pull: Run, warmline: Run, hub: FakeHub, tmp_path: Path) -> None:
    folder = openvino_model(tmp_path / "ov", b"w" * 5000)
    files = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    hub.repos["acme/ov"] = {**files, ".gitattributes": b"x"}
    done = pull("acme/ov", "--json")
    assert done.code == 0, done.out
    assert (done.json["name"], done.json["backend"]) == ("ov", "openvino")
    assert warmline("model", "verify", "ov").code == 0
    path = Path(warmline("model", "show", "ov", "--json").json["path"])
    assert sorted(each.name for each in path.iterdir()) == sorted(files)


def test_a_broken_download_goes_on_where_it_stopped(pull: Run, hub: FakeHub, home: Path, base: bytes) -> None:
    hub.repos["acme/t"] = {"big.gguf": big(base)}
    hub.cut_after, hub.cuts, hub.goes_down = CHUNK + 1000, 1, True
    failed = pull("acme/t", "--json")
    assert (failed.code, failed.json["error"]["code"]) == (1, "hub.failed")
    assert list(home.rglob("record.json")) == []
    hub.down = hub.goes_down = False
    done = pull("acme/t", "--json")
    assert done.code == 0, done.out
    assert hub.ranges == ["", f"bytes={CHUNK}-", f"bytes={CHUNK}-"]
    assert done.json["digest"] == "sha256:" + hashlib.sha256(big(base)).hexdigest()


def test_a_connection_that_breaks_once_is_made_again(pull: Run, hub: FakeHub, base: bytes) -> None:
    hub.repos["acme/t"] = {"big.gguf": big(base)}
    hub.cut_after, hub.cuts = CHUNK + 1000, 1
    assert pull("acme/t", "--json").code == 0
    assert hub.ranges == ["", f"bytes={CHUNK}-"]


@pytest.mark.parametrize("name", ["large.gguf", "small.json"])
def test_other_bytes_than_stated_are_refused(
    pull: Run, hub: FakeHub, home: Path, base: bytes, tmp_path: Path, name: str
) -> None:
    """The length is right: only the digest tells."""
    if name == "large.gguf":
        hub.repos["acme/t"] = {name: base}
        hub.served[name] = base[:-1] + b"\x07"
    else:
        folder = openvino_model(tmp_path / "ov")
        hub.repos["acme/t"] = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
        hub.served["config.json"] = b"[]"
    for _ in range(2):  # and are not taken from the disk the second time
        error = pull("acme/t", "--json").json["error"]
        assert error["code"] == "artifact.digest"
    assert list(home.rglob("record.json")) == []


def test_a_digest_of_ones_own_is_held_to(pull: Run, hub: FakeHub, home: Path, base: bytes) -> None:
    hub.repos["acme/t"] = {"a.gguf": base}
    other = "sha256:" + "0" * 64
    assert pull("acme/t", "--digest", other, "--json").json["error"]["code"] == "artifact.digest"
    assert list(home.rglob("record.json")) == []
    right = "sha256:" + hashlib.sha256(base).hexdigest()
    assert pull("acme/t", "--digest", right, "--json").code == 0
    assert pull("acme/t", "--digest", "123", "--json").code == 2


@pytest.mark.parametrize("name", ["../../x.gguf", "/etc/x.gguf", "a\\..\\x.gguf", "c:x.gguf"])
def test_a_file_name_that_leads_out_is_refused(pull: Run, hub: FakeHub, base: bytes, name: str) -> None:
    hub.repos["acme/t"] = {name: base}
    assert pull("acme/t", "--json").json["error"]["code"] == "hub.failed"


def test_errors_of_a_hub_have_names(pull: Run, hub: FakeHub, base: bytes) -> None:
    hub.repos["acme/t"] = {"a.gguf": base}
    hub.repos["acme/none"] = {"README.md": b"x"}
    hub.gated.add("acme/gated")
    cases = {
        ("acme/unknown",): "hub.unknown",
        ("acme/t", "--revision", "v9"): "hub.unknown",
        ("acme/gated",): "hub.gated",
        ("acme/none",): "hub.empty",
        ("a b/c",): "hub.reference",
        ("acme/t", "--name", "A B"): "store.name",
    }
    for arguments, code in cases.items():
        error = pull(*arguments, "--json").json["error"]
        assert (error["code"], bool(error["remedy"])) == (code, True), arguments
    down = pull("acme/t", "--json", HF_ENDPOINT="http://127.0.0.1:9").json["error"]
    assert down["code"] == "hub.unreachable"


def test_a_hub_that_states_no_digest_needs_the_persons(pull: Run, hub: FakeHub, home: Path, base: bytes) -> None:
    hub.repos["acme/t"] = {"a.gguf": base}
    hub.stated = False
    hub.served["a.gguf"] = base[:-1] + b"\x07"
    error = pull("acme/t", "--json").json["error"]
    assert (error["code"], "--digest" in error["remedy"]) == ("hub.no_digest", True)
    assert hub.ranges == []
    right = "sha256:" + hashlib.sha256(base).hexdigest()
    assert pull("acme/t", "--digest", right, "--json").json["error"]["code"] == "artifact.digest"
    assert list(home.rglob("record.json")) == []
    hub.served.clear()  # what arrived before is not taken for it
    assert pull("acme/t", "--digest", right, "--json").code == 0


SHA = "0" * 64
NONSENSE: dict[str, bytes] = {
    **{
        f"size {size!r}": json.dumps([{"rfilename": "a.gguf", "size": size, "blobId": "0" * 40}]).encode()
        for size in (None, "x", -5, 1.5, True, [])
    },
    **{f"name {name!r}": json.dumps([{"rfilename": name, "size": 1}]).encode() for name in (5, None, "", [1])},
    "git's digest": b'[{"rfilename": "a.gguf", "size": 1, "blobId": 7}]',
    "digest": b'[{"rfilename": "a.gguf", "size": 1, "lfs": {"sha256": "../x", "size": 1, "pointerSize": 1}}]',
    "no files": b"[null]",
    "deep": b"[" * 100_000,
}


@pytest.mark.parametrize("name", NONSENSE)
def test_an_answer_that_makes_no_sense_is_the_hubs(hub: FakeHub, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", hub.url)
    siblings = NONSENSE[name]
    answer = b'{"id": "acme/t", "sha": "' + COMMIT.encode() + b'", "siblings": ' + siblings + b"}"
    hub.repos["acme/t"] = {}
    hub.description = siblings if name == "deep" else answer
    with pytest.raises(WarmlineError) as caught:
        look("acme/t", None, None)
    assert (caught.value.code, bool(caught.value.remedy)) == ("hub.failed", True)
    if name == "size None":
        assert "does not state the size" in caught.value.message


def test_a_taken_name_is_refused_before_anything_is_fetched(pull: Run, hub: FakeHub, base: bytes) -> None:
    hub.repos["acme/t"] = {"a.gguf": base}
    assert pull("acme/t", "--json").code == 0
    hub.requests.clear()
    assert pull("acme/t", "--json").json["error"]["code"] == "store.exists"
    assert hub.ranges == []


def test_without_the_extra_it_says_how_to_add_it(warmline: Run, tmp_path: Path) -> None:
    (tmp_path / "huggingface_hub.py").write_text("raise ImportError('not here')")
    path = {"PYTHONPATH": str(tmp_path) + ":" + ":".join(each for each in sys.path if each)}
    error = warmline("model", "pull", "acme/t", "--json", environment=path).json["error"]
    assert error["code"] == "hub.missing"
    assert "warmline[hub]" in error["remedy"]


def big(base: bytes) -> bytes:
    """A model of 3 MB: what follows the last tensor is not read."""
    return base.ljust(3 << 20, b"\0")
