"""A client over the real wire: the SDK's own, every frame recorded and held against the protocol's schema."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from io import FileIO
from pathlib import Path
from typing import Any

import acp
from acp.connection import StreamDirection, StreamEvent
from acp.schema import (
    AllowedOutcome,
    CreateTerminalResponse,
    DeniedOutcome,
    ReadTextFileResponse,
    RequestPermissionResponse,
    TerminalExitStatus,
    TerminalOutputResponse,
    WaitForTerminalExitResponse,
    WriteTextFileResponse,
)
from planned_engine import PlannedEngine
from protocol_schema import ProtocolSchema
from warmline_server.acp.serving import serve
from warmline_server.acp.turns import Limits
from warmline_server.stdio import Streams

SECONDS = 60.0
ALL = {"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": True}


class Person:
    """What the client does when it is asked: permission as `answers` say, files from `buffers`, a scripted terminal."""

    def __init__(self) -> None:
        self.answers: list[str] = []
        self.asked: list[dict[str, Any]] = []
        self.buffers: dict[str, str] = {}
        self.terminal = "ran\n"
        self.terminals: list[str] = []
        self.hold: asyncio.Event | None = None
        self.hold_terminal: asyncio.Event | None = None
        self.hold_kill: asyncio.Event | None = None
        self.holding = asyncio.Event()

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None: ...

    async def request_permission(self, session_id: str, tool_call: Any, options: Any, **_: Any) -> Any:
        self.asked.append({"options": {o.option_id: o.name for o in options}, "call": tool_call})
        self.holding.set()
        if self.hold is not None:
            await self.hold.wait()
        chosen = self.answers.pop(0) if self.answers else "allow_once"
        if chosen == "cancelled":
            return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=chosen))

    async def read_text_file(self, session_id: str, path: str, **_: Any) -> ReadTextFileResponse:
        if path in self.buffers:
            return ReadTextFileResponse(content=self.buffers[path])
        return ReadTextFileResponse(content=Path(path).read_text())  # noqa: ASYNC240

    async def write_text_file(self, session_id: str, path: str, content: str, **_: Any) -> WriteTextFileResponse:
        self.buffers[path] = content
        return WriteTextFileResponse()

    async def create_terminal(self, session_id: str, command: str, args: Any = None, **_: Any) -> Any:
        self.terminals.append(f"create {command} {args}")
        return CreateTerminalResponse(terminal_id="term-1")

    async def wait_for_terminal_exit(self, session_id: str, terminal_id: str, **_: Any) -> Any:
        self.terminals.append("wait")
        if self.hold_terminal is not None:
            await self.hold_terminal.wait()
        return WaitForTerminalExitResponse(exit_code=0)

    async def terminal_output(self, session_id: str, terminal_id: str, **_: Any) -> TerminalOutputResponse:
        self.terminals.append("output")
        return TerminalOutputResponse(
            output=self.terminal, truncated=False, exit_status=TerminalExitStatus(exit_code=0)
        )

    async def kill_terminal(self, session_id: str, terminal_id: str, **_: Any) -> None:
        self.terminals.append("kill")
        if self.hold_kill is not None:
            await self.hold_kill.wait()

    async def release_terminal(self, session_id: str, terminal_id: str, **_: Any) -> None:
        self.terminals.append("release")


class Refusal(Exception):
    """An error that the agent answered."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(error["message"])
        self.code: int = error["code"]
        self.data: Any = error.get("data")


class Wire:
    """One connection. `ask` speaks raw JSON-RPC; `sdk` is the SDK's own client side of the same connection."""

    def __init__(self, schema: ProtocolSchema | None, person: Person) -> None:
        self.schema, self.person = schema, person
        self.frames: list[dict[str, Any]] = []
        self.methods: dict[Any, str] = {}
        self.client_methods: dict[Any, str] = {}
        self.sdk: Any = None
        self.writer: Any = None
        self.lines: list[bytes] = []
        self._number = 0
        self._news = asyncio.Event()

    def observe(self, event: StreamEvent) -> None:
        """Check a frame and keep it."""
        message = event.message
        if event.direction is StreamDirection.OUTGOING:
            self._sent(message)
            return
        self.frames.append(message)
        if "method" in message:
            self.client_methods[message.get("id")] = message["method"]
        if self.schema is not None:
            self.schema.check_from_agent(message, self.methods)
        self._news.set()

    def _sent(self, message: dict[str, Any]) -> None:
        if "id" in message and "method" in message:
            self.methods[message["id"]] = message["method"]
        if self.schema is not None:
            self.schema.check_from_client(message, self.client_methods)

    def send(self, raw: bytes) -> None:
        """Write bytes as they are."""
        self.writer.write(raw)

    def start(self, method: str, params: Any = None, *, wrong: bool = False) -> str:
        """Begin a request and give its id; `wrong`: it is none that the protocol's schema has."""
        self._number += 1
        number = f"raw-{self._number}"
        self.methods[number] = method
        self._send({"jsonrpc": "2.0", "id": number, "method": method, "params": params}, wrong)
        return number

    def notify(self, method: str, params: Any, *, wrong: bool = False) -> None:
        """Send a notification; `wrong` as in `start`."""
        self._send({"jsonrpc": "2.0", "method": method, "params": params}, wrong)

    def _send(self, frame: dict[str, Any], wrong: bool) -> None:
        if self.schema is not None:
            before = len(self.schema.faults)
            self.schema.check_from_client(frame, self.client_methods)
            found = self.schema.faults[before:]
            if wrong:
                del self.schema.faults[before:]
                assert found, "the schema takes this frame, so that no wrong one is tested"
        self.send(json.dumps(frame).encode() + b"\n")

    async def answer(self, number: Any) -> Any:
        """Wait for a request's answer; raises `Refusal` for an error."""
        frame = await self.until(lambda each: "method" not in each and each.get("id") == number)
        if "error" in frame:
            raise Refusal(frame["error"])
        return frame["result"]

    async def ask(self, method: str, params: Any = None, *, wrong: bool = False) -> Any:
        """Ask and wait for the answer; `wrong` as in `start`."""
        return await self.answer(self.start(method, params, wrong=wrong))

    async def until(self, wanted: Any) -> dict[str, Any]:
        """Wait for the first frame that is wanted."""
        async with asyncio.timeout(SECONDS):
            while True:
                for frame in self.frames:
                    if wanted(frame):
                        return frame
                self._news.clear()
                await self._news.wait()

    async def hello(self, capabilities: dict[str, Any] | None = None) -> Any:
        """Initialize."""
        return await self.ask("initialize", {"protocolVersion": 1, "clientCapabilities": capabilities or {}})

    async def new(self, cwd: Path, *, usable: bool = True, **more: Any) -> str:
        """Begin a session and wait until what follows its answer has come; `usable`: a variant is selected there."""
        result = await self.ask("session/new", {"cwd": str(cwd), "mcpServers": [], **more})
        session: str = result["sessionId"]
        last = "usage_update" if usable else "available_commands_update"
        await self.until(lambda f: _kind(f) == last and f["params"]["sessionId"] == session)
        return session

    async def prompt(self, session: str, text: str) -> Any:
        """Say something and wait for the turn's end."""
        return await self.ask("session/prompt", prompt_of(session, text))

    def updates(self, kind: str | None = None, session: str | None = None) -> list[dict[str, Any]]:
        """Give the updates of a kind that came so far."""
        return [
            frame["params"]["update"]
            for frame in self.frames
            if _kind(frame) is not None
            and kind in (None, _kind(frame))
            and session in (None, frame["params"]["sessionId"])
        ]

    def text(self, session: str | None = None) -> str:
        """Give all that the agent said."""
        return "".join(each["content"]["text"] for each in self.updates("agent_message_chunk", session))


def alive(pid: str) -> bool:
    """Tell whether a process still runs; one that has ended and was not waited for does not."""
    state = Path(f"/proc/{pid.strip()}/stat")
    return state.exists() and state.read_text().split()[2] != "Z"


def prompt_of(session: str, text: str) -> dict[str, Any]:
    """Parameters of a prompt of one text."""
    return {"sessionId": session, "prompt": [{"type": "text", "text": text}]}


def _kind(frame: dict[str, Any]) -> str | None:
    update = frame.get("params", {}).get("update") if frame.get("method") == "session/update" else None
    return update["sessionUpdate"] if update else None


@asynccontextmanager
async def wired(
    engine: PlannedEngine, home: Path, schema: ProtocolSchema | None, limits: Limits | None = None
) -> AsyncIterator[Wire]:
    """Serve an agent over two pipes, and give the client at their other end."""
    to_agent, to_client = os.pipe(), os.pipe()
    streams = Streams(FileIO(to_agent[0], "rb"), os.fdopen(to_client[1], "wb"))  # type: ignore[arg-type]
    serving = asyncio.create_task(serve(streams, home, lambda: engine, limits))  # type: ignore[arg-type, return-value]
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=64 << 20)
    reading, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), FileIO(to_client[0]))
    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, FileIO(to_agent[1], "wb"))
    writer = asyncio.StreamWriter(transport, protocol, None, loop)
    person = Person()
    wire = Wire(schema, person)
    wire.writer = writer
    wire.sdk = acp.connect_to_agent(person, writer, reader, observers=[wire.observe])  # type: ignore[arg-type]
    try:
        yield wire
    finally:
        writer.close()
        async with asyncio.timeout(SECONDS):
            await serving
        streams.writer.close()
        streams.reader.close()
        await wire.sdk.close()
        reading.close()
    if schema is not None:
        assert schema.faults == []
