"""The store: permissions, records and blobs, settings, approvals, KV on disk, and what a crash has left behind."""

from __future__ import annotations

import os
import stat
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from warmline.errors import WarmlineError
from warmline.registry import Listed, Store
from warmline.settings import default_variant, load_settings
from warmline.store import changes
from warmline.store.records import AdapterRecord, ModelRecord
from warmline.trust import TrustStore

from warmline_server.approval import installed_as

from ..amounts import count, size
from ..selection import UNSET_DEFAULT
from . import Check, fail, ok, warn

_LISTED: Final = 5
# Seconds after which a staging folder that nobody holds was surely not made just now.
_FRESH: Final = 60.0


def permissions(home: Path) -> Check:
    """The store is this user's, closed to others, and can be written."""
    try:
        status = os.lstat(home)
    except FileNotFoundError:
        return ok("store", f"{home} is not there yet; the first thing that is installed makes it", home=str(home))
    except OSError as error:
        return fail("store", f"{home}: {error.strerror}", "Set WARMLINE_HOME to a folder that is yours")
    if not stat.S_ISDIR(status.st_mode) and not home.is_dir():
        return fail("store", f"{home} is not a folder", "Set WARMLINE_HOME to a folder")
    if not os.access(home, os.W_OK | os.X_OK):
        return warn("store", f"{home} cannot be written", "Make it writable, if you want to install anything")
    if sys.platform != "win32":
        status = home.stat()
        if status.st_uid != os.getuid():
            return fail("store", f"{home} belongs to another user", "Set WARMLINE_HOME to a folder that is yours")
        if status.st_mode & 0o022:
            return fail("store", f"others can write into {home}", f"chmod 700 {home}")
        if status.st_mode & 0o077:
            return warn("store", f"others can read {home}", f"chmod 700 {home}")
    return ok("store", str(home), home=str(home))


def artifacts(store: Store, *, deep: bool) -> Iterator[Check]:
    """Records can be read and their files are there, of the right size; with `deep`, of the right content."""
    models, adapters = store.list_models(), store.list_adapters()
    listed: list[tuple[str, Listed[ModelRecord] | Listed[AdapterRecord]]] = []
    listed += [("model", each) for each in models]
    listed += [("adapter", each) for each in adapters]
    broken = 0
    for kind, each in listed:
        error = each.error or _wrong(store, kind, each.record, deep=deep)
        if error is not None:
            broken += 1
            remedy = error.remedy or f"warmline {kind} verify {each.name}"
            yield fail(f"{kind} {each.backend}/{each.name}", error.message, remedy, code=error.code, file=error.file)
    if not broken:
        how = "hashed afresh" if deep else "not hashed; --deep does"
        yield ok("artifacts", f"{count(len(models), 'base')} and {count(len(adapters), 'adapter')}, {how}")
    yield blobs(store)


def _wrong(store: Store, kind: str, record: ModelRecord | AdapterRecord | None, *, deep: bool) -> WarmlineError | None:
    if record is None:
        return None
    try:
        path = store.model_path(record) if isinstance(record, ModelRecord) else store.adapter_path(record)
        if deep:
            verify = store.verify_model if kind == "model" else store.verify_adapter
            return verify(record.name, record.backend).error
        found = path.stat().st_size if path.is_file() else None
    except WarmlineError as error:
        return error
    except OSError as error:
        return WarmlineError(f"{path}: {error.strerror}", code="artifact.unreadable", file=str(path))
    if path.is_dir():
        return None
    again = f"Remove the {kind} `{record.name}` and install it again"
    if found is None:
        return WarmlineError(f"{path} is gone", code="artifact.missing", file=str(path), remedy=again)
    if found != record.size:
        message = f"{path} has {found} bytes, not {record.size}"
        return WarmlineError(message, code="artifact.digest", file=str(path), remedy=again)
    return None


def blobs(store: Store) -> Check:
    """Blobs are needed, and closed to others."""
    from warmline.store.upkeep import referenced_digests

    found = list(store.places.blobs.all())
    needed = referenced_digests(store.places)
    if needed is None:
        return warn("blobs", "a broken record hides which of them are needed", "Mend the record first")
    loose = [path for digest, path in found if digest not in needed]
    nbytes = sum(path.stat().st_size for _, path in found)
    if loose:
        wasted = sum(path.stat().st_size for path in loose)
        return warn("blobs", f"{len(loose)} are needed by nothing ({size(wasted)})", "warmline doctor --sweep")
    opened = [path for _, path in found if sys.platform != "win32" and path.stat().st_mode & 0o077]
    if opened:
        return warn("blobs", f"{len(opened)} can be read by others", f"chmod 600 {opened[0].parent}/*")
    return ok("blobs", f"{count(len(found), 'file')}, {size(nbytes)}", files=len(found), bytes=nbytes)


def settings(store: Store) -> Check:
    """Settings can be read, the default variant is there, and nobody forgot that prompts are logged."""
    try:
        logged = load_settings(store.home).log_prompts
        name = default_variant(store.home)
        if name is not None:
            store.find(name)
    except WarmlineError as error:
        remedy = error.remedy if error.code != "variant.unknown" else UNSET_DEFAULT
        return fail("settings", error.message, remedy, file=error.file, code=error.code)
    if logged:
        message = "what you write is in the engine's log: the setting `log-prompts` is on"
        return warn("settings", message, "warmline config unset log-prompts", default_variant=name, log_prompts=True)
    if name is None:
        how = "warmline config set default-variant NAME"
        return ok("settings", f"no default variant; only workspaces select one ({how})")
    return ok("settings", f"default variant `{name}`", default_variant=name)


def approvals(store: Store) -> Check:
    """Approvals can be read; what is installed is approved, unless the person took that back."""
    trust = TrustStore(store.home / "trust.json")
    try:
        entries = trust.entries()
    except WarmlineError as error:
        return fail("trust", error.message, error.remedy, file=error.file)
    if sys.platform != "win32" and trust.path.exists() and trust.path.stat().st_mode & 0o022:
        return fail("trust", f"others can write {trust.path}", f"chmod 600 {trust.path}")
    loose = installed_as(store, lambda digest: digest not in entries)
    if loose:
        message = f"taken back, and still installed: {'; '.join(each.used for each in loose)}"
        return warn("trust", message, loose[0].removal, approved=len(entries), taken_back=[each.name for each in loose])
    return ok("trust", f"approved: {count(len(entries), 'digest')}", approved=len(entries))


def catalogs(home: Path) -> Check:
    """Catalogs that were added can be read."""
    from ..catalogs import all_added

    found = list(all_added(home))
    for name, added in found:
        if isinstance(added, WarmlineError):
            remedy = f"warmline catalog remove {name}, and add it again"
            return fail("catalogs", f"{added.file}: {added.message}", remedy, code=added.code)
    return ok("catalogs", count(len(found), "catalog"), names=[name for name, _ in found])


def snapshots(home: Path) -> Check:
    """KV on disk, within its budget."""
    from warmline.settings import usable_settings

    chosen = usable_settings(home)
    folder, budget = chosen.snapshots(home), chosen.snapshot_disk_mib << 20
    files = nbytes = 0
    try:
        for entry in os.scandir(folder):
            files += 1
            nbytes += entry.stat(follow_symlinks=False).st_size
    except OSError:
        return ok("KV on disk", "none")
    message = f"{count(files, 'file')}, {size(nbytes)} of {size(budget)}"
    if nbytes > budget + (64 << 20):
        return warn("KV on disk", message, "warmline cache purge", files=files, bytes=nbytes)
    return ok("KV on disk", message, files=files, bytes=nbytes)


def leftovers(store: Store) -> Check:
    """Nothing was left behind by a crash, and nobody has been holding the store's lock for long."""
    home = store.home
    note = home / changes.HOLDER_FILE
    busy = store.busy()
    if busy is not None:
        return warn("locks", busy, "Wait until that is done, or end that process")
    left = [path for path in _entries(home / changes.STAGING) if _age(path) > _FRESH and not _held(path)]
    downloads = _entries(load_downloads(home))
    if left or note.exists():
        names = ", ".join(path.name for path in left[:_LISTED]) or note.name
        return warn("locks", f"left behind by a crash: {names}", "warmline doctor --sweep", left=len(left))
    if downloads:
        names = ", ".join(path.name for path in downloads[:_LISTED])
        return ok("locks", f"none is stale; downloads that can go on: {names}")
    return ok("locks", "none is stale")


def load_downloads(home: Path) -> Path:
    """Return where unfinished downloads are."""
    from warmline.settings import usable_settings

    return usable_settings(home).downloads(home)


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _age(path: Path) -> float:
    try:
        return time.time() - path.lstat().st_mtime
    except OSError:
        return 0.0


def _held(folder: Path) -> bool:
    """Whether a living process builds in a staging folder."""
    from filelock import FileLock, Timeout

    if not (folder / "lock").exists():
        return False
    lock = FileLock(str(folder / "lock"), timeout=0)
    try:
        lock.acquire()
    except Timeout:
        return True
    except OSError:
        return False
    lock.release()
    return False
