"""`warmline/didFocus`: a client may tell that a document got the focus, and where its cursor stands.

The parameters are LSP's `TextDocumentPositionParams`. What is likely asked there is prefilled; nothing depends on it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lsprotocol import types

if TYPE_CHECKING:
    from .protocol import WarmlineServer

METHOD: Final = "warmline/didFocus"


def did_focus(ls: WarmlineServer, params: Any) -> None:
    """Report on its variant and prefill at the cursor; parameters that are not as they should be are passed over."""
    document, position = getattr(params, "textDocument", None), getattr(params, "position", None)
    uri, line, character = (
        getattr(document, "uri", None),
        getattr(position, "line", None),
        getattr(position, "character", None),
    )
    if isinstance(uri, str) and isinstance(line, int) and isinstance(character, int) and min(line, character) >= 0:
        ls.session.turn_to(uri)
        ls.session.suggesting.moved(uri, line)
        ls.session.prewarm.moved(uri, types.Position(line, character))
