"""`run_command`: a shell command in the session's folder, in the client's terminal or by itself, within limits."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any, Final

from .. import updates
from ..client import ANSWER_SECONDS, Client
from ..edge import RequestError
from ..modes import Effect
from .shell import MOST_PROCESSES, run_shell
from .tool import STRING, Action, Arguments, Place, Report, Result, ToolError, checked, object_of

SECONDS: Final = 120.0
_MOST_BYTES: Final = 64_000
_MOST_CHARACTERS: Final = 8_000  # of what the model is told
_MOST_COMMAND: Final = 4_000
_SHOWN: Final = 200


class _Arguments(Arguments):
    command: str


class RunCommand:
    """Runs a command; *always* permits this very command and no other."""

    name = "run_command"
    effect: Effect = "run"
    usage = "run_command(command): runs a shell command in the session's folder and gives its output"
    schema = object_of({"command": STRING})

    def __init__(self, seconds: float = SECONDS, processes: int = MOST_PROCESSES) -> None:
        self._seconds = seconds
        self._processes = processes
        self._ending: set[asyncio.Task[None]] = set()

    async def prepare(self, arguments: dict[str, Any], place: Place) -> Action:
        """See `Tool.prepare`."""
        command = checked(_Arguments, arguments).command.strip()
        if not 0 < len(command) <= _MOST_COMMAND or "\x00" in command:
            raise ToolError(f"command: it has to have 1 to {_MOST_COMMAND} characters")

        async def perform(report: Report) -> Result:
            run = self._in_terminal if place.client.terminals else self._by_itself
            return await run(command, place, report)

        shown = command if len(command) <= _SHOWN else command[: _SHOWN - 1] + "…"
        return Action(f"Run {shown}", "execute", "run", f"the command {command}", perform)

    async def _by_itself(self, command: str, place: Place, _report: Report) -> Result:
        done = await run_shell(command, place.roots.cwd, self._seconds, _MOST_BYTES, self._processes)
        how = f"stopped after {self._seconds:g} s" if done.late else f"exit code {done.code}"
        if done.many:
            how = f"stopped: it had more than {self._processes} processes"
        text = _told(done.output, how)
        return Result(text, [updates.text_content(text)])

    async def _in_terminal(self, command: str, place: Place, report: Report) -> Result:
        client, session = place.client, place.session_id
        terminal = await self._opened(client, session, command, Path(place.roots.cwd))
        content = {"type": "terminal", "terminalId": terminal}
        late = ""
        ended = False
        try:
            await report([content])
            try:
                async with asyncio.timeout(self._seconds):
                    await client.wait_for_exit(session, terminal)
                ended = True
            except TimeoutError:
                late = f"stopped after {self._seconds:g} s"
                await client.kill_terminal(session, terminal)
                ended = True
            shown = await client.terminal_output(session, terminal)
        except RequestError as error:
            raise ToolError(f"the client's terminal failed: {error}") from None
        finally:
            with contextlib.suppress(RequestError, ConnectionError):
                if not ended:
                    await client.kill_terminal(session, terminal)
                await client.release_terminal(session, terminal)
        status = shown.exit_status
        how = f"exit code {status.exit_code}" if status and status.exit_code is not None else "ended by a signal"
        return Result(_told(shown.output, late or how), [content])

    async def _opened(self, client: Client, session: str, command: str, cwd: Path) -> str:
        """Have the client open a terminal; one that it opens too late for us is ended."""
        opening = asyncio.ensure_future(client.create_terminal(session, command, cwd, _MOST_BYTES))
        try:
            return await asyncio.wait_for(asyncio.shield(opening), ANSWER_SECONDS)
        except RequestError as error:
            raise ToolError(f"the client opens no terminal: {error}") from None
        except (TimeoutError, asyncio.CancelledError) as error:
            ending = asyncio.create_task(_end_late(client, session, opening))
            self._ending.add(ending)
            ending.add_done_callback(self._ending.discard)
            if isinstance(error, asyncio.CancelledError):
                raise
            how = f"the client did not answer terminal/create in {ANSWER_SECONDS:g} s"
            raise ToolError(f"the client opens no terminal: {how}") from None


async def _end_late(client: Client, session: str, opening: asyncio.Future[str]) -> None:
    with contextlib.suppress(RequestError, ConnectionError):
        terminal = await opening
        await client.kill_terminal(session, terminal)
        await client.release_terminal(session, terminal)


def _told(output: str, how: str) -> str:
    """Cut the middle out of what is long: what matters mostly stands at the ends."""
    text = output.strip()
    if len(text) > _MOST_CHARACTERS:
        half = _MOST_CHARACTERS // 2
        text = f"{text[:half]}\n[{len(text) - 2 * half} characters left out]\n{text[-half:]}"
    return f"{text}\n[{how}]" if text else f"[no output; {how}]"
