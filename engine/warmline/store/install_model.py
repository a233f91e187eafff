"""Installs a base: a GGUF file, a file of a Python package, or an OpenVINO folder; copied, referenced or imported."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ..artifacts.gguf import GGUFHeader
from ..digests import open_regular
from ..errors import StoreError
from ..validation import check_backend, check_not_pickle, read_base
from . import changes
from .blobs import copy_in
from .folders import digest_folder, files_of, folder_digest
from .installing import Installation, Link, Staged
from .records import ModelRecord, StoredFile
from .resolution import MODEL_FOLDER, package_file
from .shelf import check_name

if TYPE_CHECKING:
    from ..artifacts.openvino_ir import Precision

_PACKAGE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*:[^/\\][^\\]*")
Made = tuple[ModelRecord, list[Staged], list[Link]]


def install_model(
    todo: Installation, source: str | Path, *, copy: bool, precision: Precision, merged_from: str | None
) -> ModelRecord:
    """See `registry.Store.add_model`."""
    check_name(todo.name)
    _check_merged(merged_from)
    text = str(source)
    package = text if _PACKAGE.fullmatch(text) and not os.path.lexists(text) else None
    path = package_file(package, text, "package") if package else Path(os.path.abspath(source))
    check_not_pickle(path)
    todo.check_free("model")
    where: dict[str, Any] = {"merged_from": merged_from}
    if todo.backend == "openvino" and not path.is_dir():
        from .import_model import import_model

        return import_model(todo, path, text, precision, where)
    check_backend("openvino" if path.is_dir() else "gguf", todo.backend, text)
    if not copy:
        where |= {"package": package} if package else {"path": str(path)}
    with changes.staging(todo.places.home, f"model add {todo.name}") as stage:
        make = _folder if path.is_dir() else _file
        record, blobs, links = make(todo, path, text, stage, where, copy)
        todo.commit(stage, record, blobs, links)
    return record


def _check_merged(merged_from: str | None) -> None:
    if merged_from is not None and not (merged_from.isprintable() and 0 < len(merged_from.strip()) <= 200):
        message = "what the model was merged from is not 1 to 200 printable characters"
        raise StoreError(message, code="store.merged", field="merged_from", remedy="Name it as `base+adapter`")


def _file(todo: Installation, path: Path, text: str, stage: Path, where: dict[str, Any], copy: bool) -> Made:
    with open_regular(path) as fd:
        header = read_base(fd, label=text, thorough=not copy)
        if copy:
            digest, size = copy_in(fd, stage / "0", todo.progress)
        else:
            digest, size = todo.hashed(fd), os.fstat(fd).st_size
    if copy:  # what counts are the bytes that are kept, not those that were there a moment ago
        header = read_base(stage / "0", label=text, thorough=True)
    todo.check_digest(digest, path)
    facts = {"format": "gguf", "architecture": header.get_str("general.architecture") or ""}
    common = todo.common(digest, size, text, licence_of(header))
    record = ModelRecord.model_validate(common | facts | where)
    return record, [(stage / "0", digest)] if copy else [], []


def licence_of(header: GGUFHeader) -> str | None:
    """Give the licence that a GGUF file names."""
    found = header.metadata.get("general.license")
    return found if isinstance(found, str) else None


def _folder(todo: Installation, path: Path, text: str, stage: Path, where: dict[str, Any], copy: bool) -> Made:
    from ..backends.openvino_facts import FolderConfig
    from ..verified_openvino import read_folder

    names = files_of(path)
    read_folder(path)  # refused here with what it would be refused with when it is used
    architecture = FolderConfig(path).architecture()
    blobs: list[Staged] = []
    if copy:
        files, done, total = [], 0, sum(os.path.getsize(path / name) for name in names)
        for number, name in enumerate(names):
            with open_regular(path / name) as fd:
                digest, size = copy_in(fd, stage / str(number), todo.progress, done, total)
            done += size
            files.append(StoredFile(name=name, digest=digest, size=size))
            blobs.append((stage / str(number), digest))
        digest = folder_digest(files)
    else:
        digest, found = digest_folder(path, todo.hashed)
        files = list(found)
    todo.check_digest(digest, path)
    todo.check_files(files, path)
    facts = {"format": "openvino", "architecture": architecture, "files": tuple(files)}
    common = todo.common(digest, sum(file.size for file in files), text, None)
    record = ModelRecord.model_validate(common | facts | where)
    return record, blobs, [(f"{MODEL_FOLDER}/{file.name}", file.digest) for file in files] if copy else []
