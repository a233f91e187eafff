"""Files by their content: ``blobs/sha256/<hex>``, each stored once whatever number of names it has."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ..digests import is_digest, open_regular
from ..errors import ArtifactError, StoreError

_CHUNK: Final = 1 << 20
_HEX: Final = re.compile(r"[0-9a-f]{64}")
# Called with (bytes done, bytes in all).
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Blobs:
    """The content-addressed files of a store."""

    home: Path

    @property
    def folder(self) -> Path:
        """Where they lie."""
        return self.home / "blobs" / "sha256"

    def path(self, digest: str) -> Path:
        """Return where the content with this digest is, or would be.

        Raises
        ------
        StoreError
            ``store.digest`` for anything but ``sha256:`` and 64 hex digits: a digest becomes a path here.
        """
        if not is_digest(digest):
            message = f"not a digest: {digest[:80]!r}"
            raise StoreError(message, code="store.digest", remedy="Give `sha256:` and 64 hex digits")
        return self.folder / digest.removeprefix("sha256:")

    def stored(self, digest: str) -> bool:
        """Tell whether there is such a file; its content is not read."""
        try:
            return stat.S_ISREG(os.lstat(self.path(digest)).st_mode)
        except OSError:
            return False

    def whole(self, digest: str) -> bool:
        """Tell whether the file is there and its content still has this digest; reads all of it."""
        try:
            return self.stored(digest) and digest_of(self.path(digest)) == digest
        except (ArtifactError, OSError):
            return False

    def keep(self, staged: Path, digest: str, *, have: bool) -> None:
        """Make a staged file (already on the disk) the blob of its digest. Call it with the store's lock held.

        With `have`, a blob that was found whole stays: files that share it go on sharing it.
        """
        from . import changes

        target = self.path(digest)
        if have and self.stored(digest):
            staged.unlink()
            return
        changes.place(staged, target)

    def all(self) -> Iterator[tuple[str, Path]]:
        """Yield (digest, path) of all files that are named as blobs are."""
        with contextlib.suppress(OSError):
            for entry in sorted(os.scandir(self.folder), key=lambda each: each.name):
                if _HEX.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
                    yield "sha256:" + entry.name, Path(entry.path)


def copy_in(fd: int, target: Path, progress: Progress | None = None, done: int = 0, total: int = 0) -> tuple[str, int]:
    """Copy what is behind a descriptor into a new file (0600); return its digest, taken on the way, and its size.

    Parameters
    ----------
    done, total
        Bytes before this file and of all files, for `progress`; a total of 0 means this file's size.
    """
    sha = hashlib.sha256()
    offset = 0
    total = total or os.fstat(fd).st_size
    out = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o600)
    try:
        while chunk := os.pread(fd, _CHUNK, offset):
            sha.update(chunk)
            view = memoryview(chunk)
            while view:
                view = view[os.write(out, view) :]
            offset += len(chunk)
            if progress is not None:
                progress(done + offset, total)
        os.fsync(out)
    finally:
        os.close(out)
    return "sha256:" + sha.hexdigest(), offset


def digest_of(path: Path, progress: Progress | None = None) -> str:
    """Hash a regular file afresh, without any cache."""
    sha = hashlib.sha256()
    offset = 0
    with open_regular(path) as fd:
        total = os.fstat(fd).st_size
        while chunk := os.pread(fd, _CHUNK, offset):
            sha.update(chunk)
            offset += len(chunk)
            if progress is not None:
                progress(offset, total)
    return "sha256:" + sha.hexdigest()
