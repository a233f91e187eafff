"""Warmline's own files, the workspace's and the variants': as the editor has them, else as they are on disk."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from warmline.digests import open_regular
from warmline.errors import WarmlineError
from warmline.filemodel import FileModel
from warmline.store.resolution import Found
from warmline.variant import MAX_FILE_BYTES, ResolvedVariant, VariantFile, WorkspaceFile
from warmline.workspace import WORKSPACE_FOLDER, Workspace

from . import uris
from .documents import DocumentStore, Snapshot
from .variants import Variants

if TYPE_CHECKING:
    from .session import Session


@dataclass(frozen=True, slots=True)
class OwnFile:
    """One of our files. `variant` is the name that a variant's file is found by, None for a workspace file."""

    path: Path
    workspace: Workspace | None
    variant: str | None = None

    @property
    def root(self) -> Path | None:
        """The workspace that it lies in; None for one of the user's store."""
        return self.workspace.root if self.workspace else None

    @property
    def model(self) -> type[FileModel]:
        """What is in it."""
        return VariantFile if self.variant is not None else WorkspaceFile

    def found(self, backend: str) -> Found:
        """Return it as the store finds it, for a variant of `backend`."""
        return Found(self.path.stem, backend, self.path, self.workspace is not None)


def own_file(variants: Variants, uri: str) -> OwnFile | None:
    """Tell what a document is to us; None where it is none of our files."""
    path = uris.to_path(uri)
    if path is None:
        return None
    place = variants.described_by(path)
    if place is not None:
        return OwnFile(path, place.workspace)
    found = variants.variant_file(path)
    return OwnFile(path, found[1], found[0]) if found else None


def is_own(path: Path) -> bool:
    """Tell whether a path lies in a workspace's folder of ours, by its name alone."""
    return WORKSPACE_FOLDER in (part.name for part in path.parents)


def resolved(variants: Variants, file: OwnFile) -> ResolvedVariant:
    """Resolve the variant that a file selects or describes; errors as in `Variants.resolve`."""
    if file.variant is not None:
        return variants.resolve_named(file.variant, file.workspace)
    place = variants.described_by(file.path)
    assert place is not None  # `own_file` found it to be one
    return variants.resolve(place)


def snapshot_of(session: Session, file: OwnFile, uri: str) -> Snapshot:
    """Give the file's text: what the editor has, else what is on disk (nothing, where that cannot be read)."""
    open_now = session.documents.get(uri)
    return open_now if open_now is not None else on_disk(file.path, session.client.encoding)


def on_disk(path: Path, encoding: str) -> Snapshot:
    """Give a file's text as it is on disk, with positions by LSP's line rules and the session's encoding."""
    return DocumentStore(encoding).open("", "json", 0, text_on_disk(path))


def text_on_disk(path: Path) -> str:
    """Read a file that people write; empty where that cannot be done."""
    try:
        # Never a plain open: of a FIFO it would wait for a writer, and the editor with it.
        with open_regular(path) as fd, open(fd, "rb", closefd=False) as file:
            return file.read(MAX_FILE_BYTES).decode("utf-8-sig", "replace")
    except (OSError, WarmlineError):
        return ""
