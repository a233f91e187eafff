"""`textDocument/codeAction` and `codeAction/resolve` in our files: quick fixes for what their diagnostics say.

A digest is worked out only when its fix is chosen, where the client can ask for that: hashing a base takes seconds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lsprotocol import types
from warmline.digests import DigestCache, short
from warmline.errors import WarmlineError
from warmline.filemodel import parse
from warmline.store.resolution import contained, package_file
from warmline.variant import VariantFile

from .documents import Snapshot
from .file_check import UNPINNED
from .fixes import Change, fill_in, renamed, set_value
from .own_files import OwnFile, own_file, snapshot_of

if TYPE_CHECKING:
    from .protocol import WarmlineServer
    from .session import Session

_KIND: Final = types.CodeActionKind.QuickFix
_DIGEST_CODES: Final = frozenset({"artifact.digest", UNPINNED})


async def code_action(
    ls: WarmlineServer, params: types.CodeActionParams
) -> list[types.CodeAction | types.Command] | None:
    """Answer with the fixes of the diagnostics in the range; null in documents that are none of ours."""
    session, uri = ls.session, params.text_document.uri
    file = own_file(session.variants, uri)
    only = params.context.only
    if file is None or (only is not None and not any(str.startswith(_KIND.value, str(_text(k))) for k in only)):
        return None
    snapshot = snapshot_of(session, file, uri)
    actions: list[types.CodeAction | types.Command] = []
    for item in session.diagnostics.items(file.path):
        if not _overlap(item.range, params.range):
            continue
        if item.code == "trust.unapproved":
            actions.append(_trust(uri))
        elif session.client.literal_actions:
            actions += _fixes(session, file, uri, snapshot, item)
            if item.code in _DIGEST_CODES:
                action = _digest_action(uri, item)
                actions.append(action if session.client.resolves_actions else await _with_digest(session, action))
    return actions


async def resolve(ls: WarmlineServer, action: types.CodeAction) -> types.CodeAction:
    """Work out the edit of a fix that fills in a digest; what cannot be worked out comes back as it was."""
    return await _with_digest(ls.session, action)


def _fixes(
    session: Session, file: OwnFile, uri: str, snapshot: Snapshot, item: types.Diagnostic
) -> Iterator[types.CodeAction]:
    field = _field(item)
    for index, (title, change) in enumerate(
        renamed(session.variants.store, file, snapshot.text, str(item.code), field)
    ):
        edit = _edit(uri, snapshot, change)
        yield types.CodeAction(title, kind=_KIND, diagnostics=[item], is_preferred=index == 0, edit=edit)


def _trust(uri: str) -> types.Command:
    return types.Command("Look at what it brings, to approve it", "warmline.trust", arguments=[{"uri": uri}])


def _digest_action(uri: str, item: types.Diagnostic) -> types.CodeAction:
    missing = item.code == UNPINNED
    title = "Fill in the digest of the file that is there" if missing else "Take the file that is there: its digest"
    field = _field(item).removesuffix(".digest")
    return types.CodeAction(title, kind=_KIND, diagnostics=[item], data={"uri": uri, "field": field})


async def _with_digest(session: Session, action: types.CodeAction) -> types.CodeAction:
    uri, field = _member(action.data, "uri"), _member(action.data, "field")
    file = own_file(session.variants, uri) if isinstance(uri, str) else None
    if file is None or not isinstance(field, str):
        return action
    snapshot = snapshot_of(session, file, uri)
    cache = DigestCache(session.home / "cache" / "digests.json")
    try:
        path = _artifact(file, snapshot.text, field)
        digest = await asyncio.to_thread(cache.digest, path)
    except (WarmlineError, OSError, IndexError, ValueError):
        return action  # the diagnostics say what is wrong
    change = set_value(snapshot.text, f"{field}.digest", digest) or fill_in(snapshot.text, field, "digest", digest)
    if change is not None:
        action.edit = _edit(uri, snapshot, change)
        action.title = f"{action.title.rstrip(':')} ({short(digest)})"
    return action


def _artifact(file: OwnFile, text: str, field: str) -> Path:
    variant = parse(text, VariantFile, str(file.path))
    spec: Any = variant.base if field == "base" else variant.adapters[int(field.removeprefix("adapters[")[:-1])]
    package = getattr(spec, "package", None)
    if package is not None:
        return package_file(package, str(file.path), field)
    if spec.path is None:
        raise ValueError("an installed artifact is named by its record")
    return contained(spec.path, file.found(variant.backend), field)


def _edit(uri: str, snapshot: Snapshot, change: Change) -> types.WorkspaceEdit:
    where = types.Range(snapshot.position_at(change.span.start), snapshot.position_at(change.span.end))
    return types.WorkspaceEdit(changes={uri: [types.TextEdit(where, change.text)]})


def _field(item: types.Diagnostic) -> str:
    field = _member(item.data, "field")
    return field if isinstance(field, str) else ""


def _member(data: Any, name: str) -> Any:
    # pygls reads a client's JSON objects as named tuples.
    return data.get(name) if isinstance(data, dict) else getattr(data, name, None)


def _text(kind: Any) -> str:
    return str(getattr(kind, "value", kind))


def _overlap(one: types.Range, other: types.Range) -> bool:
    return one.start <= other.end and other.start <= one.end
