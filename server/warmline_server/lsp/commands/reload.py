"""`warmline.reload`: look at the files again, and load what they name."""

from __future__ import annotations

from typing import Any

from .call import Arguments, Call


async def reload(call: Call) -> dict[str, Any]:
    """Resolve and load what is in use again; answer with the status once that is done, or has failed."""
    call.arguments(Arguments)
    call.session.refresh()
    await call.session.settled()
    return await call.session.status_now()
