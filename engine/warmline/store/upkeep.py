"""Looks after the store: removes what nobody needs, finds what a crash left behind, and hashes everything again."""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from ..errors import ArtifactError, StoreError, WarmlineError
from ..filemodel import Backend
from ..trust import TrustStore
from ..validation import check_digest
from ..variant import VariantFile
from . import changes
from .blobs import Progress, digest_of
from .folders import digest_folder
from .records import AdapterRecord, ModelRecord, Record
from .resolution import Places
from .shelf import Listed

Kind = Literal["model", "adapter"]
# What an interrupted write under a temporary name leaves (`digests.write_atomically`), and the time in seconds after
# which no such write goes on.
_TEMPORARY: Final = re.compile(r".+\.json\.[a-z0-9_]{8}")
_OLD: Final = 3600.0


@dataclass(frozen=True, slots=True)
class Verification:
    """Whether an artifact's bytes are those that its record tells of. `error` is None where they are."""

    kind: Kind
    name: str
    backend: Backend
    path: Path | None
    expected: str | None
    found: str | None
    error: WarmlineError | None = None

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return self.error is None


@dataclass(frozen=True, slots=True)
class Swept:
    """What was left behind and is gone now; `kept` says why something that may be rubbish was left alone."""

    removed: tuple[str, ...]
    nbytes: int
    kept: tuple[str, ...] = ()


def needed_by(kind: Kind, backend: Backend, name: str, variants: Iterable[Listed[VariantFile]]) -> list[str]:
    """List the variants that name an artifact."""
    found = []
    for listed in variants:
        file = listed.record
        if file is None or listed.backend != backend:
            continue
        base = {file.base.name} if file.base.installed else set()
        named = base if kind == "model" else {each.name for each in file.adapters if each.path is None}
        if name in named:
            found.append(f"{listed.backend}/{listed.name}")
    return found


def remove(places: Places, kind: Kind, backend: Backend, name: str, variants: Iterable[Listed[VariantFile]]) -> None:
    """Remove an artifact and the blobs that were its alone. Call it with the store's lock held."""
    needed = needed_by(kind, backend, name, variants)
    if needed:
        raise StoreError(
            f"the {kind} `{name}` is needed by {', '.join(needed)}",
            code="store.needed",
            field=name,
            remedy=f"Remove what needs it first: warmline variant remove {needed[0]}",
        )
    shelf = places.models if kind == "model" else places.adapters
    folder = shelf.folder(backend, name)
    record: Record | None = None
    with contextlib.suppress(WarmlineError):  # a broken record is removed too; its blobs are the sweep's
        record = shelf.read(backend, name)
    stage = places.home / changes.STAGING / f"removed-{kind}-{backend}-{name}"
    changes.private_folder(stage.parent)
    _discard(stage)
    changes.step("found")
    changes.place(folder, stage)
    changes.step("folder gone")
    if record is not None:
        if not _others(places, record.digest):
            TrustStore(places.home / "trust.json").forget_installed(record.digest)
            changes.step("approval gone")
        referenced = referenced_digests(places)
        for digest in sorted(record.digests - referenced) if referenced is not None else ():
            with contextlib.suppress(FileNotFoundError):
                places.blobs.path(digest).unlink()
            changes.step("blob gone")
    _discard(stage)
    changes.step("rest gone")


def _others(places: Places, digest: str) -> bool:
    return any(each.record is not None and each.record.digest == digest for each in _records(places))


def _records(places: Places) -> list[Listed[ModelRecord] | Listed[AdapterRecord]]:
    return [*places.models.all(), *places.adapters.all()]


def _discard(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def referenced_digests(places: Places) -> set[str] | None:
    """Return the digests of all files that records tell of; None where a record cannot be read: it may need any."""
    digests: set[str] = set()
    for each in _records(places):
        if each.record is None:
            return None
        digests |= each.record.digests
    return digests


def sweep(places: Places, now: float) -> Swept:
    """Remove what crashes have left behind. Call it with the store's lock held.

    Parameters
    ----------
    now
        Seconds since the epoch, as files are stamped.
    """
    removed, nbytes, kept = [], 0, []
    for path in [*changes.abandoned(places.home), *_half_removed(places), *_temporaries(places.home, now)]:
        nbytes += _size(path)
        _discard(path)
        removed.append(str(path))
        changes.step("rest gone")
    removed += map(str, TrustStore(places.home / "trust.json").sweep())
    referenced = referenced_digests(places)
    for digest, path in places.blobs.all():
        if referenced is None:
            kept.append("blobs: a record cannot be read, and it may need any of them")
            break
        if digest not in referenced:
            nbytes += _size(path)
            path.unlink()
            removed.append(str(path))
            changes.step("blob gone")
    if referenced is not None:
        removed += _stale_approvals(places)
    return Swept(tuple(removed), nbytes, tuple(kept))


def _stale_approvals(places: Places) -> list[str]:
    """Take back approvals that an installation gave, and whose artifact is not there: a crash came between the two."""
    trust = TrustStore(places.home / "trust.json")
    installed = {each.record.digest for each in _records(places) if each.record}
    stale = [d for d, entry in trust.entries().items() if entry.get("by") == "install" and d not in installed]
    for digest in stale:
        trust.forget_installed(digest)
    return [f"approval of {digest}" for digest in stale]


def _half_removed(places: Places) -> list[Path]:
    """Folders on the shelves without a record: nothing we write, but whoever deletes a record by hand leaves one."""
    found = []
    for kind in ("models", "adapters"):
        for folder in sorted((places.home / kind).glob("*/*")):
            if folder.is_dir() and not folder.is_symlink() and not any(folder.iterdir()):
                found.append(folder)
    return found


def _temporaries(home: Path, now: float) -> list[Path]:
    found = []
    for folder in (home, home / "cache"):
        for path in sorted(folder.glob("*.json.*")):
            with contextlib.suppress(OSError):
                if _TEMPORARY.fullmatch(path.name) and now - path.stat().st_mtime > _OLD:
                    found.append(path)
    return found


def _size(path: Path) -> int:
    if path.is_dir() and not path.is_symlink():
        return sum(each.lstat().st_size for each in path.rglob("*"))
    return path.lstat().st_size


def verify(places: Places, kind: Kind, backend: Backend, name: str, progress: Progress | None = None) -> Verification:
    """Hash an artifact afresh, without any cache, and compare with its record."""
    shelf = places.models if kind == "model" else places.adapters
    path: Path | None = None
    expected = found = None
    try:
        record = shelf.read(backend, name)
        expected = record.digest
        path = places.model(record) if isinstance(record, ModelRecord) else places.adapter(record)
        if isinstance(record, ModelRecord) and record.format == "openvino":
            found, _ = digest_folder(path, _afresh)
        else:
            found = digest_of(path, progress)
        check_digest(found, expected, str(path))
        if isinstance(record, AdapterRecord):
            _check_files(shelf.folder(backend, name), record)
    except OSError as error:
        wrong = ArtifactError(f"it cannot be read: {error.strerror}", code="artifact.unreadable", file=str(path))
        return Verification(kind, name, backend, path, expected, found, wrong)
    except WarmlineError as error:
        if error.code == "artifact.digest":
            error.remedy = f"Remove the {kind} `{name}` and install it again"
        return Verification(kind, name, backend, path, expected, found, error)
    return Verification(kind, name, backend, path, expected, found)


def _afresh(fd: int) -> str:
    from ..digests import hash_descriptor

    return hash_descriptor(fd)


def _check_files(folder: Path, record: AdapterRecord) -> None:
    for file in record.files:
        check_digest(digest_of(folder / file.name), file.digest, str(folder / file.name))
