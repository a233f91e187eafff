"""What installing a model and installing an adapter have in common: what is expected, and how it is put in place."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..digests import DigestCache
from ..errors import ArtifactError, CatalogError, TrustError
from ..filemodel import Backend, Trust
from ..trust import TrustStore
from ..validation import check_digest
from . import changes
from .blobs import Progress
from .records import Expectation, ModelRecord, Record, StoredFile
from .resolution import Places
from .shelf import RECORD_FILE, check_free, inside

# A staged file that becomes the blob of its digest; a name in the artifact's folder that links to a blob.
Staged = tuple[Path, str]
Link = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Installation:
    """One artifact on its way into a store.

    Parameters
    ----------
    origin
        Where it came from, where that is not where it lies now: the URL of a download.
    progress
        Called with bytes done and bytes in all.
    """

    places: Places
    name: str
    backend: Backend
    expect: Expectation | None = None
    origin: str = ""
    licence: str = ""
    progress: Progress | None = None

    @property
    def strict(self) -> bool:
        """Whether a catalog vouches for it."""
        return self.expect is not None and self.expect.curated

    def check_free(self, kind: str) -> None:
        """Refuse a name that is taken."""
        folder = inside(self.places.home, kind + "s", self.backend)
        article = "an" if kind == "adapter" else "a"
        check_free(folder, self.name, f"{article} {kind} `{self.backend}/{self.name}`")

    def check_digest(self, found: str, source: Path) -> None:
        """Compare with what the catalog promises."""
        check_digest(found, self.expect.digest if self.expect else None, str(source))

    def check_file(self, name: str, found: str, source: Path) -> None:
        """Compare a file of a folder with what the catalog promises of it; to vouch, it must do so for each."""
        if self.expect is None:
            return
        expected = self.expect.files.get(name)
        if self.strict and expected is None and found != self.expect.digest:
            raise CatalogError(
                f"the catalog `{self.expect.catalog}` vouches for `{self.name}` without the digest of {name}",
                code="catalog.digest",
                field=self.name,
                remedy="Ask the curator to list both files, or install it as your own (--own)",
            )
        check_digest(found, expected, str(source))

    def check_files(self, files: Iterable[StoredFile], folder: Path) -> None:
        """Compare a folder with the files that the catalog lists; the folder may hold more, which its digest covers."""
        there = {file.name: file.digest for file in files}
        for name, expected in (self.expect.files if self.expect else {}).items():
            if name not in there:
                message, remedy = f"the folder holds no {name}", "Ask the curator to correct the entry or its source"
                raise ArtifactError(message, code="artifact.folder", file=str(folder), remedy=remedy)
            check_digest(there[name], expected, str(folder / name))

    def hashed(self, fd: int) -> str:
        """Return the digest behind a descriptor; for a file that stays where it is, so that its first use is quick."""
        return DigestCache(self.places.home / "cache" / "digests.json").digest_descriptor(fd)

    def common(self, digest: str, size: int, source: str | Path, licence: str | None) -> dict[str, Any]:
        """Return what every record tells."""
        return {
            "name": self.name,
            "backend": self.backend,
            "digest": digest,
            "size": size,
            "source": (self.origin or str(source))[:2000],
            "licence": (self.licence or licence or "")[:200],
            "installed_at": changes.now(),
            "trust": Trust.CURATED if self.strict else Trust.USER,
            "catalog": self.expect.catalog if self.expect and self.strict else "",
            "certificate": self.expect.certificate if self.expect and self.strict else "",
        }

    def commit(
        self,
        stage: Path,
        record: Record,
        blobs: Sequence[Staged],
        links: Sequence[Link] = (),
        still: Callable[[], None] = lambda: None,
    ) -> None:
        """Put the artifact in place: its blobs and the approval first, then its folder by one rename.

        Parameters
        ----------
        still
            Raises, with the store's lock held, where what the artifact was checked against is gone.
        """
        kind = "model" if isinstance(record, ModelRecord) else "adapter"
        store = self.places.blobs
        whole = {digest: store.whole(digest) for _, digest in blobs}  # reads all of them; so before the lock is taken
        new = stage / "new"
        new.mkdir(mode=0o700)
        changes.write_file(new / RECORD_FILE, record.to_json())
        changes.step("built")
        with changes.changing(self.places.home, f"{kind} add {self.name}"), contextlib.ExitStack() as undo:
            self.check_free(kind)
            still()
            changes.step("locked")
            for staged, digest in blobs:
                if not store.stored(digest):
                    undo.callback(store.path(digest).unlink, missing_ok=True)
                store.keep(staged, digest, have=whole[digest])
                whole[digest] = True  # a second file of the same content
                changes.step("blob kept")
            for name, digest in links:
                _link(store.path(digest), new / name)
                changes.step("linked")
            # Approved first: what is in the store was always approved. An approval that a crash leaves over is swept.
            approvals = TrustStore(self.places.home / "trust.json")
            if not approvals.approved(record.digest):
                undo.callback(_forget, approvals, record.digest)
                approvals.add(record.digest, name=self.name, file=f"{kind}s/{self.backend}/{self.name}", by="install")
            changes.step("approved")
            changes.place(new, inside(self.places.home, kind + "s", self.backend, self.name))
            undo.pop_all()
            changes.step("placed")


def _forget(approvals: TrustStore, digest: str) -> None:
    with contextlib.suppress(TrustError):  # on a full disk nothing can be written; it is swept later
        approvals.forget_installed(digest)


@contextlib.contextmanager
def blaming(stage: Path, source: Path) -> Iterator[None]:
    """Name the source in errors about a staged file: the person knows no other."""
    try:
        yield
    except ArtifactError as error:
        if error.file and Path(error.file).is_relative_to(stage):
            error.file = str(source)
        raise


def _link(blob: Path, target: Path) -> None:
    """Give a blob a second name, as runtimes want it; copied only where the file system knows no second names."""
    changes.private_folder(target.parent)
    try:
        os.link(blob, target)
    except OSError:
        shutil.copyfile(blob, target)
        target.chmod(0o600)
