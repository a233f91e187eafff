"""Runs commands: which there are, how they are cancelled, how their errors are answered."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from lsprotocol import types
from warmline.errors import WarmlineError

from ...paths import unreadable
from ..accepted import accepted
from ..configuration import plain
from ..initialize import ACCEPTED_COMMAND, STATUS_COMMAND
from .call import Call, Refused
from .chat import chat, explain
from .edit import edit, fix
from .log import show_log
from .reload import reload
from .statistics import statistics
from .trust import trust
from .variants import list_variants, select_variant

if TYPE_CHECKING:
    from ..protocol import WarmlineServer

Handler = Callable[[Call], Awaitable[Any]]


async def _status(call: Call) -> dict[str, Any]:
    return await call.session.status_now()


HANDLERS: Final[Mapping[str, Handler]] = {
    "warmline.chat": chat,
    "warmline.explain": explain,
    "warmline.edit": edit,
    "warmline.fix": fix,
    "warmline.selectVariant": select_variant,
    "warmline.listVariants": list_variants,
    "warmline.trust": trust,
    "warmline.reload": reload,
    "warmline.showLog": show_log,
    "warmline.statistics": statistics,
    STATUS_COMMAND: _status,
}


class Running:
    """Commands at work by their ``workDoneToken``, so that the person can end them."""

    def __init__(self) -> None:
        self._tasks: dict[int | str, asyncio.Task[Any]] = {}

    async def run(self, ls: WarmlineServer, params: types.ExecuteCommandParams) -> Any:
        """Run one command.

        Raises
        ------
        Refused
            What the client is answered: there is no such command, its arguments are not as they should be, its token
            belongs to a command that runs, or a `WarmlineError` came of it.
        """
        given = tuple(plain(params.arguments or []))
        if params.command == ACCEPTED_COMMAND:
            accepted(ls, *given)
            return None
        handler = HANDLERS.get(params.command)
        if handler is None:
            raise Refused("there is no such command", code=types.ErrorCodes.InvalidParams.value)
        task, token = asyncio.current_task(), params.work_done_token
        if token is not None and task is not None:
            if token in self._tasks:
                raise Refused("another command with this workDoneToken runs", code=types.ErrorCodes.InvalidParams.value)
            self._tasks[token] = task
        try:
            return await handler(Call(ls.session, params.command, given, token))
        except WarmlineError as error:
            raise Refused.by(error) from None
        except OSError as error:
            raise Refused.by(unreadable(error, ls.session.home)) from None
        finally:
            if token is not None:
                self._tasks.pop(token, None)

    def cancel(self, token: int | str) -> None:
        """End the command with this token, if one runs."""
        task = self._tasks.get(token)
        if task is not None:
            task.cancel()
