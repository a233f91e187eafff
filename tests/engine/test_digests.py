"""Digests: never stale, whatever is done to a file's times."""

from __future__ import annotations

import errno
import hashlib
import json
import os
from pathlib import Path

import pytest
from warmline import digests
from warmline.digests import DigestCache, bytes_digest, is_digest, open_regular, write_atomically
from warmline.errors import ArtifactError


def age(path: Path, seconds: float = 60) -> None:
    status = os.stat(path)
    os.utime(path, ns=(status.st_atime_ns, int(status.st_mtime_ns - seconds * 1e9)))


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The descriptors that were really read."""
    calls: list[int] = []
    real = digests.hash_descriptor

    def counted(fd: int, *_stop: object) -> str:
        calls.append(fd)
        return real(fd)

    monkeypatch.setattr(digests, "hash_descriptor", counted)
    return calls


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a minute pass between writing and hashing, so that the racy-write guard lets the cache work."""
    now = digests.time.time
    monkeypatch.setattr(digests.time, "time", lambda: now() + 60)


def test_row_12_same_size_and_restored_mtime_is_noticed(tmp_path: Path, later: None) -> None:
    file = tmp_path / "adapter.gguf"
    file.write_bytes(b"old bytes")
    status = os.stat(file)
    cache = DigestCache()
    before = cache.digest(file)
    file.write_bytes(b"new bytes")
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert cache.digest(file) == bytes_digest(b"new bytes") != before


def test_an_unchanged_file_is_hashed_once(tmp_path: Path, later: None, hashed: list[int]) -> None:
    file = tmp_path / "model.gguf"
    file.write_bytes(b"x" * 3_000_000)
    cache = DigestCache()
    first = cache.digest(file)
    assert cache.digest(file) == first == "sha256:" + hashlib.sha256(b"x" * 3_000_000).hexdigest()
    assert len(hashed) == 1


def test_a_file_just_written_is_not_cached(tmp_path: Path, hashed: list[int]) -> None:
    file = tmp_path / "model.gguf"
    file.write_bytes(b"x")
    cache = DigestCache()
    cache.digest(file)
    cache.digest(file)
    assert len(hashed) == 2


def test_the_cache_outlives_the_process_and_survives_damage(tmp_path: Path, later: None, hashed: list[int]) -> None:
    file = tmp_path / "model.gguf"
    file.write_bytes(b"x")
    store = tmp_path / "cache" / "digests.json"
    DigestCache(store).digest(file)
    assert os.stat(store).st_mode & 0o777 == 0o600
    assert DigestCache(store).digest(file) == bytes_digest(b"x")
    assert len(hashed) == 1
    for damage in ("", "[]", "{", json.dumps({"1:2": "sha256:no"}), json.dumps({"a:b:c:d:e": 1}), "\x00"):
        store.write_text(damage)
        assert DigestCache(store).digest(file) == bytes_digest(b"x")


def test_a_failing_disk_is_told_of_with_the_file(tmp_path: Path) -> None:
    """What has no file is taken for an output that is lost."""
    file = tmp_path / "model.gguf"
    file.write_bytes(b"x")
    with pytest.raises(OSError, match="Input") as caught, open_regular(file):
        raise OSError(errno.EIO, "Input/output error")
    assert caught.value.filename == str(file)


def test_a_file_that_changes_while_it_is_read_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "model.gguf"
    file.write_bytes(b"x")

    def meddle(fd: int, *_stop: object) -> str:
        file.write_bytes(b"yy")
        return "sha256:" + "0" * 64

    monkeypatch.setattr(digests, "hash_descriptor", meddle)
    with pytest.raises(ArtifactError) as caught:
        DigestCache().digest(file)
    assert caught.value.code == "artifact.changing"


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for name, code in (
        ("fifo", "artifact.not_a_file"),
        (".", "artifact.not_a_file"),
        ("no", "artifact.missing"),
        ("a\0b", "artifact.unreadable"),
    ):
        with pytest.raises(ArtifactError) as caught:
            DigestCache().digest(tmp_path / name)
        assert caught.value.code == code
        assert caught.value.file
        assert caught.value.remedy


@pytest.mark.parametrize(
    ("text", "good"),
    [
        ("sha256:" + "a" * 64, True),
        ("sha256:" + "A" * 64, False),
        ("sha256:" + "a" * 63, False),
        ("sha256:" + "a" * 64 + "\n", False),
        ("../" + "a" * 64, False),
    ],
)
def test_strict_digests(text: str, good: bool) -> None:
    assert is_digest(text) is good


def test_a_failed_write_leaves_the_old_file_and_no_rubbish(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "x.json"
    write_atomically(file, b"old")

    def full(_fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(digests.os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_atomically(file, b"new")
    assert file.read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["x.json"]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no modes")
def test_every_folder_that_is_made_is_the_users_alone(tmp_path: Path) -> None:
    write_atomically(tmp_path / "home/cache/digests.json", b"{}")
    assert [(tmp_path / each).stat().st_mode & 0o777 for each in ("home", "home/cache")] == [0o700, 0o700]
