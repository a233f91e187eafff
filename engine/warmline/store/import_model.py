"""Installs an OpenVINO model that is made of a GGUF base here; what lies in the store is the model, not the GGUF."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..artifacts.openvino_ir import plan_import
from ..digests import file_key, open_regular
from ..errors import ArtifactError
from ..validation import read_base
from . import changes
from .blobs import digest_of
from .folders import files_of, folder_digest
from .install_model import licence_of
from .installing import Installation
from .records import ModelRecord, StoredFile
from .resolution import MODEL_FOLDER

if TYPE_CHECKING:
    from ..artifacts.openvino_ir import Precision


def import_model(todo: Installation, path: Path, text: str, precision: Precision, facts: dict[str, Any]) -> ModelRecord:
    """Import a GGUF file, and install what was made of it.

    Parameters
    ----------
    text
        What errors call the file.
    facts
        More for the record.

    Raises
    ------
    ArtifactError
        ``artifact.gguf.*``, ``artifact.base.*``, ``artifact.import.*``; ``artifact.changing`` where the file changed.
    BackendError
        ``backend.missing``.
    StoreError
        ``store.full`` before anything is done.
    """
    from ..importing.process import check_package, check_space, import_gguf, sync, time_limit

    with open_regular(path) as fd:
        key = file_key(fd)
        header = read_base(fd, label=text, thorough=True)
        plan = plan_import(header)
        check_package()
        digest = todo.hashed(fd)
    todo.check_digest(digest, path)
    with changes.staging(todo.places.home, f"model add {todo.name}") as stage:
        check_space(stage, header, plan)
        made = stage / "made"
        work = stage / "work"
        work.mkdir(mode=0o700)
        import_gguf(
            path,
            made,
            work,
            label=text,
            digest=digest,
            precision=precision,
            seconds=time_limit(header.file_size),
            progress=todo.progress,
        )
        _check_unchanged(path, key)
        sync(made)
        files = [_stored(made, name) for name in files_of(made)]
        record = ModelRecord.model_validate(
            todo.common(folder_digest(files), sum(file.size for file in files), text, licence_of(header))
            | {"format": "openvino", "architecture": header.get_str("general.architecture") or ""}
            | {"files": tuple(files), "source_digest": digest, "precision": precision}
            | facts
        )
        blobs = [(made / file.name, file.digest) for file in files]
        todo.commit(stage, record, blobs, [(f"{MODEL_FOLDER}/{file.name}", file.digest) for file in files])
    return record


def _stored(folder: Path, name: str) -> StoredFile:
    path = folder / name
    return StoredFile(name=name, digest=digest_of(path), size=os.path.getsize(path))


def _check_unchanged(path: Path, key: tuple[int, ...]) -> None:
    """The worker read the file by its name: it must be the very file that was hashed."""
    with open_regular(path) as fd:
        if file_key(fd) != key:
            message, remedy = "the file changed while it was imported", "Leave it alone, and try again"
            raise ArtifactError(message, code="artifact.changing", file=str(path), remedy=remedy)
