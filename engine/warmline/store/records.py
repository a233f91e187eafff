"""What the store knows of each artifact: one record a model or adapter, versioned, and brought up to date when read."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from ..filemodel import NEWER_SCHEMA, Backend, Digest, FileModel, Model, Name, Trust

SCHEMA: Final = 1

Text = Annotated[str, Field(max_length=2000)]
Short = Annotated[str, Field(max_length=200)]
Data = dict[str, Any]


class DeclaredBase(Model):
    """The base an adapter was made for, as its maker says."""

    name: Short | None = None
    digest: Digest | None = None

    def means(self, digest: str | None, source: str | None) -> bool:
        """Whether it is, by digest, this base, or the GGUF file that the base was imported from (`source`)."""
        return self.digest is not None and self.digest in (digest, source)


class StoredFile(Model):
    """One file of an artifact that is a folder: its path in there, with forward slashes, and its content."""

    name: Annotated[str, Field(min_length=1, max_length=1000)]
    digest: Digest
    size: Annotated[int, Field(ge=0)]

    @model_validator(mode="after")
    def _inside(self) -> StoredFile:
        parts = self.name.split("/")
        if re.search(r"[\\\0:]", self.name) or any(part in ("", ".", "..") for part in parts):
            raise ValueError("the name leads out of the artifact's folder")
        return self


class Record(FileModel):
    """What all records tell. `schema_version` is ``schema`` in the file."""

    schema_version: Literal[1] = Field(default=SCHEMA, alias="schema", description="Version of this record's form.")
    name: Name
    backend: Backend = "llama"
    digest: Digest = Field(description="Content of the weights, or of the whole folder where the model is one.")
    size: Annotated[int, Field(ge=0)] = Field(description="Bytes.")
    source: Text = Field(default="", description="Where it came from: URL or path as given.")
    licence: Short = ""
    installed_at: Annotated[str, Field(max_length=40)] = ""
    trust: Trust = Trust.USER
    catalog: Short = Field(default="", description="The catalog that vouches for it, where trust is `curated`.")
    certificate: Text = Field(default="", description="Where the catalog says its certificate is.")
    files: tuple[StoredFile, ...] = Field(default=(), description="Its files, where it is a folder.")

    @model_validator(mode="before")
    @classmethod
    def _migrated(cls, data: Any) -> Any:
        return migrated(data, MIGRATIONS[cls.__name__]) if isinstance(data, dict) else data

    @property
    def digests(self) -> frozenset[str]:
        """Digests of the blobs that this artifact consists of."""
        return frozenset(file.digest for file in self.files) or frozenset({self.digest})

    def to_json(self) -> bytes:
        """Write the record as it is kept; empty texts and lists are left out."""
        data = self.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"json_schema"})
        kept = {key: value for key, value in data.items() if value not in ("", [], {})}
        return (json.dumps(kept, indent=1, ensure_ascii=False) + "\n").encode()


class AdapterRecord(Record):
    """`record.json` in the store, `adapter.json` beside an adapter file: where it came from, what it was made for."""

    format: Literal["gguf", "safetensors"] = "gguf"
    rank: Annotated[int, Field(ge=1)]
    alpha: Annotated[float, Field(allow_inf_nan=False)] | None = Field(
        default=None, description="As in the file that is loaded; absent where that has none."
    )
    factor: Annotated[float, Field(allow_inf_nan=False)] | None = Field(
        default=None,
        description="What B·A is multiplied by at scale 1: alpha / rank, or alpha / sqrt(rank) with rsLoRA.",
    )
    base: DeclaredBase = Field(default=DeclaredBase(), description="The base it was made for, as its maker says.")
    checked_base: DeclaredBase = Field(
        default=DeclaredBase(), description="The installed base that its shapes were checked against."
    )
    checked_source: Digest | None = Field(
        default=None, description="The GGUF file that the installed base was imported from, where it was."
    )
    source_digest: Digest | None = Field(default=None, description="The weights as given, before any conversion.")
    architecture: Short = ""
    pairs: Annotated[int, Field(ge=0)] = Field(default=0, description="Weights of the base that it changes.")
    zero_pairs: Annotated[int, Field(ge=0)] = Field(
        default=0, description="Of these, how many have an all-zero factor."
    )

    @property
    def unverified(self) -> bool:
        """Whether nobody's word ties the adapter to the very base it was checked against."""
        return not self.base.means(self.checked_base.digest, self.checked_source)


class ModelRecord(Record):
    """`record.json` of a base: where its bytes are. Exactly one of `path`, `package` and a copy in the store."""

    format: Literal["gguf", "openvino"] = "gguf"
    path: Annotated[str, Field(max_length=4096)] | None = Field(
        default=None, description="Outside of the store: the file or folder that is referenced."
    )
    package: Annotated[str, Field(max_length=512)] | None = Field(
        default=None, description="`import_name:file` in an installed Python package that is referenced."
    )
    architecture: Short = ""
    source_digest: Digest | None = Field(
        default=None, description="The GGUF file that it was imported from, where it was."
    )
    precision: Short = Field(default="", description="How an import kept the GGUF's weights.")
    merged_from: Short | None = Field(
        default=None, description="What a merged export was made of (`qwen+acme`); it runs as an ordinary model."
    )

    @model_validator(mode="after")
    def _one_place(self) -> ModelRecord:
        if self.path is not None and self.package is not None:
            raise ValueError("a record names one of `path` and `package`, not both")
        return self

    @property
    def copied(self) -> bool:
        """Whether its bytes are in the store."""
        return self.path is None and self.package is None

    @property
    def digests(self) -> frozenset[str]:
        """Digests of its blobs: none where it is only referenced."""
        return super().digests if self.copied else frozenset()


@dataclass(frozen=True, slots=True)
class Expectation:
    """What a catalog says of an artifact: whatever digest it gives is compared before anything is installed.

    Parameters
    ----------
    catalog
        Whose word it is: a catalog that the user added.
    digest
        The content as given: of the file, of the PEFT weights, of the folder; None where the catalog does not tell.
    base
        For an adapter: the base it was made for; a digest must be that of the installed base.
    files
        Digests of single files by name, for a folder of which `digest` covers not all: a PEFT adapter's config decides
        how strongly it acts.
    certificate
        Where the catalog says its certificate is.
    curated
        The catalog vouches for it, which takes all of these digests; else it becomes the user's own.
    """

    catalog: str
    digest: str | None
    base: DeclaredBase = field(default_factory=DeclaredBase)
    files: Mapping[str, str] = field(default_factory=dict)
    certificate: str = ""
    curated: bool = True


# ---- migration ----


def migrated(data: Data, steps: Mapping[int, Callable[[Data], Data]]) -> Data:
    """Bring a record's data up to `SCHEMA`, one version after another; a record without a version is version 0.

    Raises
    ------
    PydanticCustomError
        For a record that a newer Warmline wrote: what it says may not be what we would read.
    """
    version = data.get("schema", data.get("schema_version", 0))
    if not isinstance(version, int) or isinstance(version, bool):
        raise ValueError("the version of a record (`schema`) is a whole number")
    if version > SCHEMA:
        message = "a newer Warmline wrote this record (schema {version})"
        raise PydanticCustomError(NEWER_SCHEMA, message, {"version": version})
    while version in steps and version < SCHEMA:
        data = steps[version](data)
        version += 1
    return data


def _adapter_from_0(data: Data) -> Data:
    """Version 0 (`adapter.json` until 0.1.0) had no factor: it followed from alpha and rank alone."""
    data = {**data, "schema": 1}
    alpha, rank = data.get("alpha"), data.get("rank")
    numbers = all(not isinstance(n, bool | str) and n is not None for n in (alpha, rank))
    if "factor" not in data and numbers and isinstance(rank, int) and rank > 0:
        try:
            data["factor"] = float(alpha) / rank if alpha else 1.0
        except (TypeError, ValueError, OverflowError):
            return data  # the alpha itself is refused
    return data


MIGRATIONS: Final[Mapping[str, Mapping[int, Callable[[Data], Data]]]] = {
    "AdapterRecord": {0: _adapter_from_0},
    "ModelRecord": {0: lambda data: {**data, "schema": 1}},
}
