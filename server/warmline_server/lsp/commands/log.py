"""`warmline.showLog`: where the engine's log is, opened where the client can."""

from __future__ import annotations

from typing import Any

from lsprotocol import types
from warmline.host.paths import host_paths

from ...paths import short_path
from .. import uris
from .call import Arguments, Call


async def show_log(call: Call) -> dict[str, Any]:
    """Open the engine's log; answer ``{file, exists, shown}``."""
    call.arguments(Arguments)
    session = call.session
    file = host_paths(session.home).log
    shown = False
    if not file.is_file():
        session.outlet.show(types.MessageType.Info, "Warmline: the engine has written no log yet.")
    elif session.client.shows_documents:
        shown = await session.outlet.show_document(uris.to_uri(file))
    else:
        session.outlet.show(types.MessageType.Info, f"Warmline: the engine's log is {short_path(file)}")
    return {"file": str(file), "exists": file.is_file(), "shown": shown}
