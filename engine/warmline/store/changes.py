"""How the store changes: one lock across processes, a place to build new things in, and renames that make them appear.

What is new is built under ``staging/``, where nobody looks, and one rename puts it in place: a crash at any point
leaves the old state or the new one. Long copies run without the store's lock; a staging folder has a lock of its own,
which ends with its process, so that `Store.sweep` can tell what a crash has left behind.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from ..digests import private_folder as private_folder
from ..errors import StoreError, WarmlineError

LOCK_FILE: Final = "store.lock"
HOLDER_FILE: Final = "store.holder"
STAGING: Final = "staging"
LOCK_SECONDS: Final = 10.0
_FULL: Final = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_READ_ONLY: Final = {errno.EROFS, errno.EACCES, errno.EPERM}


def step(name: str) -> None:
    """Mark the place between two steps of a change; a test replaces this to stop the process there."""


def now() -> str:
    """Return the time as records keep it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


@contextlib.contextmanager
def typed_errors(home: Path) -> Iterator[None]:
    """Turn what the system refuses into a `StoreError`: ``store.full``, ``store.read_only``, ``store.failed``."""
    try:
        yield
    except OSError as error:
        raise _store_error(home, error) from error
    except WarmlineError as error:
        cause = error.__cause__
        if isinstance(cause, OSError) and cause.errno in _FULL | {errno.EROFS}:
            raise _store_error(home, cause) from error
        raise


def _store_error(home: Path, error: OSError) -> StoreError:
    file = str(error.filename or home)
    if error.errno in _FULL:
        remedy = f"Free some space on the disk of {home}, then try again; nothing was changed"
        return StoreError("the disk is full", code="store.full", file=file, remedy=remedy)
    if error.errno in _READ_ONLY:
        remedy = f"Make {home} writable for you, or set WARMLINE_HOME to a folder that is; nothing was changed"
        return StoreError("the store cannot be written", code="store.read_only", file=file, remedy=remedy)
    message = f"the store cannot be changed: {error.strerror or error}"
    return StoreError(message, code="store.failed", file=file, remedy="Check the disk; nothing was changed")


@contextlib.contextmanager
def changing(home: Path, what: str, timeout: float = LOCK_SECONDS) -> Iterator[None]:
    """Hold the store's lock.

    Parameters
    ----------
    what
        What is being done, for whoever waits in vain.
    timeout
        Seconds to wait for another process.

    Raises
    ------
    StoreError
        ``store.locked``, naming the holder where it is known; see `typed_errors` for the others.
    """
    with typed_errors(home):
        from filelock import FileLock, Timeout  # half as much to load as all that lists and resolves

        private_folder(home)
        lock = FileLock(str(home / LOCK_FILE), mode=0o600)
        try:
            lock.acquire(timeout=timeout)
        except Timeout:
            raise StoreError(
                f"the store is busy: {holder(home) or 'another process is changing it'}",
                code="store.locked",
                file=str(home / LOCK_FILE),
                remedy="Wait until that is done, or end that process, then try again",
            ) from None
        try:
            note = home / HOLDER_FILE
            note.unlink(missing_ok=True)
            write_file(note, json.dumps({"pid": os.getpid(), "what": what, "since": now()}).encode())
            yield
        finally:
            with contextlib.suppress(OSError):
                note.unlink(missing_ok=True)
            lock.release()


def holder(home: Path) -> str | None:
    """Say who holds the store's lock, by its own note; None where there is none, or its process has ended."""
    try:
        note = json.loads((home / HOLDER_FILE).read_text("utf-8"))
        pid, text = int(note["pid"]), f"process {note['pid']} has been at `{note['what']}` since {note['since']}"
    except (OSError, ValueError, KeyError, TypeError):
        return None
    with contextlib.suppress(PermissionError):  # it runs, as another user
        try:
            os.kill(pid, 0)
        except (OSError, OverflowError) as error:
            if isinstance(error, PermissionError):
                raise
            return None
    return text


@contextlib.contextmanager
def staging(home: Path, what: str) -> Iterator[Path]:
    """Give a new folder to build in, on the store's own file system; whatever is left in it goes away in the end."""
    from filelock import FileLock

    with changing(home, what):
        private_folder(home / STAGING)
        folder = Path(tempfile.mkdtemp(dir=home / STAGING))
        alive = FileLock(str(folder / "lock"), mode=0o600)
        alive.acquire(timeout=0)
    try:
        with typed_errors(home):
            yield folder
    finally:
        # The lock goes last: until then nobody sweeps the folder.
        for entry in folder.iterdir():
            if entry.name != "lock":
                shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
        alive.release()
        shutil.rmtree(folder, ignore_errors=True)


def abandoned(home: Path) -> list[Path]:
    """List staging folders whose process has ended. Call it with the store's lock held: it is taken to make one."""
    from filelock import FileLock, Timeout

    found = []
    for folder in sorted((home / STAGING).glob("*")):
        lock = FileLock(str(folder / "lock"))
        try:
            lock.acquire(timeout=0)
        except Timeout:
            continue
        except OSError:  # not a folder
            found.append(folder)
            continue
        lock.release()
        found.append(folder)
    return found


def write_file(path: Path, data: bytes) -> None:
    """Write a new file (0600) and see that it is on the disk."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def place(new: Path, target: Path) -> None:
    """Rename a file or folder into its place, and see that the rename is on the disk.

    Once it is renamed it is there: a sync that fails then is no error, it only means that a power cut may undo it.
    """
    private_folder(target.parent)
    if new.is_dir():
        sync_folder(new)
    os.replace(new, target)
    with contextlib.suppress(OSError):
        sync_folder(target.parent)


def sync_folder(folder: Path) -> None:
    """Have a folder's entries on the disk, where the system can."""
    if sys.platform == "win32":
        return
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
