"""Tools of the MCP servers that a client gives a session: processes, or at a URL; tools under their server's name."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import sys
from collections.abc import AsyncIterator, Container, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from acp.schema import HttpMcpServer, McpServerStdio

from ..characters import escape_invisible
from . import updates
from .edge import InvalidParams
from .modes import Effect
from .plans import usable_schema
from .tools.tool import Action, Place, Report, Result, Tool, ToolError

if TYPE_CHECKING:
    from mcp import ClientSession

McpServer = McpServerStdio | HttpMcpServer
START_SECONDS: Final = 15.0
CLOSE_SECONDS: Final = 6.0  # a process that does not leave by itself is ended within these
CALL_SECONDS: Final = 60.0
_MOST_SERVERS: Final = 8
_MOST_TOOLS: Final = 32
_MOST_PAGES: Final = 16
_MOST_USAGE: Final = 200
_MOST_CHARACTERS: Final = 8_000
_NAME: Final = re.compile(r"[^A-Za-z0-9_-]+")


def refuse_unadvertised(servers: Sequence[Any] | None) -> list[McpServer]:
    """Give the servers that can be used; raises `InvalidParams` for transports that are not advertised."""
    given = list(servers or ())
    if any(not isinstance(each, (McpServerStdio, HttpMcpServer)) for each in given) or len(given) > _MOST_SERVERS:
        raise InvalidParams(f"MCP servers are on stdio or http, at most {_MOST_SERVERS}; no other transport is offered")
    for each in given:
        if isinstance(each, HttpMcpServer) and not each.url.startswith(("http://", "https://")):
            raise InvalidParams(f"`{each.url[:200]}` is no http URL")
    return given


@dataclass(slots=True)
class Servers:
    """A session's servers. One that does not start, or dies, is reported and costs the session nothing else."""

    cwd: Path
    tools: dict[str, list[Tool]] = field(default_factory=dict)
    reports: dict[str, str] = field(default_factory=dict)
    _running: list[asyncio.Task[None]] = field(default_factory=list)
    _starting: list[asyncio.Future[None]] = field(default_factory=list)
    _stop: asyncio.Event = field(default_factory=asyncio.Event)

    def start(self, servers: Sequence[McpServer]) -> None:
        """Begin to start servers; `started` waits for them."""
        for name, server in zip(_names(servers), servers, strict=True):
            self.reports[name] = "starting"
            # In the client's order, whichever starts first: what the model is told stays the same.
            self.tools[name] = []
            begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._starting.append(begun)
            self._running.append(asyncio.create_task(self._serve(name, server, begun)))

    async def started(self) -> None:
        """Wait until every server has started, or has not in time."""
        if self._starting:
            await asyncio.wait(self._starting, timeout=START_SECONDS)

    async def close(self) -> None:
        """End the servers."""
        self._stop.set()
        for task, begun in zip(self._running, self._starting, strict=True):
            if not begun.done():  # it hears of nothing but its own start
                task.cancel()
        if self._running:
            await asyncio.wait(self._running, timeout=CLOSE_SECONDS)
        for task in self._running:
            task.cancel()

    async def _serve(self, name: str, server: McpServer, begun: asyncio.Future[None]) -> None:
        # The SDK is a second's work to import, and most sessions have no server.
        from mcp import ClientSession

        try:
            # Whatever was entered is left in this very task, as its cancel scopes ask.
            async with (
                _streams(server, self.cwd) as (reader, writer),
                ClientSession(reader, writer) as session,
            ):
                async with asyncio.timeout(START_SECONDS):
                    await session.initialize()
                    offered = await _tools(session)
                found: dict[str, Tool] = {}
                for each in offered[:_MOST_TOOLS]:
                    own = _free(f"{name}.{_NAME.sub('-', each.name)[:64]}", found)
                    found[own] = _ServerTool(self, name, own, session, each)
                self.tools[name] = list(found.values())
                of = "" if len(offered) == len(found) else f" of {len(offered)}; no more of one server are used"
                self.reports[name] = f"runs, {len(found)}{of or ' tools'}"
                begun.set_result(None)
                await self._stop.wait()
        except Exception as error:  # whatever a foreign program does must not end the session
            self.lost(name, _why(error))
        finally:
            if not begun.done():
                begun.set_result(None)

    def lost(self, name: str, why: str) -> None:
        """Note that a server is of no use any more."""
        self.reports[name] = f"failed: {' '.join(why.split())[:200]}"


def _names(servers: Sequence[McpServer]) -> list[str]:
    """Give each server a name of its own; one that nobody else has stays as it is."""
    plain = [_NAME.sub("-", server.name)[:32].strip("-") or f"server-{number}" for number, server in enumerate(servers)]
    given: list[str] = []
    for number, name in enumerate(plain):
        given.append(name if name not in plain[:number] else _free(name, {*given, *plain}))
    return given


def _free(name: str, taken: Container[str]) -> str:
    """Give a name, or with a number where it is taken already."""
    names = itertools.chain([name], (f"{name}-{number}" for number in itertools.count(1)))
    return next(each for each in names if each not in taken)


async def _tools(session: ClientSession) -> list[Any]:
    """List a server's tools, page by page."""
    from mcp.types import PaginatedRequestParams

    found: list[Any] = []
    cursor: str | None = None
    for _ in range(_MOST_PAGES):
        page = await session.list_tools(params=PaginatedRequestParams(cursor=cursor))
        found += page.tools
        cursor = page.next_cursor
        if cursor is None:
            break
    return found


def _line(text: str) -> str:
    """Write a server's words in one line, short, with nothing that cannot be seen."""
    return escape_invisible(" ".join(text.split())[:_MOST_USAGE])


def _text(result: Any) -> str:
    """Give what a tool answered, as far as it is text: also an embedded resource, or a structure and nothing else."""
    blocks = list(getattr(result, "content", ()))
    blocks += [part.resource for part in blocks if getattr(part, "type", "") == "resource"]
    parts = [part.text for part in blocks if isinstance(getattr(part, "text", None), str)]
    structure = getattr(result, "structured_content", None)
    if not parts and structure is not None:
        parts = [json.dumps(structure, ensure_ascii=False)]
    return "\n".join(parts) or "[nothing that is text]"


def _why(error: BaseException) -> str:
    """Give what went wrong; a group of errors says just that it is one."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, TimeoutError):
        return f"it gave no answer in {START_SECONDS:g} s"
    return str(error) or type(error).__name__


@asynccontextmanager
async def _streams(server: McpServer, cwd: Path) -> AsyncIterator[tuple[Any, Any]]:
    """Start a server or connect to it, and give what its messages are read from and written to."""
    if isinstance(server, HttpMcpServer):
        import httpx2
        from mcp.client.streamable_http import streamable_http_client

        from .bounded_http import IDENTITY, bound

        # How long a call may take is for whoever makes it to say.
        limits = httpx2.Timeout(START_SECONDS, read=None)
        headers = IDENTITY | {each.name: each.value for each in server.headers}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=limits, event_hooks={"response": [bound]}) as client,
            streamable_http_client(server.url, http_client=client) as streams,
        ):
            yield streams[0], streams[1]
        return
    from mcp import StdioServerParameters
    from mcp.client.stdio import stdio_client

    parameters = StdioServerParameters(
        command=server.command,
        args=list(server.args),
        env={each.name: each.value for each in server.env},
        cwd=cwd,
    )
    async with stdio_client(parameters, errlog=sys.__stderr__ or sys.stderr) as streams:
        yield streams[0], streams[1]


class _ServerTool:
    """One tool of one server; it is asked for like a command, since nobody knows what it does."""

    effect: Effect = "run"

    def __init__(self, servers: Servers, server: str, name: str, session: ClientSession, tool: Any) -> None:
        self._servers, self._server, self._session = servers, server, session
        self._own_name: str = tool.name
        self.name = name
        what = _line(tool.description or tool.name)
        self.schema = usable_schema(tool.input_schema)
        arguments = _line(", ".join(self.schema.get("properties", {})))
        self.usage = f"{self.name}({arguments}): {what}"

    async def prepare(self, arguments: dict[str, Any], place: Place) -> Action:
        """See `Tool.prepare`."""

        async def perform(_report: Report) -> Result:
            text = await self._call(arguments)
            return Result(text, [updates.text_content(text)])

        return Action(f"Use {self.name}", "other", "run", f"the tool {self.name}", perform)

    async def _call(self, arguments: dict[str, Any]) -> str:
        try:
            async with asyncio.timeout(CALL_SECONDS):
                result = await self._session.call_tool(self._own_name, arguments)
        except TimeoutError:
            raise ToolError(f"{self.name} gave no answer in {CALL_SECONDS:g} s") from None
        except Exception as error:  # as where it was started
            why = _why(error)
            self._servers.lost(self._server, why)
            raise ToolError(f"{self._server} failed: {why[:_MOST_USAGE]}") from None
        text = _text(result)
        if len(text) > _MOST_CHARACTERS:
            text = f"{text[:_MOST_CHARACTERS]}\n[{len(text) - _MOST_CHARACTERS} characters left out]"
        if getattr(result, "is_error", False):
            raise ToolError(text)
        return text
