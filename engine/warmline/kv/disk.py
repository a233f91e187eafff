"""Snapshots on disk, so that a restarted engine begins warm. They are transcripts: 0600, bounded, purged on demand.

File format (all integers little endian): 8 bytes magic ``WLKV`` + version as u32; u64 header length; header as JSON
(identity digest, its encoding as hex, token count, data length, sha256 over tokens and data); tokens as i32; data as
the backend wrote it. A file is named by the digest of its identity and tokens, and is written whole or not at all.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import struct
import sys
import time
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ..digests import bytes_digest, open_regular, write_atomically
from ..errors import WarmlineError
from ..identity import Identity
from .prefix import common_prefix
from .snapshots import Snapshot, token_key

MAGIC: Final = b"WLKV" + struct.pack("<I", 1)
MAX_HEADER: Final = 1 << 16
DEFAULT_BUDGET: Final = 1 << 30
SUFFIX: Final = ".kv"
# Seconds: a part of a file that is older was left by a process that died while writing it.
_ABANDONED: Final = 600
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Entry:
    """One file: what it is for, without its data."""

    path: Path
    identity: str
    tokens: tuple[int, ...]
    nbytes: int
    used_at: float


class DiskSnapshots:
    """A folder of snapshots (0700) within a byte budget, least recently used first out.

    Nothing in a file is believed before its checksum holds and its identity is the one asked for; a file that fails
    is removed and counted as ``rejected:<why>``.
    """

    def __init__(self, folder: Path, budget: int = DEFAULT_BUDGET) -> None:
        self._folder = folder
        self._budget = budget
        self.rejected: dict[str, int] = {}
        #: Why the latest look-up could not use a file of its identity.
        self.refused: str | None = None

    def entries(self) -> list[Entry]:
        """List the files by last use, oldest first; unreadable ones are removed."""
        found = []
        try:
            paths = [path for path in self._folder.iterdir() if path.suffix == SUFFIX]
        except OSError:
            return []
        for path in paths:
            try:
                with open_regular(path) as fd:
                    head = _read_head(fd)
                    status = os.fstat(fd)
                if path.name != _name(head.identity, head.tokens):
                    raise _RejectedError("name")
                found.append(Entry(path, head.identity, head.tokens, status.st_size, status.st_mtime))
            except (_RejectedError, WarmlineError, OSError) as error:
                self._reject(path, error)
        return sorted(found, key=lambda entry: entry.used_at)

    def best(self, identity: Identity, prompt: Sequence[int], *, more_than: int = 0) -> tuple[Snapshot, int] | None:
        """Return the identity's snapshot that shares most leading tokens with `prompt`, if more than `more_than`."""
        self.refused = None
        ours = [entry for entry in self.entries() if entry.identity == identity.digest]
        ranked = sorted(((common_prefix(entry.tokens, prompt), entry) for entry in ours), key=lambda pair: -pair[0])
        for shared, entry in ranked:
            if shared <= more_than:
                break
            snapshot = self._load(entry.path, identity)
            if snapshot is not None:
                with contextlib.suppress(OSError):
                    os.utime(entry.path)
                return snapshot, shared
        return None

    def put(self, snapshot: Snapshot) -> bool:
        """Write a snapshot, making room as needed; False when it does not fit or the disk refuses."""
        tokens = array("i", snapshot.tokens).tobytes()
        checksum = hashlib.sha256(tokens + snapshot.data).hexdigest()
        header = json.dumps(
            {
                "identity": snapshot.identity.digest,
                "encoding": snapshot.identity.encode().hex(),
                "tokens": len(snapshot.tokens),
                "data": len(snapshot.data),
                "checksum": checksum,
            }
        ).encode()
        size = len(MAGIC) + 8 + len(header) + len(tokens) + len(snapshot.data)
        if size > self._budget or len(header) > MAX_HEADER:
            return False
        name = _name(snapshot.identity.digest, snapshot.tokens)
        self._make_room(size)
        try:
            write_atomically(
                self._folder / name, b"".join([MAGIC, struct.pack("<Q", len(header)), header, tokens, snapshot.data])
            )
        except OSError as error:
            # Nothing that was asked for fails by it; but the next start is cold, and somebody may wonder why.
            _log.warning(
                "a snapshot of %d MiB cannot be written: %s", size >> 20, error.strerror or type(error).__name__
            )
            return False
        return True

    def discard(self, snapshot: Snapshot) -> None:
        """Remove a snapshot, for example one that the backend refused; no error when it is not there."""
        with contextlib.suppress(OSError):
            (self._folder / _name(snapshot.identity.digest, snapshot.tokens)).unlink()

    def purge(self) -> int:
        """Remove every snapshot; return how many there were."""
        count = 0
        with contextlib.suppress(OSError):
            for path in self._folder.iterdir():
                if path.name.partition(SUFFIX)[1]:
                    with contextlib.suppress(OSError):
                        path.unlink()
                        count += 1
        return count

    def _make_room(self, size: int) -> None:
        self._sweep()
        entries = self.entries()
        used = sum(entry.nbytes for entry in entries)
        for entry in entries:
            if used + size <= self._budget:
                return
            with contextlib.suppress(OSError):
                entry.path.unlink()
            used -= entry.nbytes

    def _sweep(self) -> None:
        """Remove what a process left behind that died while it wrote."""
        with contextlib.suppress(OSError):
            for path in self._folder.glob(f"*{SUFFIX}.*"):
                with contextlib.suppress(OSError):
                    if path.stat().st_mtime < time.time() - _ABANDONED:
                        path.unlink()

    def _load(self, path: Path, identity: Identity) -> Snapshot | None:
        try:
            with open_regular(path) as fd:
                head = _read_head(fd)
                if head.encoding != identity.encode().hex():
                    raise _RejectedError("identity")
                data = b""
                while len(data) < head.nbytes:
                    more = os.pread(fd, head.nbytes - len(data), head.offset + len(data))
                    if not more:
                        raise _RejectedError("truncated")
                    data += more
            if hashlib.sha256(array("i", head.tokens).tobytes() + data).hexdigest() != head.checksum:
                raise _RejectedError("checksum")
        except (_RejectedError, WarmlineError, OSError, MemoryError) as error:
            self.refused = self._reject(path, error)
            return None
        return Snapshot(identity, head.tokens, data)

    def _reject(self, path: Path, error: Exception) -> str:
        why = str(error) if isinstance(error, _RejectedError) else "unreadable"
        self.rejected[why] = self.rejected.get(why, 0) + 1
        try:
            path.unlink()
        except OSError as refused:
            _log.warning("the snapshot %s is not used: %s; it stays: %s", path.name, why, refused.strerror)
        else:
            _log.warning("the snapshot %s is removed: %s", path.name, why)
        return why


def _name(identity: str, tokens: Sequence[int]) -> str:
    return hashlib.sha256(identity.encode() + token_key(tokens)).hexdigest() + SUFFIX


def _agree(identity: str, encoding: str) -> bool:
    try:
        return bytes_digest(bytes.fromhex(encoding)) == identity
    except ValueError:
        return False


class _RejectedError(Exception):
    pass


@dataclass(frozen=True, slots=True)
class _Head:
    identity: str
    encoding: str
    checksum: str
    tokens: tuple[int, ...]
    nbytes: int
    offset: int


def _read_head(fd: int) -> _Head:
    """Return the checked header and the tokens; `offset` and `nbytes` say where the data lies."""
    status = os.fstat(fd)
    # Its checksum has no key: what another user can write is not ours to believe.
    if sys.platform != "win32" and (status.st_uid != os.getuid() or status.st_mode & 0o022):
        raise _RejectedError("owner")
    size = status.st_size
    fixed = os.pread(fd, len(MAGIC) + 8, 0)
    if len(fixed) != len(MAGIC) + 8 or not fixed.startswith(MAGIC):
        raise _RejectedError("format")
    (length,) = struct.unpack_from("<Q", fixed, len(MAGIC))
    if length > MAX_HEADER:
        raise _RejectedError("format")
    try:
        raw = json.loads(os.pread(fd, length, len(fixed)))
        texts = [raw[name] for name in ("identity", "encoding", "checksum")]
        count, nbytes = raw["tokens"], raw["data"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise _RejectedError("format") from None
    if not all(isinstance(text, str) for text in texts) or type(count) is not int or type(nbytes) is not int:
        raise _RejectedError("format")
    at = len(fixed) + length
    if count < 0 or nbytes < 0 or at + 4 * count + nbytes != size:
        raise _RejectedError("truncated")
    tokens = array("i")
    tokens.frombytes(os.pread(fd, 4 * count, at))
    identity, encoding, checksum = texts
    if not _agree(identity, encoding):
        raise _RejectedError("identity")
    return _Head(identity, encoding, checksum, tuple(tokens), nbytes, at + 4 * count)
