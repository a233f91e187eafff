"""Content digests, and a cache of them that notices a file rewritten behind its back.

A digest is cached under (device, inode, size, mtime, ctime), all in nanoseconds where time is meant. ctime cannot be
set by a program, so a rewrite with the same size and a restored mtime still changes the key. File systems stamp times
with a coarse clock, so two writes close together may share a stamp: a file changed less than `RACY_SECONDS` before it
was hashed is never cached (the guard that git calls "racily clean").
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import stat
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cachetools import LRUCache

from .errors import ArtifactError

DIGEST_PATTERN: Final = r"^sha256:[0-9a-f]{64}$"
RACY_SECONDS: Final = 2.0
_CHUNK: Final = 1 << 20
_CACHE_ENTRIES: Final = 4096

FileKey = tuple[int, int, int, int, int]


def is_digest(text: str) -> bool:
    """Tell whether `text` is ``sha256:`` followed by 64 lower-case hex digits."""
    return re.match(DIGEST_PATTERN, text) is not None and not text.endswith("\n")


def short(digest: str, length: int = 12) -> str:
    """Return a digest's first hex digits, for people to read."""
    return digest.removeprefix("sha256:")[:length]


def bytes_digest(data: bytes) -> str:
    """Return the digest of `data` as ``sha256:<hex>``."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


@contextlib.contextmanager
def open_regular(path: str | Path) -> Iterator[int]:
    """Open a regular file for reading and yield its descriptor.

    Raises
    ------
    ArtifactError
        ``artifact.missing``, ``artifact.unreadable`` or ``artifact.not_a_file`` (directories, FIFOs and devices; a FIFO
        is opened without blocking).
    OSError
        Reading failed; its `filename` is set.
    """
    name = str(path)
    try:
        fd = os.open(name, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    except (FileNotFoundError, NotADirectoryError):
        raise ArtifactError(
            "the file does not exist",
            code="artifact.missing",
            file=name,
            remedy="Check its path, or put the file back",
        ) from None
    except (OSError, ValueError) as error:
        raise ArtifactError(
            f"the file cannot be opened: {getattr(error, 'strerror', None) or error}",
            code="artifact.unreadable",
            file=name,
            remedy="Check its permissions and its name",
        ) from None
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise ArtifactError(
                "this is not a regular file",
                code="artifact.not_a_file",
                file=name,
                remedy="Name the model or adapter file itself, not its folder",
            )
        yield fd
    except OSError as error:
        if error.errno == errno.EIO and error.filename is None:
            error.filename = name  # else a bad disk is taken for an output that is lost
        raise
    finally:
        os.close(fd)


def file_key(fd: int) -> FileKey:
    """Return what the cache knows a file by: device, inode, size in bytes, mtime and ctime in ns."""
    return key_of(os.fstat(fd))


def key_of(status: os.stat_result) -> FileKey:
    """Return the same of a file's status."""
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def hash_descriptor(fd: int, stop: Callable[[], bool] = lambda: False) -> str:
    """Hash all bytes behind a descriptor, from offset 0, without moving its position.

    Raises
    ------
    ArtifactError
        ``artifact.stopped``: `stop` said so.
    """
    sha = hashlib.sha256()
    offset = 0
    while chunk := os.pread(fd, _CHUNK, offset):
        if stop():
            raise ArtifactError("hashing was stopped", code="artifact.stopped", remedy="Ask again")
        sha.update(chunk)
        offset += len(chunk)
    return "sha256:" + sha.hexdigest()


@dataclass(slots=True)
class DigestCache:
    """Digests by file key, in memory and, if `path` is given, in one JSON file (0600) across processes."""

    path: Path | None = None

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._entries: LRUCache[FileKey, str] = LRUCache(_CACHE_ENTRIES)
        self._load()

    _stopping: threading.Event = None  # type: ignore[assignment]  # set in __post_init__
    _lock: threading.Lock = None  # type: ignore[assignment]  # set in __post_init__
    _entries: LRUCache[FileKey, str] = None  # type: ignore[assignment]  # set in __post_init__

    def digest(self, path: str | Path) -> str:
        """Return the digest of the file at `path`; see `digest_descriptor`."""
        with open_regular(path) as fd:
            return self.digest_descriptor(fd)

    def knows(self, fd: int) -> bool:
        """Tell whether the file behind `fd` is one whose digest is in the cache."""
        with self._lock:
            return file_key(fd) in self._entries

    def stop(self) -> None:
        """End every hashing that is under way, with an error: the process wants to end."""
        self._stopping.set()

    def digest_descriptor(self, fd: int) -> str:
        """Return the digest of the bytes behind `fd`, from the cache when the file is provably the one hashed before.

        Raises
        ------
        ArtifactError
            ``artifact.changing``: the file changed while it was read.
        """
        key = file_key(fd)
        with self._lock:
            known = self._entries.get(key)
        if known is not None:
            return known
        started = time.time()
        digest = hash_descriptor(fd, self._stopping.is_set)
        if file_key(fd) != key:
            raise ArtifactError(
                "the file changed while it was read",
                code="artifact.changing",
                remedy="Wait until the copy or download is complete, then try again",
            )
        newest = max(key[3], key[4]) / 1e9
        if newest < started - RACY_SECONDS:
            with self._lock:
                self._entries[key] = digest
            self._save()
        return digest

    def seems_known(self, path: str | Path) -> bool:
        """Tell whether a file looks like one hashed before; for guessing what takes long, without opening it.

        Raises
        ------
        OSError
            There is no such file.
        """
        with self._lock:
            return key_of(os.stat(path)) in self._entries

    def known(self, fd: int) -> str | None:
        """Return the digest of a file that is provably the one hashed before; None where it had to be hashed."""
        with self._lock:
            return self._entries.get(file_key(fd))

    def _load(self) -> None:
        if self.path is None:
            return
        # A cache that cannot be read is an empty cache: every digest is then computed afresh.
        with contextlib.suppress(OSError, ValueError, TypeError, AttributeError, RecursionError):
            raw = json.loads(self.path.read_text("utf-8"))
            for text, digest in raw.items():
                key = tuple(int(part) for part in text.split(":"))
                if len(key) == 5 and isinstance(digest, str) and is_digest(digest):
                    self._entries[key] = digest

    def _save(self) -> None:
        if self.path is None:
            return
        with self._lock:
            data = {":".join(map(str, key)): digest for key, digest in self._entries.items()}
        # A read-only or full store costs time, not correctness.
        with contextlib.suppress(OSError):
            write_atomically(self.path, json.dumps(data).encode())


def private_folder(folder: Path) -> None:
    """Make a folder and those above it that are missing, for the user alone (0700)."""
    if not folder.is_dir():
        private_folder(folder.parent)
        folder.mkdir(exist_ok=True, mode=0o700)


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file so that readers see the old bytes or the new ones, never a part; mode 0600, folder 0700.

    Raises
    ------
    OSError
        As the operating system gives it; no temporary file is left behind.
    """
    private_folder(path.parent)
    handle, temporary = tempfile.mkstemp(prefix=path.name + ".", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
