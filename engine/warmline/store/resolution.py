"""How the names and paths in a variant file become files on this machine; nothing is loaded or hashed here."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import site
import sysconfig
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Final

from ..errors import ArtifactError, ConfigError, StoreError
from ..filemodel import Backend
from ..variant import AdapterSpec, BaseRef, Overrides, Profile, ResolvedAdapter, ResolvedBase, load_file
from .blobs import Blobs
from .records import AdapterRecord, ModelRecord
from .shelf import Shelf, inside

# What a model or adapter folder holds beside its record.
MODEL_FOLDER: Final = "model"
WEIGHTS_NAME: Final = "adapter_model.safetensors"


@dataclass(frozen=True, slots=True)
class Found:
    """A variant file that exists: its exact name (`backend/name`), its path, and whether a workspace brought it."""

    name: str
    backend: str
    path: Path
    workspace: bool


@dataclass(frozen=True, slots=True)
class Places:
    """Where the store's artifacts are."""

    home: Path

    @property
    def models(self) -> Shelf[ModelRecord]:
        """Records of bases."""
        return Shelf(self.home, "model", ModelRecord)

    @property
    def adapters(self) -> Shelf[AdapterRecord]:
        """Records of adapters."""
        return Shelf(self.home, "adapter", AdapterRecord)

    @property
    def blobs(self) -> Blobs:
        """Files by content."""
        return Blobs(self.home)

    def model(self, record: ModelRecord) -> Path:
        """Return the file or folder of a base; ``config.package`` where its Python package is gone."""
        if record.package is not None:
            file = str(self.models.folder(record.backend, record.name) / "record.json")
            return package_file(record.package, file, "package")
        if record.path is not None:
            return Path(record.path)
        if record.format == "openvino":
            return inside(self.home, "models", record.backend, record.name, MODEL_FOLDER)
        return self._blob(record.digest)

    def adapter(self, record: AdapterRecord) -> Path:
        """Return the weights file of an adapter."""
        if record.format == "safetensors":
            return inside(self.home, "adapters", record.backend, record.name, WEIGHTS_NAME)
        return self._blob(record.digest)

    def _blob(self, digest: str) -> Path:
        return inside(self.home, *self.blobs.path(digest).relative_to(self.home).parts)


def resolve_base(base: BaseRef, backend: Backend, found: Found, places: Places) -> ResolvedBase:
    """Find a base: the store's by name, or the file that `path` or `package` gives."""
    if base.installed:
        return _installed_base(base, backend, found, places)
    if base.package is not None:
        path = package_file(base.package, str(found.path), "base.package")
        source = f"Python package {base.package.partition(':')[0]}"
    else:
        assert base.path is not None  # BaseRef sees to it
        path = contained(base.path, found, "base.path")
        _check_not_pickle(path, found, "base.path")
        source = base.path
    return ResolvedBase(
        name=base.name or path.name.removesuffix(".gguf").lower(),
        path=path,
        digest=base.digest,
        source=source,
        workspace=found.workspace and base.package is None,
        named_by="path" if base.package is None else "package",
    )


def _installed_base(base: BaseRef, backend: Backend, found: Found, places: Places) -> ResolvedBase:
    assert base.name is not None  # BaseRef sees to it
    try:
        record = places.models.get(base.name, backend)
        path = places.model(record)
    except StoreError as error:
        raise _named(error, found, "base.name") from None
    return ResolvedBase(
        name=record.name,
        path=path,
        digest=base.digest or record.digest,
        digest_recorded=base.digest is None,
        # The record speaks of its own bytes, not of others that the variant may ask for.
        source_digest=record.source_digest if base.digest in (None, record.digest) else None,
        source=record.source,
        # Installing it was the user's approval; one that was taken back since is asked for again.
        workspace=found.workspace,
        named_by="name",
        trust=record.trust,
        merged_from=record.merged_from,
    )


def resolve_adapter(
    spec: AdapterSpec, index: int, backend: Backend, overrides: Overrides, found: Found, places: Places
) -> ResolvedAdapter:
    """Find an adapter: the store's by name, or the file that `path` gives, with the record beside it."""
    scale = overrides.scales.get(spec.name, spec.scale)
    if spec.path is None:
        try:
            installed = places.adapters.get(spec.name, backend)
            path = places.adapter(installed)
        except StoreError as error:
            raise _named(error, found, f"adapters[{index}].name") from None
        return ResolvedAdapter(
            name=spec.name,
            path=path,
            scale=scale,
            digest=spec.digest or installed.digest,
            digest_recorded=spec.digest is None,
            declared_base=installed.base,
            trust=installed.trust,
            source=installed.source,
            workspace=found.workspace,
            named_by="name",
        )
    path = contained(spec.path, found, f"adapters[{index}].path")
    _check_not_pickle(path, found, f"adapters[{index}].path")
    record_file = path.parent / "adapter.json"
    record = load_file(record_file, AdapterRecord) if os.path.lexists(record_file) else None
    if record and spec.digest and record.digest != spec.digest:
        record = None  # the record speaks of other bytes than the variant asks for
    known: dict[str, object] = {}
    if record:
        # A record can only narrow: its digest is checked when the variant names none, its trust is never believed.
        known = {
            "declared_base": record.base,
            "source": record.source,
            "digest": spec.digest or record.digest,
            "digest_recorded": spec.digest is None,
        }
    return ResolvedAdapter.model_validate(
        {
            "name": spec.name,
            "path": path,
            "scale": scale,
            "digest": spec.digest,
            "source": spec.path,
            "workspace": found.workspace,
            **known,
        }
    )


def _check_not_pickle(path: Path, found: Found, field: str) -> None:
    """Refuse a pickle by its name before anybody is asked to approve it."""
    from ..validation import check_not_pickle  # the rules are not loaded for variants of installed parts

    try:
        check_not_pickle(path)
    except ArtifactError as error:
        raise _named(error, found, field) from None


def _named(error: StoreError | ArtifactError, found: Found, field: str) -> StoreError | ArtifactError:
    if error.file:
        error.message = f"{error.file}: {error.message}"
    error.file, error.field = str(found.path), field
    return error


def patched(profile: Profile, patch: Profile) -> Profile:
    """Return a profile with what `patch` really names changed."""
    changes = {name: getattr(patch, name) for name in patch.model_fields_set}
    for part in changes.keys() & {"sampling", "openvino"}:
        inner = getattr(patch, part)
        update = {name: getattr(inner, name) for name in inner.model_fields_set}
        changes[part] = getattr(profile, part).model_copy(update=update)
    return profile.model_copy(update=changes)


def package_file(reference: str, file: str, field: str) -> Path:
    """Find ``import_name:file`` in an installed Python package, without running any of its code.

    Raises
    ------
    ConfigError
        ``config.package`` where it is not installed, ``config.path`` for a file outside of it.
    """
    package, _, inner = reference.partition(":")
    try:
        # find_spec of a top-level name imports nothing, so no code of the package runs.
        spec = importlib.util.find_spec(package) if "." not in package else None
    except (ImportError, ValueError):
        spec = None
    if spec is not None and not _is_installed(spec):
        spec = None  # a folder of that name where the process happens to stand is nobody's installed package
    if spec is None or not spec.submodule_search_locations:
        raise ConfigError(
            f"the Python package `{package}` is not installed beside Warmline",
            code="config.package",
            file=file,
            field=field,
            remedy=f"Install it: pip install --no-deps {package.replace('_', '-')}",
        )
    root = os.path.realpath(next(iter(spec.submodule_search_locations)))
    path = Path(os.path.realpath(os.path.join(root, inner.replace("\x00", ""))))
    if not path.is_relative_to(root):
        raise ConfigError(
            "the file lies outside the package",
            code="config.path",
            file=file,
            field=field,
            remedy="Name a file inside the package",
        )
    return path


def _is_installed(spec: importlib.machinery.ModuleSpec) -> bool:
    where = Path(os.path.realpath(spec.origin or ""))
    return any(where.is_relative_to(place) for place in _installation_folders())


@cache
def _installation_folders() -> tuple[str, ...]:
    places = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), *site.getsitepackages()}
    if site.ENABLE_USER_SITE:
        places.add(site.getusersitepackages())
    return tuple(os.path.realpath(place) for place in places if place)


def contained(text: str, found: Found, field: str) -> Path:
    """Return the real path of a file that a variant names; a workspace may only name files inside itself."""
    absolute = PurePosixPath(text).is_absolute() or PureWindowsPath(text).is_absolute()
    folder = found.path.parent
    try:
        path = Path(os.path.realpath(folder / Path(text).expanduser()))
        # <root>/.warmline/variants/<name>.json
        within = not absolute and path.is_relative_to(os.path.realpath(folder.parent.parent))
    except (ValueError, OSError, RuntimeError) as error:  # NUL characters, endless links, unknown users
        raise ConfigError(
            f"this is no usable path: {error}",
            code="config.path",
            file=str(found.path),
            field=field,
            remedy="Correct the path",
        ) from None
    if found.workspace and (not within or text.startswith("~")):
        raise ConfigError(
            "a workspace can only name files inside itself",
            code="config.path",
            file=str(found.path),
            field=field,
            remedy="Copy the file into the workspace, or define the variant in your own store",
        )
    return path
