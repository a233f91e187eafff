"""`textDocument/documentLink` in our files: from a name or a path to the file that it means.

Targets are what our own look-up finds; no text of an artifact ever becomes a link.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from lsprotocol import types
from warmline.errors import WarmlineError
from warmline.filemodel import parse
from warmline.registry import Store
from warmline.store.resolution import Found, contained
from warmline.variant import VariantFile, WorkspaceFile

from . import uris
from .json_location import locate
from .own_files import OwnFile, own_file, snapshot_of

if TYPE_CHECKING:
    from .protocol import WarmlineServer

Link = tuple[str, Path, str]  # the field, the file that it means, what to say of it


async def document_link(ls: WarmlineServer, params: types.DocumentLinkParams) -> list[types.DocumentLink] | None:
    """Answer with the links of a file; null in documents that are none of ours."""
    session, uri = ls.session, params.text_document.uri
    file = own_file(session.variants, uri)
    if file is None:
        return None
    snapshot = snapshot_of(session, file, uri)
    text = snapshot.text
    links = []
    try:
        for field, target, about in _links(session.variants.store, file, text):
            span = locate(text, field)
            if span is not None:
                where = types.Range(snapshot.position_at(span.start), snapshot.position_at(span.end))
                links.append(types.DocumentLink(where, target=uris.to_uri(target), tooltip=about))
    except (WarmlineError, OSError):
        pass  # what is wrong with the file is in its diagnostics
    return links


def _links(store: Store, file: OwnFile, text: str) -> Iterator[Link]:
    if file.variant is None:
        selection = parse(text, WorkspaceFile, str(file.path))
        for field, name in (("variant", selection.variant), ("chat", selection.chat)):
            if name is not None:
                with contextlib.suppress(WarmlineError):
                    yield field, store.find(name, file.workspace).path, "The variant's file"
        return
    variant = parse(text, VariantFile, str(file.path))
    found = file.found(variant.backend)
    if variant.base.path is not None:
        yield from _file("base.path", variant.base.path, found)
    elif variant.base.installed:
        folder = store.places.models.folder(variant.backend, variant.base.name or "")
        yield from _record("base.name", folder)
    for index, spec in enumerate(variant.adapters):
        if spec.path is not None:
            yield from _file(f"adapters[{index}].path", spec.path, found)
        else:
            yield from _record(f"adapters[{index}].name", store.places.adapters.folder(variant.backend, spec.name))


def _file(field: str, path: str, found: Found) -> Iterator[Link]:
    target = contained(path, found, field)
    if target.is_file():
        yield field, target, "The file itself"


def _record(field: str, folder: Path) -> Iterator[Link]:
    record = folder / "record.json"
    if record.is_file():
        yield field, record, "What the store knows of it"
