"""Installs an adapter: a GGUF file as it is; a PEFT folder as it is for OpenVINO, and converted for llama.cpp."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ..artifacts.gguf import GGUFHeader
from ..digests import open_regular
from ..errors import ArtifactError, ConfigError, StoreError
from ..filemodel import load_file
from ..validation import (
    CheckedAdapter,
    check_backend,
    check_declared_base,
    check_gguf_adapter,
    check_not_pickle,
    read_base,
)
from . import changes
from .blobs import copy_in, digest_of
from .folders import digest_folder
from .installing import Installation, Link, Staged, blaming
from .records import AdapterRecord, DeclaredBase, ModelRecord, StoredFile
from .resolution import WEIGHTS_NAME
from .shelf import check_name

if TYPE_CHECKING:
    from ..artifacts.peft import PeftAdapter

# What a converted adapter calls itself: were it the folder's name, the same adapter would have many digests.
CONVERTED_NAME: Final = "adapter"
CONFIG_NAME: Final = "adapter_config.json"
Made = tuple[AdapterRecord, list[Staged], list[Link]]


def install_adapter(todo: Installation, source: str | Path, base: str) -> AdapterRecord:
    """See `registry.Store.add_adapter`."""
    check_name(todo.name)
    path = Path(os.path.abspath(source))
    check_not_pickle(path)
    _check_not_bare(path)
    if not path.is_dir():
        with open_regular(path):  # what is not there has no format
            check_backend("gguf", todo.backend, str(path))
    todo.check_free("adapter")
    record_of_base = todo.places.models.get(base, todo.backend)
    with changes.staging(todo.places.home, f"adapter add {todo.name}") as stage, blaming(stage, path):
        from_peft = _peft_to_gguf if todo.backend == "llama" else _peft
        make = from_peft if path.is_dir() else _gguf
        record, blobs, links = make(todo, path, stage, record_of_base)
        todo.commit(stage, record, blobs, links, still=lambda: _check_base_stays(todo, record_of_base))
    return record


def _check_not_bare(path: Path) -> None:
    if path.suffix == ".safetensors" and not path.is_dir():
        raise ArtifactError(
            "weights alone do not say how strongly they act",
            code="artifact.peft.folder",
            file=str(path),
            remedy=f"Give the folder that holds them and {CONFIG_NAME}",
        )


def _check_base_stays(todo: Installation, base: ModelRecord) -> None:
    if todo.places.models.get(base.name, base.backend).digest != base.digest:
        message = f"the base `{base.name}` was replaced meanwhile"
        raise StoreError(message, code="store.changed", remedy="Try again with the base that is there now")


def _gguf(todo: Installation, path: Path, stage: Path, base: ModelRecord) -> Made:
    with open_regular(path) as fd:
        digest, size = copy_in(fd, stage / "0", todo.progress)
    todo.check_digest(digest, path)
    checked = check_gguf_adapter(stage / "0", _base_header(todo, base), label=str(path))
    declared = _declared(todo, base, _beside(path, digest) or DeclaredBase(name=_claimed(checked)), path)
    record = _record(todo, path, digest, size, base, declared, _gguf_facts(checked) | {"source_digest": digest})
    return record, [(stage / "0", digest)], []


def _peft_to_gguf(todo: Installation, path: Path, stage: Path, base: ModelRecord) -> Made:
    from ..artifacts.convert import convert_peft  # NumPy and gguf-py, for those who convert

    header = _base_header(todo, base)
    given, _files = _copied(todo, path, stage)
    report = convert_peft(given, header, stage / "0", name=CONVERTED_NAME)
    todo.check_digest(report.source_digest, path)
    digest, size = digest_of(stage / "0", todo.progress), report.nbytes
    checked = check_gguf_adapter(stage / "0", header, label=str(path))
    claimed = _beside(path / WEIGHTS_NAME, report.source_digest) or DeclaredBase(name=_claimed(checked))
    declared = _declared(todo, base, claimed, path)
    facts = _gguf_facts(checked) | {"source_digest": report.source_digest}
    return _record(todo, path, digest, size, base, declared, facts), [(stage / "0", digest)], []


def _peft(todo: Installation, path: Path, stage: Path, base: ModelRecord) -> Made:
    from ..artifacts.peft import read_peft

    given, files = _copied(todo, path, stage)
    adapter = read_peft(given)
    todo.check_digest(adapter.digest, path)
    mark = _check_matches(todo, base, adapter)
    claimed = _beside(path / WEIGHTS_NAME, adapter.digest) or DeclaredBase(name=_peft_base(adapter))
    declared = _declared(todo, base, claimed, path, mark)
    facts = {
        "format": "safetensors",
        "rank": adapter.config.r,
        "alpha": adapter.config.lora_alpha,
        "factor": adapter.factor,
        "pairs": len(adapter.pairs),
        "source_digest": adapter.digest,
        "files": files,
        "licence": adapter.license,
    }
    record = _record(todo, path, adapter.digest, files[0].size, base, declared, facts)
    return record, [(given / file.name, file.digest) for file in files], [(file.name, file.digest) for file in files]


def _copied(todo: Installation, path: Path, stage: Path) -> tuple[Path, tuple[StoredFile, ...]]:
    """Copy the folder's files: the copy is what is checked and used, whatever happens to the folder meanwhile."""
    from ..artifacts.peft import CARD_NAME, MAX_CARD_BYTES, read_peft

    read_peft(path)  # says what is wrong with the folder as it was given, links in it included
    given = stage / "given"
    given.mkdir(mode=0o700)
    files = []
    for name, progress in ((WEIGHTS_NAME, todo.progress), (CONFIG_NAME, None)):
        with open_regular(path / name) as fd:
            digest, size = copy_in(fd, given / name, progress)
        todo.check_file(name, digest, path / name)
        files.append(StoredFile(name=name, digest=digest, size=size))
    with contextlib.suppress(ArtifactError), open_regular(path / CARD_NAME) as fd:  # it may name the licence
        changes.write_file(given / CARD_NAME, os.pread(fd, MAX_CARD_BYTES, 0))
    return given, tuple(files)


def _check_matches(todo: Installation, base: ModelRecord, adapter: PeftAdapter) -> str | None:
    """Each of its factors acts on one weight of the base's network; return what that says that it was made of."""
    from ..backends.openvino_names import match
    from ..verified_openvino import read_folder

    folder = todo.places.model(base)
    _check_same(base, digest_folder(folder, todo.hashed)[0], folder)
    network = read_folder(folder)
    match(adapter.pairs, network.matmuls, adapter.file)
    return network.source_digest


def _base_header(todo: Installation, base: ModelRecord) -> GGUFHeader:
    path = todo.places.model(base)
    with open_regular(path) as fd:
        _check_same(base, todo.hashed(fd), path)
        return read_base(fd, label=str(path))


def _check_same(base: ModelRecord, found: str, path: Path) -> None:
    if found != base.digest:
        raise ArtifactError(
            f"the base `{base.name}` is no longer what was installed",
            code="artifact.digest",
            file=str(path),
            remedy=f"warmline model verify {base.name}; then remove it and add it again",
        )


def _declared(
    todo: Installation, base: ModelRecord, claimed: DeclaredBase, path: Path, mark: str | None = None
) -> DeclaredBase:
    """The base it was made for: the catalog's word where there is one, else the maker's; it must not be another.

    Parameters
    ----------
    mark
        The GGUF file that a model folder says of itself that it was made of: enough for the user's own adapter.
    """
    said = todo.expect.base if todo.expect else DeclaredBase()
    declared = said if todo.strict or said.digest else claimed
    check_declared_base(
        todo.name,
        declared,
        base.digest,
        str(path),
        strict=todo.strict,
        source=base.source_digest,
        claimed=frozenset({mark} if mark else ()),
    )
    return declared


def _beside(path: Path, digest: str) -> DeclaredBase | None:
    """What `adapter.json` beside the weights says, if it speaks of these bytes, as they are or before conversion."""
    with contextlib.suppress(ConfigError):
        record = load_file(path.parent / "adapter.json", AdapterRecord)
        if digest in (record.digest, record.source_digest):
            return record.base
    return None


def _claimed(checked: CheckedAdapter) -> str | None:
    named = checked.summary.base_models
    return named[0].name[:200] if named and named[0].name else None


def _peft_base(adapter: PeftAdapter) -> str | None:
    from ..artifacts.convert import base_model

    found = base_model(adapter.config.base_model)
    return found.name[:200] if found and found.name else None


def _gguf_facts(checked: CheckedAdapter) -> dict[str, Any]:
    summary = checked.summary
    return {
        "format": "gguf",
        "rank": summary.rank,
        "alpha": summary.alpha,
        "factor": summary.native_factor,
        "architecture": summary.architecture[:200],
        "pairs": len(summary.pairs),
        "zero_pairs": len(checked.zero_pairs),
        "licence": summary.license,
    }


def _record(
    todo: Installation,
    path: Path,
    digest: str,
    size: int,
    base: ModelRecord,
    declared: DeclaredBase,
    facts: dict[str, Any],
) -> AdapterRecord:
    common = todo.common(digest, size, path, facts.pop("licence", None))
    checked = DeclaredBase(name=base.name, digest=base.digest)
    bases = {"base": declared, "checked_base": checked, "checked_source": base.source_digest}
    return AdapterRecord.model_validate(common | bases | facts)
