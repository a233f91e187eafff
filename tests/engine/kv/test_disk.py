"""KV on disk: nothing in a file is believed, every refusal has its name, and the folder stays private and bounded."""

from __future__ import annotations

import errno
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from identities import ALL, identity
from warmline import digests
from warmline.identity import Identity
from warmline.kv import disk
from warmline.kv.disk import MAGIC, DiskSnapshots
from warmline.kv.snapshots import Snapshot

A, B = identity("a"), identity("b")
PROMPT = tuple(range(40))


def kv(owner: Identity = A, tokens: tuple[int, ...] = PROMPT, data: bytes = b"kv of it") -> Snapshot:
    return Snapshot(owner, tokens, data)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "kv"


@pytest.fixture
def store(folder: Path) -> DiskSnapshots:
    return DiskSnapshots(folder)


def files(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []


def written(store: DiskSnapshots, folder: Path, snapshot: Snapshot | None = None) -> Path:
    assert store.put(snapshot or kv())
    (path,) = files(folder)
    return path


TOKENS = st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1, max_size=50).map(tuple)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(ALL), TOKENS, st.binary(max_size=5000))
def test_what_was_written_comes_back(folder: Path, owner: Identity, tokens: tuple[int, ...], data: bytes) -> None:
    store = DiskSnapshots(folder)
    store.purge()
    assert store.put(kv(owner, tokens, data))
    assert DiskSnapshots(folder).best(owner, tokens) == (kv(owner, tokens, data), len(tokens))
    (entry,) = store.entries()
    assert (entry.identity, entry.tokens) == (owner.digest, tokens)
    assert entry.nbytes == entry.path.stat().st_size
    for other in ALL:
        if other != owner:
            assert store.best(other, tokens) is None
    assert store.rejected == {}


def test_the_longest_prefix_is_found_and_only_if_long_enough(store: DiskSnapshots) -> None:
    for tokens in (PROMPT[:10], PROMPT[:30], (*PROMPT[:20], 99), (7, *PROMPT)):
        store.put(kv(tokens=tokens, data=bytes(len(tokens))))
    found = store.best(A, PROMPT)
    assert found == (kv(tokens=PROMPT[:30], data=bytes(30)), 30)
    assert store.best(A, PROMPT, more_than=29) == found
    assert store.best(A, PROMPT, more_than=30) is None
    assert store.best(A, (98,)) is None


def test_folder_and_files_are_private(store: DiskSnapshots, folder: Path) -> None:
    before = os.umask(0)
    try:
        path = written(store, folder)
    finally:
        os.umask(before)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


# -- what is wrong with a file ------------------------------------------------------------------------------------


def refused(folder: Path, path: Path) -> str:
    """Ask for the snapshot: nothing comes, the file is gone, and there is one reason."""
    store = DiskSnapshots(folder)
    assert store.best(A, PROMPT) is None
    assert not path.exists()
    ((reason, count),) = store.rejected.items()
    assert count == 1
    return reason


def test_every_bit_counts(store: DiskSnapshots, folder: Path) -> None:
    path = written(store, folder)
    good = path.read_bytes()
    reasons = set()
    for at in range(len(good)):
        bad = bytearray(good)
        bad[at] ^= 1 << at % 8
        path.write_bytes(bad)
        reasons.add(refused(folder, path))
    assert reasons == {"format", "truncated", "identity", "name", "checksum"}
    path.write_bytes(good)
    assert store.best(A, PROMPT) == (kv(), 40)


@pytest.mark.parametrize("bit", [1, 2, 4, 8, 16, 32, 64, 128])
def test_every_bit_of_the_header_counts(store: DiskSnapshots, folder: Path, bit: int) -> None:
    path = written(store, folder)
    good = path.read_bytes()
    for at in range(len(good) - 4 * len(PROMPT) - len(kv().data)):
        path.write_bytes(good[:at] + bytes([good[at] ^ bit]) + good[at + 1 :])
        refused(folder, path)


def test_every_length_counts(store: DiskSnapshots, folder: Path) -> None:
    path = written(store, folder)
    good = path.read_bytes()
    for length in range(len(good)):
        path.write_bytes(good[:length])
        assert refused(folder, path) in ("format", "truncated")
    path.write_bytes(good + b"\0")
    assert refused(folder, path) == "truncated"


def test_another_version_is_another_format(store: DiskSnapshots, folder: Path) -> None:
    path = written(store, folder)
    path.write_bytes(MAGIC[:4] + b"\2\0\0\0" + path.read_bytes()[8:])
    assert refused(folder, path) == "format"


def test_the_file_of_another_identity_under_this_ones_name(store: DiskSnapshots, folder: Path) -> None:
    path = written(store, folder)
    store.purge()
    other = written(store, folder, kv(B))
    other.rename(path)
    assert refused(folder, path) == "name"


def test_an_identity_whose_digest_collides(store: DiskSnapshots, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole encoding is compared: a digest alone does not open a file."""
    path = written(store, folder, kv(B))
    monkeypatch.setitem(A.__dict__, "digest", B.digest)
    assert refused(folder, path) == "identity"


def test_a_file_that_claims_terabytes_costs_nothing(store: DiskSnapshots, folder: Path) -> None:
    path = written(store, folder)
    path.write_bytes(path.read_bytes().replace(b'"data": 8', b'"data": 9000000000000'))
    assert refused(folder, path) in ("format", "truncated")
    store.put(kv())
    path.write_bytes(MAGIC + b"\xff" * 8)
    assert refused(folder, path) == "format"


@pytest.mark.parametrize("header", [b"[]", b"{}", b"null", b'"x"', b"[" * 30_000, b"\xff"])
def test_a_header_that_is_something_else(store: DiskSnapshots, folder: Path, header: bytes) -> None:
    path = written(store, folder)
    path.write_bytes(MAGIC + len(header).to_bytes(8, "little") + header)
    assert refused(folder, path) == "format"


def test_a_bad_file_leaves_the_next_best(store: DiskSnapshots, folder: Path) -> None:
    path = written(store, folder)
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    store.put(kv(tokens=PROMPT[:20]))
    found = store.best(A, PROMPT)
    assert found is not None and found[1] == 20
    assert store.rejected == {"checksum": 1}
    assert len(files(folder)) == 1


def test_why_a_file_of_the_identity_was_not_used_is_told_once(store: DiskSnapshots, folder: Path) -> None:
    path = written(store, folder)
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    assert store.best(A, PROMPT) is None
    assert store.refused == "checksum"
    assert store.best(A, PROMPT) is None  # it was removed
    assert store.refused is None


@pytest.mark.parametrize("whose", ["others may write it", "another user's"])
def test_what_others_can_write_is_not_believed(
    store: DiskSnapshots, folder: Path, whose: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(store, folder)
    if whose == "others may write it":
        path.chmod(0o622)
    else:
        monkeypatch.setattr(os, "getuid", lambda: path.stat().st_uid + 1)
    assert store.best(A, PROMPT) is None
    assert store.rejected == {"owner": 1}
    assert not path.exists()


def test_what_is_no_file_is_passed_over(store: DiskSnapshots, folder: Path) -> None:
    written(store, folder)
    (folder / "dir.kv").mkdir()
    os.mkfifo(folder / "fifo.kv")
    (folder / "other.txt").write_text("not ours")
    assert store.best(A, PROMPT) == (kv(), 40)
    assert (folder / "other.txt").exists()


# -- budget and order ---------------------------------------------------------------------------------------------


def aged(path: Path, seconds: float) -> None:
    then = time.time() - seconds
    os.utime(path, (then, then))


def test_the_budget_holds_and_the_least_recently_used_goes_first(folder: Path) -> None:
    size = written(DiskSnapshots(folder), folder, kv(data=bytes(1000))).stat().st_size
    store = DiskSnapshots(folder, budget=3 * size)
    store.purge()
    made = []
    for number in range(3):
        assert store.put(kv(tokens=(number, *PROMPT[1:]), data=bytes(1000)))
        (new,) = set(files(folder)) - set(made)
        made.append(new)
        aged(new, 100 - number)
    assert store.best(A, (0, *PROMPT[1:])) is not None  # a use: now the newest
    assert store.put(kv(tokens=(9, *PROMPT[1:]), data=bytes(1000)))
    assert made[0].exists() and not made[1].exists() and made[2].exists()
    assert sum(path.stat().st_size for path in files(folder)) <= 3 * size


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(st.lists(st.tuples(st.sampled_from(ALL), TOKENS, st.integers(0, 3000)), max_size=12), st.integers(0, 6000))
def test_the_budget_is_never_exceeded(
    folder: Path, puts: list[tuple[Identity, tuple[int, ...], int]], budget: int
) -> None:
    store = DiskSnapshots(folder, budget)
    store.purge()
    for owner, tokens, size in puts:
        fits = store.put(kv(owner, tokens, bytes(size)))
        assert sum(path.stat().st_size for path in files(folder)) <= budget
        assert (store.best(owner, tokens) is not None) or not fits


def test_what_does_not_fit_pushes_nothing_out(folder: Path) -> None:
    path = written(DiskSnapshots(folder), folder)
    store = DiskSnapshots(folder, budget=path.stat().st_size)
    assert not store.put(kv(B, data=bytes(5000)))
    assert path.exists()


def test_purge_removes_ours_and_nothing_else(store: DiskSnapshots, folder: Path) -> None:
    store.put(kv())
    store.put(kv(B))
    (folder / "abc.kv.tmp").write_text("left by a crash")
    (folder / "other.txt").write_text("not ours")
    assert store.purge() == 3
    assert [path.name for path in files(folder)] == ["other.txt"]
    assert store.purge() == 0
    assert store.best(A, PROMPT) is None


# -- when the disk does not play along ------------------------------------------------------------------------------


def test_no_folder(store: DiskSnapshots) -> None:
    assert store.entries() == []
    assert store.best(A, PROMPT) is None
    assert store.purge() == 0


def test_a_folder_that_cannot_be_read(tmp_path: Path) -> None:
    """A file stands in its place: the tests may run as root, whom no permission stops."""
    (tmp_path / "file").write_text("")
    store = DiskSnapshots(tmp_path / "file")
    assert not store.put(kv())
    assert store.best(A, PROMPT) is None
    assert store.entries() == []
    assert store.purge() == 0


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_folder_without_permission(store: DiskSnapshots, folder: Path) -> None:
    written(store, folder)
    folder.chmod(0)
    try:
        assert not store.put(kv(B))
        assert store.best(A, PROMPT) is None
    finally:
        folder.chmod(0o700)


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def no_space(fd: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(digests.os, "fsync", no_space)
    return


@pytest.mark.usefixtures("full_disk")
def test_a_full_disk_is_no_error_and_leaves_nothing(store: DiskSnapshots, folder: Path) -> None:
    assert not store.put(kv())
    assert files(folder) == []


def test_a_full_disk_leaves_what_was_there(store: DiskSnapshots, folder: Path, request: pytest.FixtureRequest) -> None:
    written(store, folder)
    request.getfixturevalue("full_disk")
    assert not store.put(kv(data=b"other kv"))
    assert store.best(A, PROMPT) == (kv(), 40)
    assert len(files(folder)) == 1


DIES = """
import os, signal, sys
sys.path[:0] = [sys.argv[2]]
from pathlib import Path
from warmline import digests
from warmline.kv.disk import DiskSnapshots
from warmline.kv.snapshots import Snapshot
from identities import identity

die = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
if sys.argv[3] == "written":
    digests.os.fsync = die
elif sys.argv[3] == "named":
    rename = os.replace
    digests.os.replace = lambda *names: (rename(*names), die())
else:
    real = os.fdopen
    class Half:
        def __init__(self, file): self.file = file
        def __enter__(self): return self
        def __exit__(self, *_): pass
        def write(self, data): self.file.write(data[: len(data) // 2]); self.file.flush(); die()
    digests.os.fdopen = lambda *arguments: Half(real(*arguments))
DiskSnapshots(Path(sys.argv[1])).put(Snapshot(identity("a"), tuple(range(40)), b"new kv" * 1000))
"""


@pytest.mark.parametrize(("when", "old"), [("half", True), ("written", True), ("named", False)])
def test_a_crash_while_writing_leaves_the_old_or_the_new(
    store: DiskSnapshots, folder: Path, when: str, old: bool
) -> None:
    written(store, folder)
    done = subprocess.run(
        [sys.executable, "-c", DIES, str(folder), str(Path(__file__).parent), when], capture_output=True, timeout=60
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    again = DiskSnapshots(folder)
    found = again.best(A, PROMPT)
    assert found is not None
    assert found[0].data == (b"kv of it" if old else b"new kv" * 1000)
    assert again.rejected == {}


def test_what_a_crash_left_is_swept_when_it_is_old(store: DiskSnapshots, folder: Path) -> None:
    """Young, it may belong to a process that is writing it right now."""
    written(store, folder)
    old, young = folder / "abc.kv.old", folder / "abc.kv.young"
    for path in (old, young):
        path.write_bytes(bytes(100))
    aged(old, disk._ABANDONED + 60)
    store.put(kv(B))
    assert not old.exists() and young.exists()


def test_a_refused_snapshot_can_be_removed(store: DiskSnapshots, folder: Path) -> None:
    written(store, folder)
    store.discard(kv(B))
    assert len(files(folder)) == 1
    store.discard(kv())
    store.discard(kv())
    assert files(folder) == []
