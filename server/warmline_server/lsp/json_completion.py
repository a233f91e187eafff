"""`textDocument/completion` in our own files: their fields, and what is installed; elsewhere suggestions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

from lsprotocol import types
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from warmline.errors import WarmlineError
from warmline.filemodel import load_file, model_in
from warmline.registry import Store
from warmline.store.records import AdapterRecord, ModelRecord
from warmline.variant import VariantFile

from ..characters import as_message
from . import completion as suggestions
from .documents import Snapshot
from .json_cursor import JsonCursor, json_cursor
from .own_files import OwnFile, own_file

if TYPE_CHECKING:
    from .protocol import WarmlineServer

Path = tuple[str | int, ...]
Candidate = tuple[Any, str]  # a key or a value, and what is to be said of it


async def completion(ls: WarmlineServer, params: types.CompletionParams) -> types.CompletionList | None:
    """Answer with what may stand at the cursor in one of our files; suggestions of code in any other document."""
    session = ls.session
    file = own_file(session.variants, params.text_document.uri)
    snapshot = session.documents.get(params.text_document.uri)
    if file is None or snapshot is None:
        return await suggestions.completion(ls, params)
    cursor = json_cursor(snapshot.text, snapshot.offset_at(params.position))
    if cursor is None:
        return types.CompletionList(is_incomplete=False, items=[])
    found = (
        _keys(session.variants.store, file, cursor) if cursor.is_key else _values(session.variants.store, file, cursor)
    )
    return types.CompletionList(is_incomplete=False, items=[_item(snapshot, cursor, *each) for each in found])


def _item(snapshot: Snapshot, cursor: JsonCursor, value: Any, about: str) -> types.CompletionItem:
    text = json.dumps(value, ensure_ascii=False)
    inserted = f"{text}: " if cursor.is_key and not cursor.has_colon else text
    span = types.Range(snapshot.position_at(cursor.span.start), snapshot.position_at(cursor.span.end))
    written = snapshot.text[cursor.span.start : cursor.span.end]
    return types.CompletionItem(
        label=str(value) if isinstance(value, str) else text,
        kind=types.CompletionItemKind.Property if cursor.is_key else types.CompletionItemKind.Value,
        detail=as_message(about) or None,
        # Editors compare with what stands in the range, quotes included.
        filter_text=text if written.startswith('"') or not isinstance(value, str) else value,
        text_edit=types.TextEdit(span, inserted),
    )


def _keys(store: Store, file: OwnFile, cursor: JsonCursor) -> Iterator[Candidate]:
    if file.variant is None and cursor.path == ("overrides", "scales"):
        for name, about in _adapters_of_the_selected(store, file):
            if name not in cursor.keys:
                yield name, about
        return
    model = model_at(file.model, cursor.path)
    for name, info in model.model_fields.items() if model else ():
        key = info.alias or name
        if key not in cursor.keys:
            yield key, info.description or ""


def _values(store: Store, file: OwnFile, cursor: JsonCursor) -> Iterator[Candidate]:
    match cursor.path:
        case ("variant",) | ("chat",) if file.variant is None:
            for variant in store.variants(file.workspace):
                yield variant.name, f"{'workspace' if variant.workspace else 'store'}, {variant.backend}"
        case ("name",) if file.variant is not None:
            yield file.path.stem, "the file's own name"
        case ("base", "name"):
            yield from ((name, _about(record)) for name, record in _installed(store.list_models()))
        case ("adapters", int(), "name"):
            yield from ((name, _about(record)) for name, record in _installed(store.list_adapters()))
        case _:
            info = _field_at(file.model, cursor.path)
            yield from ((value, "default" if value == info.default else "") for value in _choices(info)) if info else ()


def model_at(model: type[BaseModel], path: Path) -> type[BaseModel] | None:
    """Find the model of the object at a place in a file; None where there is none, or its keys are a person's own."""
    here: type[BaseModel] | None = model
    for part in path:
        if isinstance(part, int):
            continue
        info = here.model_fields.get(part) if here else None
        here = model_in(info.annotation) if info else None
    return here


def _field_at(model: type[BaseModel], path: Path) -> FieldInfo | None:
    if not path or isinstance(path[-1], int):
        return None
    around = model_at(model, path[:-1])
    return around.model_fields.get(path[-1]) if around else None


def _choices(info: FieldInfo) -> Iterator[Any]:
    pending = [info.annotation]
    while pending:
        annotation: Any = pending.pop(0)
        if annotation is bool:
            yield from (True, False)
        elif get_origin(annotation) is Literal:
            yield from get_args(annotation)
        else:
            pending += [each for each in get_args(annotation) if each is not Ellipsis]


def _installed(listed: Any) -> Iterator[tuple[str, ModelRecord | AdapterRecord]]:
    return ((each.name, each.record) for each in listed if each.record is not None)


def _about(record: ModelRecord | AdapterRecord) -> str:
    return f"{record.backend}, from {record.source}" if record.source else record.backend


def _adapters_of_the_selected(store: Store, file: OwnFile) -> list[tuple[str, str]]:
    """List the adapters of the variant that a workspace file selects, as it is on disk."""
    assert file.workspace is not None  # a workspace file lies in one
    try:
        name = file.workspace.load().variant
        found = store.find(name, file.workspace)
        variant = load_file(found.path, VariantFile)
    except (WarmlineError, OSError):
        return []
    return [(adapter.name, f"scale {adapter.scale}") for adapter in variant.adapters]
