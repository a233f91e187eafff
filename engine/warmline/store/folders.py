"""A model that is a folder (OpenVINO): its files, and one digest over all their names and contents."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from ..digests import open_regular
from ..errors import ArtifactError
from .records import StoredFile

MAX_FILES: Final = 1_000
# Left by download tools and version control; no runtime reads them.
_IGNORED: Final = frozenset({".git", ".cache", ".gitattributes", "__pycache__", ".DS_Store"})
_DOMAIN: Final = b"warmline.folder"


def files_of(folder: Path) -> list[str]:
    """List the files of a folder: paths inside it with forward slashes, sorted; links to files count as files.

    Raises
    ------
    ArtifactError
        ``artifact.missing``, ``artifact.folder`` (no folder, or too many files), ``artifact.not_a_file`` for a FIFO,
        a device or a link that leads nowhere.
    """
    if not folder.is_dir():
        code, what = ("artifact.folder", "this is not a folder") if folder.exists() else _MISSING
        raise ArtifactError(what, code=code, file=str(folder), remedy="Give the folder that holds openvino_model.xml")
    names: list[str] = []
    for root, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name not in _IGNORED]
        for name in (*files, *(name for name in folders if os.path.islink(os.path.join(root, name)))):
            if name in _IGNORED:
                continue
            path = Path(root, name)
            if not path.is_file():
                message = "this is not a regular file"
                remedy = "Remove it, or copy the folder with its files (cp -rL)"
                raise ArtifactError(message, code="artifact.not_a_file", file=str(path), remedy=remedy)
            names.append(path.relative_to(folder).as_posix())
            if len(names) > MAX_FILES:
                message = f"the folder holds more than {MAX_FILES} files"
                remedy = "Give the model's own folder"
                raise ArtifactError(message, code="artifact.folder", file=str(folder), remedy=remedy)
    return sorted(names)


_MISSING: Final = ("artifact.missing", "there is no such folder")


def folder_digest(files: Iterable[StoredFile]) -> str:
    """Return one digest of a folder: sha256 over name, size and digest of each file, length-prefixed, by name."""
    sha = hashlib.sha256(_sized(_DOMAIN))
    for file in sorted(files, key=lambda each: each.name):
        for part in (file.name, str(file.size), file.digest):
            sha.update(_sized(part.encode("utf-8", "surrogatepass")))
    return "sha256:" + sha.hexdigest()


def digest_folder(folder: Path, digest: Callable[[int], str]) -> tuple[str, tuple[StoredFile, ...]]:
    """Hash a folder as it lies; return its digest and its files.

    Parameters
    ----------
    digest
        Gives the content digest behind a descriptor (`DigestCache.digest_descriptor`, `hash_descriptor`).
    """
    found = []
    for name in files_of(folder):
        with open_regular(folder / name) as fd:
            found.append(StoredFile(name=name, digest=digest(fd), size=os.fstat(fd).st_size))
    return folder_digest(found), tuple(found)


def _sized(data: bytes) -> bytes:
    return len(data).to_bytes(8, "big") + data
