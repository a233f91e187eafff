"""Serving one client on stdio until it leaves."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

from warmline.host.client import EngineClient, connect
from warmline.registry import warmline_home

from ..processes import on_signals
from ..stdio import Streams, protect
from .agent import Agent
from .edge import Edge
from .turns import Limits

_CLOSING_SECONDS: Final = 10.0


async def serve(
    streams: Streams,
    home: Path,
    make_engine: Callable[[], EngineClient],
    limits: Limits | None = None,
    *,
    left: Callable[[], object] = lambda: None,
) -> None:
    """Serve the client at the other end of `streams` until it closes its end, or the process is asked to end.

    Parameters
    ----------
    left
        Called when the client is gone, before what it had at work is ended.
    """
    agent = Agent(home, make_engine, limits)
    edge = Edge(streams, agent.requests, agent.notifications)
    agent.connect(edge.connection)
    try:
        with on_signals(edge.end):
            await edge.serve()
    finally:
        left()
        await agent.leave()
        await edge.close()


def run_stdio() -> int:
    """Serve on this process's stdin and stdout; return the exit code."""
    home = warmline_home()
    asyncio.run(_served(protect(), home))
    return 0


async def _served(streams: Streams, home: Path) -> None:
    # Neither a call that never returns nor a server that does not answer must keep an agent without a client.
    timer = threading.Timer(_CLOSING_SECONDS, os._exit, (0,))
    timer.daemon = True
    await serve(streams, home, lambda: connect(home), left=timer.start)
