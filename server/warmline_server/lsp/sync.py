"""`textDocument/didOpen`, `didChange`, `didClose`, `didSave`: keep our own store as the editor has its documents."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lsprotocol import types

from . import file_check, uris

if TYPE_CHECKING:
    from .protocol import WarmlineServer
    from .session import Session


def did_open(ls: WarmlineServer, params: types.DidOpenTextDocumentParams) -> None:
    """Take the document, and make its variant ready: the first completion then is quick, and errors show at once."""
    document = params.text_document
    ls.session.documents.open(document.uri, document.language_id, document.version, document.text)
    ls.session.suggesting.opened(document.uri)
    ls.session.prewarm.opened(document.uri)
    ls.session.prepare(document.uri)
    file_check.check(ls.session, document.uri)


def did_change(ls: WarmlineServer, params: types.DidChangeTextDocumentParams) -> None:
    """Apply the edits; a refused one is logged, and the document gets no suggestions until its whole text comes."""
    document = params.text_document
    result = ls.session.documents.change(document.uri, document.version, params.content_changes)
    ls.session.suggesting.typed()
    if not result.applied:
        ls.session.outlet.log(types.MessageType.Warning, f"didChange refused: {result.reason}")
    file_check.check(ls.session, document.uri)


def did_close(ls: WarmlineServer, params: types.DidCloseTextDocumentParams) -> None:
    """Forget the document and stop what is decoded for it."""
    ls.session.suggesting.closed(params.text_document.uri)
    ls.session.documents.close(params.text_document.uri)
    ls.session.requests.stop(params.text_document.uri)
    ls.session.prewarm.closed(params.text_document.uri)
    file_check.check(ls.session, params.text_document.uri)


def did_save(ls: WarmlineServer, params: types.DidSaveTextDocumentParams) -> None:
    """Look at a workspace or variant file again when it was saved: not every client watches files."""
    if _is_configuration(ls.session, params.text_document.uri):
        ls.session.refresh()


def _is_configuration(session: Session, uri: str) -> bool:
    path = uris.to_path(uri)
    if path is None:
        return False
    variants = session.variants
    return variants.described_by(path) is not None or variants.variant_file(path) is not None
