"""A catalog: one JSON file by which a curator publishes bases, adapters and variants, and how they are installed.

What is needed, from where, and with which digests is told by the catalog alone; nothing that an artifact says in its
own metadata is ever fetched. Fetching is the caller's: `install` is given a function that brings one artifact.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field, model_validator

from .catalog_certificates import uncertified
from .errors import CatalogError, StoreError
from .filemodel import Backend, Digest, FileModel, Model, Name, load_file
from .registry import Expectation, Store
from .store.records import AdapterRecord, DeclaredBase, ModelRecord, StoredFile
from .variant import AdapterSpec, Profile, Scale

MAX_CATALOG_BYTES: Final = 8 << 20
_SOURCE: Final = re.compile(r"(https?://[^\s/]+/\S*|hf://[\w.-]+/[\w.-]+(/\S*)?|package:[A-Za-z_]\w*:[^/\\\s][^\\\s]*)")
_PLAIN_PATH: Final = re.compile(r"[^\\:\0]+")


def _checked_source(text: str) -> str:
    parts = text.split("/")
    relative = _PLAIN_PATH.fullmatch(text) and not text.startswith(("/", "~")) and ".." not in parts
    if text and not _SOURCE.fullmatch(text) and not relative:
        raise ValueError(
            "a source is https://, http://, hf://owner/repository/file, package:name:file, or a path beside it"
        )
    return text


Source = Annotated[str, Field(max_length=2000), AfterValidator(_checked_source)]
Text = Annotated[str, Field(max_length=2000)]
Short = Annotated[str, Field(max_length=200)]


class Entry(Model):
    """What all entries have."""

    name: Name
    backend: Backend = "llama"
    description: Annotated[str, Field(max_length=1000)] = ""
    licence: Short = ""
    certificate: Text = Field(
        default="",
        description="Where its certificate is: a URL, or a path beside the catalog. A variant that is installed as "
        "curated needs one that it passed, of these very parts.",
    )


class ModelEntry(Entry):
    """A base."""

    type: Literal["model"] = "model"
    digest: Digest | None = Field(default=None, description="Of the GGUF file, or of the whole OpenVINO folder.")
    size: Annotated[int, Field(ge=0)] | None = None
    source: Source = ""
    files: Annotated[tuple[StoredFile, ...], Field(max_length=1000)] = Field(
        default=(), description="Files of a folder, to be found at `source` + name."
    )
    merged_from: Short | None = None


class AdapterEntry(Entry):
    """An adapter, as GGUF or as a PEFT folder (then `files` lists config and weights)."""

    type: Literal["adapter"] = "adapter"
    digest: Digest | None = Field(default=None, description="Of the GGUF file, or of adapter_model.safetensors.")
    size: Annotated[int, Field(ge=0)] | None = None
    source: Source = ""
    files: Annotated[tuple[StoredFile, ...], Field(max_length=16)] = ()
    base: DeclaredBase = Field(default=DeclaredBase(), description="The base it was made for.")


class VariantAdapter(Model):
    """An adapter of a variant."""

    name: Name
    scale: Scale = AdapterSpec.model_fields["scale"].default


class VariantEntry(Entry):
    """A variant of a base and adapters that are entries of the same backend in this catalog."""

    type: Literal["variant"] = "variant"
    base: Name
    adapters: Annotated[tuple[VariantAdapter, ...], Field(max_length=16)] = ()
    profile: Profile = Profile()


AnyEntry = Annotated[ModelEntry | AdapterEntry | VariantEntry, Field(discriminator="type")]
Kind = Literal["model", "adapter", "variant"]


class Catalog(FileModel):
    """The whole file."""

    schema_version: Literal[1] = Field(default=1, alias="schema")
    name: Name = Field(description="Who vouches; shown with everything that is installed from it.")
    description: Annotated[str, Field(max_length=1000)] = ""
    entries: Annotated[tuple[AnyEntry, ...], Field(max_length=10_000)] = ()

    @model_validator(mode="after")
    def _unlike_and_complete(self) -> Catalog:
        known = {(entry.type, entry.backend, entry.name) for entry in self.entries}
        if len(known) != len(self.entries):
            raise ValueError("two entries have the same type, backend and name")
        for entry in self.entries:
            if not isinstance(entry, VariantEntry):
                continue
            named = [("model", entry.base), *(("adapter", each.name) for each in entry.adapters)]
            for kind, name in named:
                if (kind, entry.backend, name) not in known:
                    raise ValueError(f"the variant `{entry.name}` names the {kind} `{name}`, which is no entry")
        return self

    def find(self, name: str, kind: Kind | None = None, backend: Backend | None = None) -> AnyEntry:
        """Return the entry called `name` or ``backend/name``; of several kinds, a variant before what it is made of.

        Raises
        ------
        CatalogError
            ``catalog.unknown``; ``catalog.ambiguous`` where two backends have the name and none was given.
        """
        given, _, plain = name.rpartition("/")
        wanted = given or backend
        same = [
            entry
            for entry in self.entries
            if entry.name == plain and kind in (None, entry.type) and wanted in (None, "", entry.backend)
        ]
        order = {"variant": 0, "adapter": 1, "model": 2}
        first = sorted(same, key=lambda entry: order[entry.type])
        same = [entry for entry in first if entry.type == first[0].type]
        if not same:
            remedy = f"See what there is: warmline catalog list {self.name}"
            message = f"the catalog `{self.name}` has no entry `{name}`"
            raise CatalogError(message, code="catalog.unknown", field=name, remedy=remedy)
        if len(same) > 1:
            exact = " or ".join(f"`{entry.backend}/{plain}`" for entry in same)
            message = f"the catalog `{self.name}` has `{name}` for more than one backend"
            raise CatalogError(message, code="catalog.ambiguous", field=name, remedy=f"Say which: {exact}")
        return same[0]

    def search(self, text: str) -> list[AnyEntry]:
        """List entries whose name or description holds all words of a text, whatever their case."""
        words = text.casefold().split()
        return [
            entry
            for entry in self.entries
            if all(word in f"{entry.name} {entry.description} {entry.type}".casefold() for word in words)
        ]


def load_catalog(path: str | os.PathLike[str]) -> Catalog:
    """Read and validate a catalog file of at most `MAX_CATALOG_BYTES`; errors as in `filemodel.load_file`."""
    return load_file(path, Catalog, max_bytes=MAX_CATALOG_BYTES)


# ---- installing ----


@dataclass(frozen=True, slots=True)
class Need:
    """One artifact of a plan. `present`: it is installed already, with these bytes, and nothing has to be fetched."""

    entry: ModelEntry | AdapterEntry
    base: str | None
    expect: Expectation
    present: bool


@dataclass(frozen=True, slots=True)
class Plan:
    """What installing an entry takes: bases first, then adapters; `variant` is written in the end, if there is one.

    `strict` is as it was given to `plan`.
    """

    catalog: str
    needs: tuple[Need, ...]
    variant: VariantEntry | None
    strict: bool = False

    @property
    def to_fetch(self) -> tuple[Need, ...]:
        """What is not installed yet."""
        return tuple(need for need in self.needs if not need.present)


def plan(catalog: Catalog, name: str, store: Store, *, backend: Backend | None = None, strict: bool = True) -> Plan:
    """Work out what installing an entry takes; nothing is fetched or changed.

    Parameters
    ----------
    strict
        Artifacts get trust `curated`, and need their digests, an adapter also that of its base; a variant needs a
        certificate. Else what is installed is the user's own, and only digests that are given are compared.

    Raises
    ------
    CatalogError
        ``catalog.unknown``, ``catalog.ambiguous``, ``catalog.digest``, ``catalog.source``, ``catalog.conflict``,
        ``catalog.certificate``.
    """
    entry = catalog.find(name, backend=backend)
    parts: list[ModelEntry | AdapterEntry]
    if isinstance(entry, VariantEntry):
        if strict and not entry.certificate:
            raise uncertified(entry, "has no certificate")
        parts = [_part(catalog, "model", entry.base, entry.backend)]
        parts += [_part(catalog, "adapter", each.name, entry.backend) for each in entry.adapters]
        base: str | None = entry.base
    else:
        parts, base = [entry], None
        if isinstance(entry, AdapterEntry):
            base = _base_of(catalog, entry, store)
            if base is None:
                assert entry.base.name is not None  # `_base_of` sees to it
                parts = [_part(catalog, "model", entry.base.name, entry.backend), entry]
                base = entry.base.name
    needs = tuple(_need(catalog, part, base, store, strict) for part in parts)
    return Plan(catalog.name, needs, entry if isinstance(entry, VariantEntry) else None, strict)


def local_source(catalog_file: Path, source: str) -> Path | None:
    """Return the file that a source beside the catalog file means, or None for one that must be fetched."""
    if _SOURCE.fullmatch(source):
        return None
    folder = os.path.realpath(catalog_file.parent)
    path = Path(os.path.realpath(os.path.join(folder, source)))
    if not path.is_relative_to(folder):
        message = "the source lies outside of the catalog's folder"
        raise CatalogError(
            message, code="catalog.source", file=str(catalog_file), field=source, remedy="Move it inside"
        )
    return path


def _part(catalog: Catalog, kind: Kind, name: str, backend: Backend) -> ModelEntry | AdapterEntry:
    entry = catalog.find(name, kind, backend)
    assert not isinstance(entry, VariantEntry)  # by its kind
    return entry


def _base_of(catalog: Catalog, entry: AdapterEntry, store: Store) -> str | None:
    """Return the installed base that an adapter alone is for: by digest, else by name; None where it comes along."""
    for listed in store.list_models(entry.backend):
        if listed.record and entry.base.digest and listed.record.digest == entry.base.digest:
            return listed.name
    if entry.base.name is None:
        raise CatalogError(
            f"the base of `{entry.name}` is not installed, and the entry does not name it",
            code="catalog.unknown",
            field=entry.name,
            remedy="Install the base it was made for first",
        )
    known = {(each.type, each.backend, each.name) for each in catalog.entries}
    if ("model", entry.backend, entry.base.name) in known:
        return None
    return store.get_model(entry.base.name, entry.backend).name


def _need(catalog: Catalog, entry: ModelEntry | AdapterEntry, base: str | None, store: Store, strict: bool) -> Need:
    if strict:
        _check_vouched(catalog, entry)
    made_for = entry.base if isinstance(entry, AdapterEntry) else DeclaredBase()
    files = {each.name: each.digest for each in entry.files}
    expect = Expectation(catalog.name, entry.digest, made_for, files, entry.certificate, curated=strict)
    present = _check_installed(catalog, entry, store)
    if not present and not entry.source:
        message = f"the entry `{entry.name}` has no source"
        remedy = "Ask the curator, or install it by hand"
        raise CatalogError(message, code="catalog.source", field=entry.name, remedy=remedy)
    return Need(entry, base if isinstance(entry, AdapterEntry) else None, expect, present)


def _check_vouched(catalog: Catalog, entry: ModelEntry | AdapterEntry) -> None:
    """What a catalog vouches for it names by digest; a name alone proves nothing."""
    missing = None
    if entry.digest is None:
        missing = "a digest"
    elif isinstance(entry, AdapterEntry) and entry.base.digest is None:
        missing = "the digest of the base it was made for"
    elif isinstance(entry, AdapterEntry) and entry.files and not {each.name for each in entry.files} >= _PEFT_FILES:
        missing = "the digests of both its files"
    if missing:
        raise CatalogError(
            f"the catalog `{catalog.name}` vouches for `{entry.name}` without {missing}",
            code="catalog.digest",
            field=entry.name,
            remedy="Ask the curator to add it, or install it as your own (--own)",
        )


_PEFT_FILES: Final = frozenset({"adapter_config.json", "adapter_model.safetensors"})


def _check_installed(catalog: Catalog, entry: ModelEntry | AdapterEntry, store: Store) -> bool:
    """Tell whether the entry is installed under its name; the name with other bytes is a conflict."""
    try:
        record: ModelRecord | AdapterRecord
        if isinstance(entry, ModelEntry):
            record = store.get_model(entry.name, entry.backend)
        else:
            record = store.get_adapter(entry.name, entry.backend)
    except StoreError as error:
        if error.code in ("store.unknown_model", "store.unknown_adapter"):
            return False
        raise
    if not _same(entry, record):
        article = "an" if entry.type == "adapter" else "a"
        raise CatalogError(
            f"{article} {entry.type} `{entry.name}` is installed that is not the one of the catalog `{catalog.name}`",
            code="catalog.conflict",
            field=entry.name,
            remedy=f"Remove it first: warmline {entry.type} remove {entry.backend}/{entry.name}",
        )
    return True


def _same(entry: ModelEntry | AdapterEntry, record: ModelRecord | AdapterRecord) -> bool:
    """Compare what is installed with each digest that the entry gives; with where it came from, if it gives none."""
    there = {file.name: file.digest for file in record.files}
    if any(there.get(file.name, file.digest) != file.digest for file in entry.files):
        return False
    if entry.digest is None:
        return record.source == entry.source
    # An adapter's is that of the weights as given; a base's may be that of the GGUF file that it was imported from.
    return entry.digest in (record.digest, record.source_digest)
