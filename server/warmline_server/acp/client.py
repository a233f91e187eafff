"""What the client does for the agent: permission, files and terminals, each asked for only where it is offered."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from acp.schema import (
    ClientCapabilities,
    CreateTerminalResponse,
    ReadTextFileResponse,
    RequestPermissionResponse,
    TerminalOutputResponse,
)
from pydantic import BaseModel, ValidationError

from .edge import RequestError

Json = dict[str, Any]
M = TypeVar("M", bound=BaseModel)
ANSWER_SECONDS: Final = 60.0
ENDING_SECONDS: Final = 2.0  # what a turn that was cancelled waits for


class Peer(Protocol):
    """The other end of the connection."""

    async def send_request(self, method: str, params: Json) -> Any:
        """Ask, and wait for the answer; raises `RequestError` for an error and `ConnectionError` at the end."""
        ...

    async def send_notification(self, method: str, params: Json) -> None:
        """Tell."""
        ...


@dataclass(slots=True)
class Client:
    """The client, with what it said that it can do.

    Answers that are not as they should be raise `RequestError`, and so does none in time; persons and commands have all
    the time that they take.
    """

    peer: Peer
    capabilities: ClientCapabilities = field(default_factory=ClientCapabilities)

    @property
    def reads(self) -> bool:
        """Whether files are read through the client, with what its buffers hold."""
        return bool(self.capabilities.fs and self.capabilities.fs.read_text_file)

    @property
    def edits(self) -> bool:
        """Whether files are changed through the client: it has to read them too, as what is written is a change of it.

        What it reads may lack what it puts back itself (a byte order mark, carriage returns), and what is on disk may
        lack what its buffers hold.
        """
        return self.reads and bool(self.capabilities.fs and self.capabilities.fs.write_text_file)

    @property
    def terminals(self) -> bool:
        """Whether commands run in the client's terminals."""
        return bool(self.capabilities.terminal)

    async def update(self, session_id: str, update: Json) -> None:
        """Tell the client what happens in a session."""
        await self.peer.send_notification("session/update", {"sessionId": session_id, "update": update})

    async def permission(self, session_id: str, tool_call: Json, options: list[Json]) -> str | None:
        """Ask a person; the chosen option's id, or None where the turn was cancelled instead."""
        params = {"sessionId": session_id, "toolCall": tool_call, "options": options}
        answer = await self._ask("session/request_permission", params, RequestPermissionResponse, None)
        return answer.outcome.option_id if answer.outcome.outcome == "selected" else None

    async def read_text_file(self, session_id: str, path: Path) -> str:
        """Read a whole file, with changes that are not saved yet."""
        params = {"sessionId": session_id, "path": str(path)}
        return (await self._ask("fs/read_text_file", params, ReadTextFileResponse, ANSWER_SECONDS)).content

    async def write_text_file(self, session_id: str, path: Path, content: str) -> None:
        """Write a whole file."""
        params = {"sessionId": session_id, "path": str(path), "content": content}
        await self._request("fs/write_text_file", params, ANSWER_SECONDS)

    async def create_terminal(self, session_id: str, command: str, cwd: Path, most_bytes: int) -> str:
        """Start a shell command in a terminal and give the terminal's id; whoever asks says how long to wait."""
        shell = {"command": "/bin/sh", "args": ["-c", command], "cwd": str(cwd), "outputByteLimit": most_bytes}
        params = {"sessionId": session_id, **shell}
        return (await self._ask("terminal/create", params, CreateTerminalResponse, None)).terminal_id

    async def wait_for_exit(self, session_id: str, terminal_id: str) -> None:
        """Wait until a terminal's command has ended."""
        params = {"sessionId": session_id, "terminalId": terminal_id}
        await self._request("terminal/wait_for_exit", params, None)

    async def terminal_output(self, session_id: str, terminal_id: str) -> TerminalOutputResponse:
        """Give what a terminal shows, and how its command ended, if it has."""
        params = {"sessionId": session_id, "terminalId": terminal_id}
        return await self._ask("terminal/output", params, TerminalOutputResponse, ANSWER_SECONDS)

    async def kill_terminal(self, session_id: str, terminal_id: str) -> None:
        """End a terminal's command; what it showed stays."""
        params = {"sessionId": session_id, "terminalId": terminal_id}
        await self._request("terminal/kill", params, ENDING_SECONDS)

    async def release_terminal(self, session_id: str, terminal_id: str) -> None:
        """Let go of a terminal."""
        params = {"sessionId": session_id, "terminalId": terminal_id}
        await self._request("terminal/release", params, ENDING_SECONDS)

    async def _request(self, method: str, params: Json, seconds: float | None) -> Any:
        try:
            async with asyncio.timeout(seconds):
                return await self.peer.send_request(method, params)
        except TimeoutError:
            raise RequestError(-32603, f"the client did not answer {method} in {seconds:g} s") from None

    async def _ask(self, method: str, params: Json, model: type[M], seconds: float | None) -> M:
        answer = await self._request(method, params, seconds)
        try:
            return model.model_validate(answer)
        except ValidationError:
            raise RequestError(-32603, f"the client's answer to {method} is none") from None
