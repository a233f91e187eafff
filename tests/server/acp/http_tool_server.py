"""A real MCP server over streamable HTTP on loopback, as a process: `add` adds, `wait` never answers.

Its argument is the value that the header `x-key` has to have. It prints its port first.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from typing import Any

import uvicorn
from mcp.server import MCPServer
from starlette.responses import PlainTextResponse

server = MCPServer("t")


@server.tool()
def add(a: int, b: int) -> str:
    """adds"""
    return f"sum {a + b}"


@server.tool()
async def wait() -> str:
    """waits"""
    await asyncio.sleep(3600)
    return "late"


class Locked:
    """Lets in who has the key."""

    def __init__(self, app: Any, key: str) -> None:
        self._app, self._key = app, key.encode()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and dict(scope["headers"]).get(b"x-key") != self._key:
            await PlainTextResponse("no", status_code=403)(scope, receive, send)
            return
        await self._app(scope, receive, send)


if __name__ == "__main__":
    listening = socket.create_server(("127.0.0.1", 0))
    print(listening.getsockname()[1], flush=True)
    config = uvicorn.Config(Locked(server.streamable_http_app(), sys.argv[1]), log_level="warning")
    asyncio.run(uvicorn.Server(config).serve([listening]))
