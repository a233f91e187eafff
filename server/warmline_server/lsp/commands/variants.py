"""`warmline.listVariants` and `warmline.selectVariant`: what can be selected here, and selecting it."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any, Final

from lsprotocol import types
from pydantic import Field
from warmline.digests import write_atomically
from warmline.errors import ConfigError
from warmline.filemodel import parse
from warmline.variant import WorkspaceFile
from warmline.workspace import WORKSPACE_FILE, WORKSPACE_FOLDER, Workspace

from ...listing import list_rows
from .. import uris
from ..fixes import fill_in, set_value
from ..own_files import is_own, own_file, text_on_disk
from .call import AboutDocument, Call

_OFFERED: Final = 12


class SelectArguments(AboutDocument):
    """What `warmline.selectVariant` takes; without `variant` the person is asked."""

    variant: str | None = Field(default=None, max_length=80)


async def list_variants(call: Call) -> list[dict[str, Any]]:
    """Answer with what can be selected for a document, as ``warmline variant list --json``."""
    given = call.arguments(AboutDocument)
    workspace = _workspace(call, given.uri)
    rows = await asyncio.to_thread(list_rows, call.session.home, workspace)
    return [row.as_json() for row in rows]


async def select_variant(call: Call) -> dict[str, Any] | None:
    """Write a variant's name into the workspace file; answer ``{variant, file}``, null when the person chose none.

    Raises
    ------
    WarmlineError
        The variant is none, or does not go with what the file overrides; the file has unsaved changes; there is no
        workspace folder to write it into.
    """
    given = call.arguments(SelectArguments)
    session = call.session
    workspace = _workspace(call, given.uri) or _new(call, given.uri)
    name = given.variant
    if name is None:
        rows = await asyncio.to_thread(list_rows, session.home, workspace if workspace.file.is_file() else None)
        names = tuple(dict.fromkeys(row.found.name for row in rows if row.error is None))[:_OFFERED]
        name = await session.outlet.ask(types.MessageType.Info, "Warmline: which variant shall answer here?", names)
        if name is None:
            return None
    target = _target(workspace)
    text = _with_variant(call, workspace, name)
    overrides = parse(text, WorkspaceFile, str(workspace.file)).overrides
    session.variants.store.resolve(name, workspace, overrides)
    await asyncio.to_thread(write_atomically, target, text.encode())
    session.refresh()
    return {"variant": name, "file": str(workspace.file)}


def _target(workspace: Workspace) -> Path:
    """Find the file to write: that which a link leads to, which has to lie in the workspace too."""
    target = Path(os.path.realpath(workspace.file))
    if not target.is_relative_to(os.path.realpath(workspace.root)):
        raise ConfigError(
            "the workspace file is a link that leads out of the workspace",
            code="config.path",
            file=str(workspace.file),
            remedy="Select the variant in the file that it leads to",
        )
    return target


def _with_variant(call: Call, workspace: Workspace, name: str) -> str:
    """Give the workspace file's text with the name in it; all else in it stays as a person wrote it."""
    text = text_on_disk(workspace.file)
    opened = call.session.documents.get(uris.to_uri(workspace.file))
    if opened is not None and opened.text != text:
        raise ConfigError(
            "the workspace file has changes that are not saved",
            code="config.field",
            file=str(workspace.file),
            remedy="Save it, then select again",
        )
    if "".join(text.split()) in ("", "{}"):
        return json.dumps({"variant": name}, indent=2) + "\n"
    change = set_value(text, "variant", name)
    if change is None:
        change = fill_in(text, "", "variant", name)
    if change is None:
        parse(text, WorkspaceFile, str(workspace.file))  # says what is wrong with it
        return text
    return text[: change.span.start] + change.text + text[change.span.end :]


def _workspace(call: Call, uri: str | None) -> Workspace | None:
    """Find the workspace of a document; of a variant in the user's store, that of the document at hand."""
    file = own_file(call.session.variants, uri) if uri else None
    if file is not None and file.workspace is not None:
        return file.workspace
    folder = _folder(call, None if file is not None else uri)
    return call.session.variants.workspace_of(folder) if folder is not None else None


def _new(call: Call, uri: str | None) -> Workspace:
    if call.session.variants.restricted:
        raise ConfigError(
            "the editor has this workspace in its restricted mode, in which only your own default variant runs",
            code="config.restricted",
            remedy="Trust the workspace in the editor, or: warmline config set default-variant NAME",
        )
    roots = call.session.variants.roots
    path = _folder(call, uri)
    root = next((root for root in roots if path is not None and path.is_relative_to(root)), None)
    root = root or (roots[0] if roots else None)
    if root is None:
        raise ConfigError(
            "there is no workspace folder to select a variant for",
            code="config.no_workspace",
            remedy="Open a folder, or: warmline config set default-variant NAME",
        )
    return Workspace(root, root / WORKSPACE_FOLDER / WORKSPACE_FILE)


def _folder(call: Call, uri: str | None) -> Path | None:
    for each in (uri, call.session.at_hand):
        path = uris.to_path(each) if each else None
        if path is not None and not is_own(path):
            return path.parent
    roots = call.session.variants.roots
    return roots[0] if roots else None
