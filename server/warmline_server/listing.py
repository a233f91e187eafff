"""Variants as a person chooses between them, in `variant list` and in editors.

Files are read, and nothing is hashed but adapters that only a record beside them speaks for, once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warmline.errors import ArtifactError, WarmlineError
from warmline.filemodel import load_file
from warmline.identity import exact_decimal
from warmline.registry import Found, Store, Workspace
from warmline.settings import default_variant
from warmline.store.finding import check_file_name, check_says_its_name
from warmline.store.records import AdapterRecord, ModelRecord
from warmline.store.resolution import contained, package_file
from warmline.variant import AdapterSpec, Overrides, VariantFile

from .file_state import FileState, state_of
from .labels import trust_label
from .standing import NONE, certificates

if TYPE_CHECKING:
    from warmline.digests import DigestCache

    from .cli.tables import Cell

UNAPPROVED = "not approved"
TAKEN_BACK = "approval taken back"
_WEIGHTS = "openvino_model.bin"  # in a model's folder
_STYLES = {"certified": "green", "failed": "red", "void": "yellow"}


@dataclass(frozen=True, slots=True)
class AdapterPart:
    """An adapter of a variant: its scale, and who vouches for it.

    `scale` is what acts: of the variant that a workspace selects, as the workspace's file overrides it; `written` is
    then what the variant's own file says, else None.
    """

    name: str
    scale: str
    trust: str
    digest: str | None = None
    written: str | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """One variant. `selected` in this workspace, or, without one, by default.

    `certificate` says how it stands: ``certified``, ``failed: ...``, ``void: ...`` or ``none``.
    """

    found: Found
    selected: bool
    base: str = ""
    merged_from: str | None = None
    base_trust: str = ""
    base_digest: str | None = None
    adapters: tuple[AdapterPart, ...] = ()
    description: str = ""
    certificate: str = NONE
    error: WarmlineError | None = field(default=None, compare=False)

    @property
    def kind(self) -> str:
        """`dynamic` where adapters act at run time, `merged` where they were merged before, else `base`."""
        kinds = (["merged"] if self.merged_from else []) + (["dynamic"] if self.adapters else [])
        return "+".join(kinds) or "base"

    @property
    def trust(self) -> str:
        """The weakest standing of all its parts."""
        labels = [self.base_trust, *(adapter.trust for adapter in self.adapters)]
        return max(labels, key=_weakness)

    @property
    def made_of(self) -> str:
        """``base -> adapter@scale``, adapters joined by ``+``."""
        parts = " + ".join(f"{adapter.name}@{adapter.scale}" for adapter in self.adapters)
        base = f"{self.base} ({self.merged_from})" if self.merged_from else self.base
        return f"{base} -> {parts}" if parts else base

    @property
    def overridden(self) -> str:
        """``adapter@scale (its own: scale)`` for each that the workspace's file overrides; empty without any."""
        changed = (one for one in self.adapters if one.written is not None)
        return ", ".join(f"{one.name}@{one.scale} (its own: {one.written})" for one in changed)

    def as_json(self) -> dict[str, Any]:
        """Return it for programs."""
        return {
            "name": self.found.name,
            "backend": self.found.backend,
            "file": str(self.found.path),
            "from": "workspace" if self.found.workspace else "store",
            "selected": self.selected,
            "base": self.base or None,
            "merged_from": self.merged_from,
            "adapters": [
                {"name": a.name, "scale": a.scale, "written": a.written, "trust": a.trust} for a in self.adapters
            ],
            "kind": self.kind,
            "trust": self.trust or None,
            "certificate": self.certificate,
            "description": self.description,
            "error": self.error.to_dict() if self.error else None,
        }

    def cells(self) -> list[Cell]:
        """Return it for a table."""
        mark: Cell = ("*" if self.selected else "", "bold green")
        where = "workspace" if self.found.workspace else "store"
        name: Cell = (self.found.name, "bold")
        if self.error is not None:
            what = f"{self.error.field}: {self.error.message}" if self.error.field else self.error.message
            return [mark, name, (what, "red"), "broken", "", "", self.found.backend, where]
        standing = self.trust
        trust: Cell = (standing, "yellow" if _weakness(standing) > 1 else "")
        state = self.certificate.partition(":")[0]
        certificate: Cell = (self.certificate if state == "void" else state, _STYLES.get(state, ""))
        return [mark, name, self.made_of, self.kind, trust, certificate, self.found.backend, where]


def list_rows(home: Path, workspace: Workspace | None, looked_at: dict[str, FileState] | None = None) -> list[Row]:
    """List what can be selected; a broken file is in the list, with what is wrong with it.

    `looked_at` is filled with what was looked for besides the store's own files, and what was found: weights, the paths
    that lead to them, and the records beside them.
    """
    reader = _Reader(Store(home), {} if looked_at is None else looked_at)
    selected, overrides = _selected(reader.store, workspace)
    standing = _standings(reader.store, workspace)
    rows = []
    for found in reader.store.variants(workspace):
        chosen = found == selected
        changed = overrides if chosen else Overrides()
        try:
            row = reader.row(found, chosen, changed.scales)
            rows.append(replace(row, certificate=standing(found, changed)))
        except WarmlineError as error:
            rows.append(Row(found, chosen, error=error))
    return rows


def _standings(store: Store, workspace: Workspace | None) -> Callable[[Found, Overrides], str]:
    """Return what tells a variant's certificate; where there are none at all, nothing more is read."""
    known = certificates(store.home)
    if known is None:
        return lambda found, overrides: NONE
    from warmline.digests import DigestCache

    digests = DigestCache(store.home / "cache" / "digests.json")

    def standing(found: Found, overrides: Overrides) -> str:
        try:
            variant = store.resolve(f"{found.backend}/{found.name}", workspace, overrides)
        except WarmlineError:
            return NONE  # what cannot be found cannot be certified; asking for it says what is wrong
        return str(known.listed(variant, digests))

    return standing


def _selected(store: Store, workspace: Workspace | None) -> tuple[Found | None, Overrides]:
    """Return what is selected here, and what the workspace's file changes of it."""
    try:
        if workspace is None:
            name = default_variant(store.home)
            return (store.find(name) if name else None), Overrides()
        chosen = workspace.load()
        return store.find(chosen.variant, workspace), chosen.overrides
    except WarmlineError:
        return None, Overrides()  # a broken workspace file is what `status` reports; the list still helps to mend it


class _Reader:
    """Reads each record once, whatever number of variants names it."""

    def __init__(self, store: Store, looked_at: dict[str, FileState]) -> None:
        self.store = store
        self._models: dict[tuple[str, str], tuple[ModelRecord, Path]] = {}
        self._adapters: dict[tuple[str, str], tuple[AdapterRecord, Path]] = {}
        self._packages: dict[str, Path] = {}
        self._looked_at = looked_at
        self._digests: DigestCache | None = None

    @cached_property
    def _approved(self) -> frozenset[str] | None:
        """Approved digests; None where they cannot be read, which approves nothing (`doctor` says so)."""
        from warmline.trust import TrustStore

        try:
            return frozenset(TrustStore(self.store.home / "trust.json").entries())
        except WarmlineError:
            return None

    def row(self, found: Found, selected: bool, scales: Mapping[str, Decimal]) -> Row:
        """Read one variant, with other scales for some adapters.

        Raises `WarmlineError` for one that cannot be used as it is written.
        """
        check_file_name(found)
        file = load_file(found.path, VariantFile)
        check_says_its_name(file, found)
        base = file.base
        merged, trust, digest, source = None, "user", base.digest, None
        name = base.name or (base.path or base.package or "").replace("\\", "/").rpartition("/")[2].rpartition(":")[2]
        if base.installed:
            model, path = self._model(file.backend, base.name or "")
            merged, digest, source = model.merged_from, model.digest, model.source_digest
            trust = trust_label(model.catalog, verified=True)
            self._check_there(path, found, "base.name")
        elif base.package is not None:
            self._check_there(self._package(base.package, found), found, "base.package")
        else:
            self._check_there(self._named(base.path or "", found, "base.path"), found, "base.path")
        if base.package is None:
            trust = self._standing(trust, digest, found, installed=base.installed)
        adapters = tuple(
            _rescaled(
                self._part(found, file.backend, f"adapters[{index}]", spec, digest, source), scales.get(spec.name)
            )
            for index, spec in enumerate(file.adapters)
        )
        name = name.removesuffix(".gguf").lower()
        return Row(found, selected, name, merged, trust, digest, adapters, file.description)

    def _standing(self, trust: str, digest: str | None, found: Found, *, installed: bool) -> str:
        """Say so where nobody approved a part; what the user's own variants name of the store goes on being used."""
        if self._approved is not None and digest in self._approved:
            return trust
        if found.workspace:
            return UNAPPROVED
        return f"{trust}, {TAKEN_BACK}" if installed and self._approved is not None else trust

    def _check_there(self, path: Path, found: Found, field: str) -> None:
        """The weights are there; each file is looked at once, whatever number of variants names it."""
        name = str(path)
        if self._look(name) is None:
            remedy = "Put the file back, or remove the artifact and install it again"
            message = f"{name}: the file does not exist"
            raise ArtifactError(message, code="artifact.missing", file=str(found.path), field=field, remedy=remedy)

    def _look(self, path: str) -> FileState:
        if path not in self._looked_at:
            self._looked_at[path] = state_of(path)
        return self._looked_at[path]

    def _named(self, text: str, found: Found, field: str) -> Path:
        """Return the file that a path in a variant's file leads to; a link on the way may lead elsewhere tomorrow."""
        path = contained(text, found, field)
        self._look(str(found.path.parent / Path(text).expanduser()))
        return path

    def _part(
        self,
        found: Found,
        backend: str,
        part: str,
        spec: AdapterSpec,
        base_digest: str | None,
        source_digest: str | None,
    ) -> AdapterPart:
        record: AdapterRecord | None
        if spec.path is None:
            key = (backend, spec.name)
            if key not in self._adapters:
                installed = self.store.get_adapter(f"{backend}/{spec.name}")
                self._adapters[key] = installed, self.store.adapter_path(installed)
            record, path = self._adapters[key]
            self._check_there(path, found, f"{part}.name")
        else:
            path = self._named(spec.path, found, f"{part}.path")
            self._check_there(path, found, f"{part}.path")
            record = self._beside(path, spec)
        tied = record is not None and record.base.means(base_digest, source_digest)
        catalog = record.catalog if record is not None and spec.path is None else ""  # a file's own word is no trust
        trust = trust_label(catalog, verified=tied)
        digest = spec.digest or (record.digest if record else None)
        trust = self._standing(trust, digest, found, installed=spec.path is None)
        return AdapterPart(spec.name, _scale(spec.scale), trust, digest)

    def _model(self, backend: str, name: str) -> tuple[ModelRecord, Path]:
        """Return a base's record and its weights."""
        key = (backend, name)
        if key not in self._models:
            record = self.store.get_model(f"{backend}/{name}")
            path = self.store.model_path(record)
            self._models[key] = record, path / _WEIGHTS if record.format == "openvino" else path
        return self._models[key]

    def _package(self, reference: str, found: Found) -> Path:
        if reference not in self._packages:
            self._packages[reference] = package_file(reference, str(found.path), "base.package")
        return self._packages[reference]

    def _beside(self, path: Path, spec: AdapterSpec) -> AdapterRecord | None:
        beside = path.parent / "adapter.json"
        self._look(str(beside))
        try:
            record = load_file(beside, AdapterRecord)
        except WarmlineError:
            return None
        if spec.digest is not None:  # which the engine holds the file to
            return record if spec.digest == record.digest else None
        return record if self._is(path, record.digest) else None

    def _is(self, path: Path, digest: str) -> bool:
        """Tell whether a file is what the record beside it says: anybody can write a record."""
        from warmline.digests import DigestCache

        if self._digests is None:
            self._digests = DigestCache(self.store.home / "cache" / "digests.json")
        try:
            return self._digests.digest(path) == digest
        except (WarmlineError, OSError):
            return False


def _rescaled(part: AdapterPart, scale: Decimal | None) -> AdapterPart:
    return part if scale is None else replace(part, scale=_scale(scale), written=part.scale)


def _weakness(trust: str) -> int:
    if trust == UNAPPROVED:
        return 3
    if trust.endswith("unverified"):
        return 2
    if trust.endswith(TAKEN_BACK):
        return 2
    return 0 if trust.startswith("curated") else 1


@lru_cache(maxsize=64)
def _scale(scale: Decimal) -> str:
    return exact_decimal(scale)
