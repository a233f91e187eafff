"""Variants as a person chooses between them, in `variant list` and in editors. Files are read, nothing is hashed."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warmline.errors import WarmlineError
from warmline.filemodel import load_file
from warmline.identity import exact_decimal
from warmline.registry import Found, Store, Workspace
from warmline.settings import default_variant
from warmline.store.records import AdapterRecord, ModelRecord
from warmline.store.resolution import contained
from warmline.variant import AdapterSpec, VariantFile

from .labels import trust_label

if TYPE_CHECKING:
    from .cli.tables import Cell

UNAPPROVED = "not approved"


@dataclass(frozen=True, slots=True)
class AdapterPart:
    """An adapter of a variant: its scale as written, and who vouches for it."""

    name: str
    scale: str
    trust: str
    digest: str | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """One variant. `selected` in this workspace, or, without one, by default."""

    found: Found
    selected: bool
    base: str = ""
    merged_from: str | None = None
    base_trust: str = ""
    base_digest: str | None = None
    adapters: tuple[AdapterPart, ...] = ()
    description: str = ""
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
            "adapters": [{"name": a.name, "scale": a.scale, "trust": a.trust} for a in self.adapters],
            "kind": self.kind,
            "trust": self.trust or None,
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
            return [mark, name, (what, "red"), "broken", "", self.found.backend, where]
        trust: Cell = (self.trust, "yellow" if _weakness(self.trust) > 1 else "")
        return [mark, name, self.made_of, self.kind, trust, self.found.backend, where]


def list_rows(home: Path, workspace: Workspace | None) -> list[Row]:
    """List what can be selected; a broken file is in the list, with what is wrong with it."""
    reader = _Reader(Store(home))
    selected = _selected(home, workspace)
    rows = []
    for found in reader.store.variants(workspace):
        chosen = selected in (found.name, f"{found.backend}/{found.name}")
        try:
            rows.append(reader.row(found, chosen))
        except WarmlineError as error:
            rows.append(Row(found, chosen, error=error))
    return rows


def _selected(home: Path, workspace: Workspace | None) -> str | None:
    try:
        return workspace.load().variant if workspace else default_variant(home)
    except WarmlineError:
        return None  # a broken workspace file is what `status` reports; the list still helps to mend it


class _Reader:
    """Reads each record once, whatever number of variants names it."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._models: dict[tuple[str, str], ModelRecord] = {}
        self._adapters: dict[tuple[str, str], AdapterRecord] = {}

    @cached_property
    def _approved(self) -> set[str]:
        from warmline.trust import TrustStore  # only a workspace's variants ask

        try:
            return set(TrustStore(self.store.home / "trust.json").entries())
        except WarmlineError:
            return set()  # approvals that cannot be read approve nothing; `doctor` says so

    def row(self, found: Found, selected: bool) -> Row:
        """Read one variant; raises `WarmlineError` for one that cannot be used as it is written."""
        file = load_file(found.path, VariantFile)
        base = file.base
        merged, trust, digest = None, "user", base.digest
        name = base.name or (base.path or base.package or "").replace("\\", "/").rpartition("/")[2].rpartition(":")[2]
        if base.installed:
            model = self._model(file.backend, base.name or "")
            merged, digest = model.merged_from, model.digest
            trust = trust_label(model.catalog, verified=True)
        if found.workspace and base.package is None and digest not in self._approved:
            trust = UNAPPROVED
        adapters = tuple(self._part(found, file.backend, spec, digest) for spec in file.adapters)
        name = name.removesuffix(".gguf").lower()
        return Row(found, selected, name, merged, trust, digest, adapters, file.description)

    def _part(self, found: Found, backend: str, spec: AdapterSpec, base_digest: str | None) -> AdapterPart:
        record: AdapterRecord | None = None
        if spec.path is None:
            key = (backend, spec.name)
            if key not in self._adapters:
                self._adapters[key] = self.store.get_adapter(f"{backend}/{spec.name}")
            record = self._adapters[key]
        else:
            record = self._beside(found, spec)
        tied = record is not None and base_digest is not None and record.base.digest == base_digest
        catalog = record.catalog if record is not None and spec.path is None else ""  # a file's own word is no trust
        trust = trust_label(catalog, verified=tied)
        digest = spec.digest or (record.digest if record else None)
        if found.workspace and digest not in self._approved:
            trust = UNAPPROVED
        return AdapterPart(spec.name, _scale(spec.scale), trust, digest)

    def _model(self, backend: str, name: str) -> ModelRecord:
        key = (backend, name)
        if key not in self._models:
            self._models[key] = self.store.get_model(f"{backend}/{name}")
        return self._models[key]

    def _beside(self, found: Found, spec: AdapterSpec) -> AdapterRecord | None:
        path = contained(spec.path or "", found, f"adapters.{spec.name}.path")
        try:
            record = load_file(path.parent / "adapter.json", AdapterRecord)
        except WarmlineError:
            return None
        return record if spec.digest in (None, record.digest) else None


def _weakness(trust: str) -> int:
    if trust == UNAPPROVED:
        return 3
    if trust.endswith("unverified"):
        return 2
    return 0 if trust.startswith("curated") else 1


@lru_cache(maxsize=64)
def _scale(scale: Decimal) -> str:
    return exact_decimal(scale)
