"""What `variant list` said of the store, kept until a file of it is touched: it reads a thousand files otherwise.

Kept under the path, inode, size, mtime and ctime of every file that the list is made of, as digests are
(`warmline.digests`), and only while none was written so lately that another write might leave no trace; and with the
like of what its variants name, wherever it lies. Nothing is kept of a workspace, nor where there are
certificates, which depend on what the variants' own files hold.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from warmline_server.file_state import FileState, state_of

_RACY_NS: Final = 2_000_000_000
_FILE: Final = "cache/variant-list.json"
# Who makes the list: with other code it may say something else.
_MAKERS: Final = ("listing.py", "labels.py", "file_state.py", "cli/variant.py")


def key_of(home: Path) -> str | None:
    """Return a digest of what the store's files are like; None where they cannot tell that they stay as they are."""
    if _entries(home / "certificates"):
        return None
    latest = time.time_ns() - _RACY_NS
    digest = hashlib.sha256()
    try:
        for path, status in _files(home):
            if max(status.st_mtime_ns, status.st_ctime_ns) > latest:
                return None
            times = status.st_mtime_ns, status.st_ctime_ns
            digest.update(repr((path, status.st_dev, status.st_ino, status.st_size, *times)).encode())
    except OSError:
        return None
    return digest.hexdigest()


def load(home: Path, key: str) -> Any:
    """Return what was kept under a key; None when nothing is, or a file that it speaks of is not as it was."""
    with contextlib.suppress(OSError, ValueError):
        kept = json.loads((home / _FILE).read_bytes())
        if isinstance(kept, dict) and kept.get("key") == key:
            return kept["list"] if all(state_of(path) == was for path, was in kept["files"].items()) else None
    return None


def keep(home: Path, key: str, what: Any, files: Mapping[str, FileState]) -> None:
    """Keep a list; a store that cannot be written is read each time.

    Parameters
    ----------
    files
        What else it speaks of, as it was when it was made.
    """
    from warmline.digests import write_atomically

    with contextlib.suppress(OSError):
        write_atomically(home / _FILE, json.dumps({"key": key, "files": files, "list": what}).encode())


def _files(home: Path) -> Iterator[tuple[str, os.stat_result]]:
    here = Path(__file__).parents[1]
    for maker in _MAKERS:
        yield maker, os.stat(here / maker)
    for name in ("config.json", "trust.json"):
        with contextlib.suppress(FileNotFoundError):
            yield name, os.stat(home / name)
    for backend in _entries(home / "variants"):
        for entry in _entries(Path(backend.path)):
            yield entry.path, entry.stat()
    for kind in ("models", "adapters"):
        for backend in _entries(home / kind):
            for entry in _entries(Path(backend.path)):
                yield entry.path, os.stat(os.path.join(entry.path, "record.json"))


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return []
