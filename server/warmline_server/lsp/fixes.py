"""The edits behind the quick fixes: a name becomes the nearest that is known, a digest is filled in."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from warmline.errors import WarmlineError
from warmline.filemodel import load_file
from warmline.registry import Store
from warmline.variant import VariantFile

from .json_completion import model_at
from .json_location import Span, locate_key, node_at
from .own_files import OwnFile

_NEAR: Final = 3
_PART: Final = re.compile(r"\[(\d+)\]|([^.\[]+)")
_SCALES: Final = "overrides.scales."


@dataclass(frozen=True, slots=True)
class Change:
    """Text in place of a span of a file's text."""

    span: Span
    text: str


def renamed(store: Store, file: OwnFile, text: str, code: str, field: str) -> Iterator[tuple[str, Change]]:
    """Yield what a misspelt name may have meant, nearest first, with the change that writes it."""
    if code == "config.unknown_field":
        parent, _, wrong = field.rpartition(".")
        model = model_at(file.model, _parts(parent))
        known = [info.alias or name for name, info in model.model_fields.items()] if model else []
        yield from _keys(text, field, wrong, known)
    elif code == "config.field" and field.startswith(_SCALES):
        yield from _keys(text, field, field.removeprefix(_SCALES), _adapters(store, file))
    elif code == "config.field" and file.variant is not None and field in ("name", "backend"):
        right = file.path.stem if field == "name" else file.path.parent.name
        change = set_value(text, field, right)
        if change is not None:
            yield f"Write `{right}`, as the file is called", change
    elif code == "variant.unknown":
        yield from _values(text, field or "variant", {found.name for found in store.variants(file.workspace)})
    elif code == "store.unknown_model":
        yield from _values(text, field, {each.name for each in store.list_models()})
    elif code == "store.unknown_adapter":
        yield from _values(text, field, {each.name for each in store.list_adapters()})


def set_value(text: str, field: str, value: str) -> Change | None:
    """Replace a field's value; None where the field isn't there."""
    node = node_at(text, field)
    return Change(node.value, _quoted(value)) if node is not None else None


def fill_in(text: str, parent: str, key: str, value: str) -> Change | None:
    """Add a member at the end of an object, laid out as its last one; None where there is no such object."""
    node = node_at(text, parent)
    if node is None or not node.members:
        return None
    _, last = node.members[-1]
    label = last.label.start
    line = text.rfind("\n", node.value.start, label)
    space = text[line + 1 : label] if line >= 0 else ""
    separator = f",\n{space}" if line >= 0 and not space.strip() else ", "
    return Change(Span(last.value.end, last.value.end), f"{separator}{_quoted(key)}: {_quoted(value)}")


def _keys(text: str, field: str, wrong: str, known: Iterable[str]) -> Iterator[tuple[str, Change]]:
    span = locate_key(text, field)
    if span is None or node_at(text, field) is None:
        return
    for name in difflib.get_close_matches(wrong, list(known), n=_NEAR):
        yield f"Change it to `{name}`", Change(span, _quoted(name))


def _values(text: str, field: str, known: Iterable[str]) -> Iterator[tuple[str, Change]]:
    node = node_at(text, field)
    if node is None:
        return
    written: Any = json.loads(text[node.value.start : node.value.end])
    if isinstance(written, str):
        for name in difflib.get_close_matches(written.rpartition("/")[2], sorted(known), n=_NEAR):
            yield f"Change it to `{name}`", Change(node.value, _quoted(name))


def _adapters(store: Store, file: OwnFile) -> list[str]:
    try:
        if file.workspace is None:
            return []
        found = store.find(file.workspace.load().variant, file.workspace)
        return [adapter.name for adapter in load_file(found.path, VariantFile).adapters]
    except (WarmlineError, OSError):
        return []


def _parts(path: str) -> tuple[str | int, ...]:
    return tuple(int(index) if index else name for index, name in _PART.findall(path))


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
