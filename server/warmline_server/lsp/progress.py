"""`$/progress`: the loading of a model, begun by the server; and answers that stream while a command runs."""

from __future__ import annotations

import asyncio
import uuid
from typing import TYPE_CHECKING, Any, Final

from lsprotocol import types
from warmline.host.wire import EngineStatus, State

from ..characters import as_message

if TYPE_CHECKING:
    from .outlet import Outlet

_TITLE: Final = "Warmline"
Token = int | str


class LoadProgress:
    """Shows that a model is being loaded, and how far it is. Call it on the loop."""

    def __init__(self, outlet: Outlet) -> None:
        self._outlet = outlet
        self._loading: tuple[str, int | None] | None = None
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def follow(self, status: EngineStatus) -> None:
        """Take the engine's latest state."""
        loading = (status.loading or "a model", status.percent) if status.state is State.LOADING else None
        if loading == self._loading:
            return
        self._loading = loading
        self._changed.set()
        if loading is not None and self._task is None:
            self._task = asyncio.ensure_future(self._show())
            self._task.add_done_callback(self._ended)

    def close(self) -> None:
        """Show nothing more."""
        if self._task is not None:
            self._task.cancel()

    async def _show(self) -> None:
        token = f"warmline-load-{uuid.uuid4().hex}"
        if not await self._outlet.create_progress(token):
            return
        named = False
        while self._loading is not None:
            self._changed.clear()
            base, percent = self._loading
            message = as_message(f"loading {base}")
            if not named:
                begin = types.WorkDoneProgressBegin(_TITLE, message=message, percentage=percent or 0)
                self._outlet.send_progress(token, begin)
                named = True
            else:
                self._outlet.send_progress(token, types.WorkDoneProgressReport(message=message, percentage=percent))
            await self._changed.wait()
        if named:
            self._outlet.send_progress(token, types.WorkDoneProgressEnd(message="loaded"))

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._task = None
        if not task.cancelled():
            task.exception()  # an editor that cannot show it is no fault to speak of


class Stream:
    """What a running command says before its result.

    Parameters
    ----------
    work
        The client's ``workDoneToken``, which says that the command is at work; None for silence.
    partial
        The client's ``partialResultToken``, which gets the text piece by piece; None for the whole at the end.
    """

    def __init__(self, outlet: Outlet, work: Token | None, partial: Token | None) -> None:
        self._outlet = outlet
        self._work = work
        self._partial = partial

    def begin(self, message: str) -> None:
        """Say what is done."""
        if self._work is not None:
            begin = types.WorkDoneProgressBegin(_TITLE, cancellable=True, message=as_message(message))
            self._outlet.send_progress(self._work, begin)

    def piece(self, value: dict[str, Any]) -> None:
        """Send a part of the result."""
        if self._partial is not None:
            self._outlet.send_progress(self._partial, value)

    def end(self) -> None:
        """Say that it is over."""
        if self._work is not None:
            self._outlet.send_progress(self._work, types.WorkDoneProgressEnd())
