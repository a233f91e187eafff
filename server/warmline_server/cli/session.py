"""The engine for the length of one command."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from warmline.host.client import EngineClient
from warmline.registry import warmline_home

from .output import Output


@contextlib.asynccontextmanager
async def engine(output: Output, approved: frozenset[str] = frozenset()) -> AsyncIterator[EngineClient]:
    """Open the engine and close it again; stdout is guarded before any native library is loaded.

    Parameters
    ----------
    approved
        Digests that are approved for this command only, beside those in the user's trust store.
    """
    output.guard()
    from warmline.host.local import LocalEngine

    client = LocalEngine(warmline_home(), approved)
    try:
        yield client
    finally:
        await client.close()
