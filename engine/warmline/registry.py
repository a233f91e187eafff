"""The user's store: which bases, adapters and variants there are, and how a variant's name becomes files.

Layout under ``WARMLINE_HOME`` (0700)::

    blobs/sha256/<hex>                      files by content (0600): adapters, and bases that were copied
    models/<backend>/<name>/record.json     and, for a copied OpenVINO folder, model/: links to blobs
    adapters/<backend>/<name>/record.json   and, for OpenVINO, both PEFT files: links to blobs
    variants/<backend>/<name>.json          what people write
    trust.json  cache/  staging/  store.lock
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from .errors import ConfigError, StoreError, VariantError
from .filemodel import Backend
from .home import warmline_home
from .store.finding import VARIANTS, check_says_its_name, find_variant, variant_files
from .store.records import AdapterRecord, Expectation, ModelRecord
from .store.resolution import Found, Places, patched, resolve_adapter, resolve_base
from .store.shelf import Listed, check_free, check_name, inside, list_files
from .variant import Overrides, ResolvedVariant, VariantFile, WorkspaceFile, load_file
from .workspace import WORKSPACE_FILE, WORKSPACE_FOLDER, Workspace, find_workspace

if TYPE_CHECKING:
    from .artifacts.openvino_ir import Precision
    from .store.blobs import Progress
    from .store.upkeep import Swept, Verification

__all__ = [
    "WORKSPACE_FILE",
    "WORKSPACE_FOLDER",
    "Expectation",
    "Found",
    "Listed",
    "Store",
    "Swept",
    "Verification",
    "Workspace",
    "find_workspace",
    "warmline_home",
]


@dataclass(frozen=True, slots=True)
class Store:
    """What a person has installed and can select, and, first, what the workspace at hand defines.

    Methods that change the store raise `StoreError` besides what they name: ``store.locked`` (another process is at
    it), ``store.full``, ``store.read_only``, ``store.name``, ``store.link``. Each change happens whole or not at all.
    """

    home: Path

    @property
    def places(self) -> Places:
        """Where artifacts and their records are."""
        return Places(self.home)

    # ---- models ----

    def add_model(
        self,
        source: str | Path,
        name: str,
        backend: Backend = "llama",
        *,
        copy: bool = False,
        precision: Precision = "exact",
        merged_from: str | None = None,
        origin: str = "",
        licence: str = "",
        expect: Expectation | None = None,
        progress: Progress | None = None,
    ) -> ModelRecord:
        """Install a base.

        Parameters
        ----------
        source
            A GGUF file, ``import_name:file`` in an installed Python package, or an OpenVINO folder.
            For OpenVINO a GGUF file is imported: what is installed is the OpenVINO model that is made of it.
        copy
            Copy it into the store, once whatever its number of names; else it is referenced where it lies.
        precision
            How an import keeps the weights: see `importing.forms`.
        merged_from
            What a merged export was made of (``qwen+acme``); it is installed as an ordinary model.
        origin
            Where it was downloaded from; by default `source` stands in the record.
        licence
            By default what the file says.
        expect
            A catalog's promise: strict checks, and trust `curated`.
        progress
            Called with bytes done and bytes in all.

        Raises
        ------
        ArtifactError
            ``artifact.*`` for the first rule that the file breaks.
        StoreError
            ``store.exists``, ``store.name_case``; ``store.full`` before an import that the disk has no room for.
        BackendError
            ``backend.missing``: an import needs OpenVINO GenAI.
        """
        from .store.install_model import install_model  # what installs is not loaded to resolve or list
        from .store.installing import Installation

        todo = Installation(self.places, name, backend, expect, origin, licence, progress)
        return install_model(todo, source, copy=copy, precision=precision, merged_from=merged_from)

    def list_models(self, backend: Backend | None = None) -> list[Listed[ModelRecord]]:
        """List bases, sorted by backend and name; broken records come with their error."""
        return self.places.models.all(backend)

    def get_model(self, name: str, backend: Backend | None = None) -> ModelRecord:
        """Return the record of ``name`` or ``backend/name``; errors as in `Shelf.get`."""
        return self.places.models.get(name, backend)

    def model_path(self, record: ModelRecord) -> Path:
        """Return a base's file, or its folder on OpenVINO."""
        return self.places.model(record)

    def remove_model(self, name: str, backend: Backend | None = None) -> None:
        """Remove a base; a referenced file stays where it is. ``store.needed`` names the variants that need it."""
        self._remove("model", name, backend)

    def verify_model(self, name: str, backend: Backend | None = None, progress: Progress | None = None) -> Verification:
        """Hash a base afresh and compare with its record; what is wrong is in the result."""
        from .store import upkeep

        return upkeep.verify(self.places, "model", *self.places.models.find(name, backend), progress)

    # ---- adapters ----

    def add_adapter(
        self,
        source: str | Path,
        name: str,
        backend: Backend = "llama",
        *,
        base: str,
        origin: str = "",
        licence: str = "",
        expect: Expectation | None = None,
        progress: Progress | None = None,
    ) -> AdapterRecord:
        """Install an adapter; it is copied, once whatever its number of names.

        Parameters
        ----------
        source
            A PEFT folder (``adapter_config.json`` and ``adapter_model.safetensors``), which is converted for llama.cpp;
            or, for llama.cpp, a GGUF file.
        base
            Name of the installed base that it is checked against.
        origin, licence, expect, progress
            As in `add_model`. Without `expect` an adapter that does not say by digest which base it was made for is
            installed all the same, and shown as *unverified*.

        Raises
        ------
        ArtifactError
            ``artifact.*`` for the first rule that is broken, by the file or against the base.
        StoreError
            ``store.unknown_model``, ``store.exists``, ``store.name_case``.
        """
        from .store.install_adapter import install_adapter
        from .store.installing import Installation

        todo = Installation(self.places, name, backend, expect, origin, licence, progress)
        return install_adapter(todo, source, base)

    def list_adapters(self, backend: Backend | None = None) -> list[Listed[AdapterRecord]]:
        """List adapters, sorted by backend and name; broken records come with their error."""
        return self.places.adapters.all(backend)

    def get_adapter(self, name: str, backend: Backend | None = None) -> AdapterRecord:
        """Return the record of ``name`` or ``backend/name``; errors as in `Shelf.get`."""
        return self.places.adapters.get(name, backend)

    def adapter_path(self, record: AdapterRecord) -> Path:
        """Return an adapter's weights file."""
        return self.places.adapter(record)

    def remove_adapter(self, name: str, backend: Backend | None = None) -> None:
        """Remove an adapter, and the approval that installing it gave; ``store.needed`` as in `remove_model`."""
        self._remove("adapter", name, backend)

    def verify_adapter(
        self, name: str, backend: Backend | None = None, progress: Progress | None = None
    ) -> Verification:
        """As `verify_model`."""
        from .store import upkeep

        return upkeep.verify(self.places, "adapter", *self.places.adapters.find(name, backend), progress)

    def _remove(self, kind: Literal["model", "adapter"], name: str, backend: Backend | None) -> None:
        from .store import changes, upkeep

        shelf = self.places.models if kind == "model" else self.places.adapters
        found, plain = shelf.find(name, backend)
        with changes.changing(self.home, f"{kind} remove {plain}"):
            upkeep.remove(self.places, kind, found, plain, self.list_variants(found))

    # ---- variants ----

    def add_variant(self, variant: VariantFile, *, replace: bool = False) -> Path:
        """Write a variant file; what it names by name must be installed. Returns the file's path.

        Raises
        ------
        StoreError
            ``store.exists`` unless `replace`; ``store.unknown_model``, ``store.unknown_adapter``.
        ArtifactError
            ``artifact.adapter.base`` where an adapter was made for another base, by digest.
        """
        from .store import changes

        backend, entry = variant.backend, check_name(variant.name) + ".json"
        self._check_names(variant)
        folder = inside(self.home, VARIANTS, backend)
        with changes.staging(self.home, f"variant add {variant.name}") as stage:
            changes.write_file(stage / "new", variant.to_json())
            changes.step("built")
            with changes.changing(self.home, f"variant add {variant.name}"):
                if not (replace and (folder / entry).exists()):
                    what, instead = f"a variant `{backend}/{variant.name}`", "Write over it with --replace"
                    check_free(folder, entry, what, instead)
                self._check_names(variant)
                changes.step("locked")
                changes.place(stage / "new", inside(self.home, VARIANTS, backend, entry))
                changes.step("placed")
        return folder / entry

    def _check_names(self, variant: VariantFile) -> None:
        from .validation import check_declared_base

        base = None
        if variant.base.installed:
            base = self.places.models.get(variant.base.name or "", variant.backend)
        for spec in variant.adapters:
            if spec.path is None:
                record = self.places.adapters.get(spec.name, variant.backend)
                if base is not None:
                    file = str(self.places.adapter(record))
                    source = base.source_digest
                    foreign = record.base.digest is not None and not record.base.means(base.digest, source)
                    claimed = self._claimed(base) if foreign else frozenset()
                    check_declared_base(
                        spec.name, record.base, base.digest, file, strict=False, source=source, claimed=claimed
                    )

    def _claimed(self, base: ModelRecord) -> frozenset[str]:
        """What a base says of itself that it was made of; only folders do."""
        if base.format != "openvino":
            return frozenset()
        from .verified_openvino import read_folder

        mark = read_folder(self.places.model(base)).source_digest
        return frozenset({mark} if mark else ())

    def list_variants(self, backend: Backend | None = None) -> list[Listed[VariantFile]]:
        """List the store's own variant files, read; broken ones come with their error."""
        return list_files(self.home, lambda path: load_file(path, VariantFile), backend)

    def get_variant(self, name: str, backend: Backend | None = None) -> VariantFile:
        """Return the store's variant called ``name`` or ``backend/name``; errors as in `resolve`."""
        return load_file(self._own_variant(name, backend).path, VariantFile)

    def remove_variant(self, name: str, backend: Backend | None = None) -> None:
        """Remove a variant file; the base and adapters that it names stay."""
        from .store import changes

        found = self._own_variant(name, backend)
        with changes.changing(self.home, f"variant remove {found.name}"):
            changes.step("locked")
            inside(self.home, VARIANTS, found.backend, found.path.name).unlink(missing_ok=True)
            changes.sync_folder(found.path.parent)
            changes.step("removed")

    def _own_variant(self, name: str, backend: Backend | None) -> Found:
        exact = f"{backend}/{name}" if backend and "/" not in name else name
        same = [found for found in self.variants() if exact in (found.name, f"{found.backend}/{found.name}")]
        if len(same) > 1:
            names = " or ".join(f"`{found.backend}/{found.name}`" for found in same)
            message = f"there is more than one variant called `{name}`"
            raise StoreError(message, code="store.ambiguous", remedy=f"Say which: {names}")
        return self.find(exact)

    def variants(self, workspace: Workspace | None = None) -> list[Found]:
        """List variant files; of two with one name and backend, the workspace's own comes first and hides the other."""
        return variant_files(self.home, workspace)

    def find(self, name: str, workspace: Workspace | None = None, *, asked_in: str | None = None) -> Found:
        """Return the variant called `name` or `backend/name`.

        Raises
        ------
        VariantError
            ``variant.unknown``, with the nearest names as the remedy; `file` is `asked_in`.
        """
        return find_variant(self.home, name, workspace, asked_in)

    def resolve(
        self, name: str, workspace: Workspace | None = None, overrides: Overrides | None = None
    ) -> ResolvedVariant:
        """Turn a name into files; nothing is loaded or hashed yet.

        Raises
        ------
        VariantError, ConfigError, StoreError
            Unknown name; a file that cannot be used; a path that a workspace may not name; a base or adapter that is
            not installed.
        """
        asked_in = str(workspace.file) if workspace else None
        found = self.find(name, workspace, asked_in=asked_in)
        file = load_file(found.path, VariantFile)
        check_says_its_name(file, found)
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
            base=resolve_base(file.base, file.backend, found, self.places),
            adapters=tuple(
                resolve_adapter(adapter, index, file.backend, overrides, found, self.places)
                for index, adapter in enumerate(file.adapters)
            ),
            profile=patched(file.profile, overrides.profile),
            file=str(found.path),
        )

    def resolve_workspace(self, workspace: Workspace, *, chat: bool = False) -> ResolvedVariant:
        """Resolve the variant that a workspace file selects, for completion or for chat.

        Errors as in `resolve` and `Workspace.load`.
        """
        return self.resolve_selection(workspace.load(), workspace, chat=chat)

    def resolve_selection(
        self, selection: WorkspaceFile, workspace: Workspace, *, chat: bool = False
    ) -> ResolvedVariant:
        """Resolve what a workspace file's text selects, on disk or not; errors as in `resolve`."""
        name, overrides = selection.selects(chat=chat)
        try:
            return self.resolve(name, workspace, overrides)
        except VariantError as error:
            if name != selection.variant and error.field == "variant" and error.file == str(workspace.file):
                error.field = "chat"  # where the name stands
            raise

    # ---- all of it ----

    def sweep(self) -> Swept:
        """Remove what crashes have left behind: staging folders, files without a record, temporary files."""
        from .store import changes, upkeep

        with changes.changing(self.home, "sweep"):
            return upkeep.sweep(self.places, time.time())

    def busy(self) -> str | None:
        """Say which process is changing the store, or None."""
        from .store import changes

        return changes.holder(self.home)
