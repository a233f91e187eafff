"""The editor's process: its death ends the server, even if the pipe stays open in somebody else's hands."""

from __future__ import annotations

import asyncio
import os
from typing import Final

_POLL_SECONDS: Final = 5.0


async def wait_for_exit(process_id: int) -> None:
    """Return when the process has ended.

    A process that can't be seen at the start (the editor runs in another container or on another host) is never
    waited for to an end: its absence then says nothing, and the closing of stdin still ends the session. Nor is a
    number that no process can have.
    """
    if os.name == "nt" or not _alive(process_id):
        await asyncio.Event().wait()
    try:
        # Not on every Unix, and not in every sandbox.
        handle = os.pidfd_open(process_id)
    except (AttributeError, OSError, OverflowError):
        while _alive(process_id):  # noqa: ASYNC110  # there is no event to wait for
            await asyncio.sleep(_POLL_SECONDS)
        return
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    loop.add_reader(handle, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(handle)
        os.close(handle)


def _alive(process_id: int) -> bool:
    try:
        os.kill(process_id, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True
