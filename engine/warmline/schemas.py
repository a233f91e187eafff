"""JSON Schemas of all files that people and catalogs write, for editors and checkers."""

from __future__ import annotations

from typing import Any, Final

from .catalog import Catalog
from .certificates import Certificate
from .evaluation.tasks import Header, line_schema
from .filemodel import FileModel
from .settings import Settings
from .store.records import AdapterRecord, ModelRecord
from .variant import VariantFile, WorkspaceFile

SCHEMAS: Final[dict[str, type[FileModel]]] = {
    "variant": VariantFile,
    "workspace": WorkspaceFile,
    "adapter": AdapterRecord,
    "model": ModelRecord,
    "catalog": Catalog,
    "settings": Settings,
    "suite": Header,
    "certificate": Certificate,
}


def json_schema(kind: str) -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a file kind: a key of `SCHEMAS`."""
    if SCHEMAS[kind] is Header:
        return as_schema("a line of a warmline suite", line_schema())
    schema = SCHEMAS[kind].model_json_schema(by_alias=True, mode="validation")
    return as_schema(f"warmline {kind} file", schema)


def as_schema(title: str, schema: dict[str, Any]) -> dict[str, Any]:
    """Say of a model's schema which draft it follows, and what it is of where it does not say so itself."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": title, **schema}
