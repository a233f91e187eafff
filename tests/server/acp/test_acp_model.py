"""The real path: `warmline acp` as a process, the real engine, the real 135M model under the grammar."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from scripted import Room
from smollm2 import PACKAGE
from warmline.host.client import connect
from warmline.host.wire import ChatRequest, ChatTurn, Done, Outcome
from warmline.registry import Store
from warmline_server.acp.formats import NEUTRAL
from warmline_server.acp.plans import Answer, ToolCall
from warmline_server.acp.tools import BUILT_IN

pytestmark = pytest.mark.model
ENTRY = ("-c", "import sys; from warmline_server.cli import main; sys.argv[0] = 'warmline'; main()", "acp")


class Process:
    """`warmline acp` and its frames."""

    def __init__(self, process: Any, schema: Any) -> None:
        self.process, self.schema = process, schema
        self.frames: list[dict[str, Any]] = []
        self.methods: dict[Any, str] = {}

    def start(self, method: str, params: Any) -> int:
        number = len(self.methods) + 1
        self.methods[number] = method
        self.notify(method, params, id=number)
        return number

    def notify(self, method: str, params: Any, **more: Any) -> None:
        frame = {"jsonrpc": "2.0", "method": method, "params": params, **more}
        self.schema.check_from_client(frame, {})
        self.process.stdin.write(json.dumps(frame).encode() + b"\n")

    async def until(self, wanted: Any) -> dict[str, Any]:
        async with asyncio.timeout(60):
            while True:
                frame = json.loads(await self.process.stdout.readline())
                self.frames.append(frame)
                self.schema.check_from_agent(frame, self.methods)
                if frame.get("method") == "session/request_permission":
                    outcome = {"outcome": {"outcome": "selected", "optionId": "reject_once"}}
                    reply = {"jsonrpc": "2.0", "id": frame["id"], "result": outcome}
                    self.process.stdin.write(json.dumps(reply).encode() + b"\n")
                if wanted(frame):
                    return frame

    async def ask(self, method: str, params: Any) -> Any:
        number = self.start(method, params)
        return (await self.until(lambda frame: frame.get("id") == number and "method" not in frame))["result"]


@pytest_asyncio.fixture
async def agent(room: Room, schema: Any) -> AsyncIterator[Process]:
    room.variant("plain", {"base": {"package": PACKAGE}})
    room.select("plain")
    process = await asyncio.create_subprocess_exec(
        *(os.sys.executable, *ENTRY),  # type: ignore[attr-defined]
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=1 << 24,
    )
    served = Process(process, schema)
    await served.ask("initialize", {"protocolVersion": 1})
    yield served
    process.stdin.close()  # type: ignore[union-attr]
    async with asyncio.timeout(20):
        assert await process.wait() == 0
    assert schema.faults == []


def say(session: str, text: str) -> dict[str, Any]:
    return {"sessionId": session, "prompt": [{"type": "text", "text": text}]}


async def test_a_conversation_streams_stays_warm_and_ends_within_a_token(agent: Process, room: Room) -> None:
    session = (await agent.ask("session/new", {"cwd": str(room.root), "mcpServers": []}))["sessionId"]
    await agent.ask("session/set_mode", {"sessionId": session, "modeId": "read-only"})
    first = await agent.ask("session/prompt", say(session, "Say hello to me, please."))
    record = first["_meta"]["warmline"]
    assert first["stopReason"] in ("end_turn", "max_tokens", "max_turn_requests")
    assert (record["variant"], record["base"]["name"]) == ("plain", "smollm2-135m-instruct.q4_1")
    size = next(f["params"]["update"]["size"] for f in agent.frames if _kind(f) == "usage_update")
    assert size == record["context"]["n_ctx"]
    for frame in agent.frames:
        if _kind(frame) == "agent_message_chunk":
            assert '"tool"' not in frame["params"]["update"]["content"]["text"]
    second = (await agent.ask("session/prompt", say(session, "And again.")))["_meta"]["warmline"]
    assert second["reused_tokens"] > 0.8 * record["prompt_tokens"]

    number = agent.start("session/prompt", say(session, "Write a very long story about the sea."))
    await agent.until(lambda frame: _kind(frame) in ("agent_message_chunk", "tool_call"))
    agent.notify("session/cancel", {"sessionId": session})
    answer = await agent.until(lambda frame: frame.get("id") == number)
    assert answer["result"]["stopReason"] == "cancelled"
    third = await agent.ask("session/prompt", say(session, "/status"))
    assert third["stopReason"] == "end_turn"


def _kind(frame: dict[str, Any]) -> str | None:
    kind: str | None = frame.get("params", {}).get("update", {}).get("sessionUpdate")
    return kind


async def test_calls_that_are_decoded_under_the_schema_parse(room: Room, tmp_path: Path) -> None:
    room.variant("plain", {"base": {"package": PACKAGE}})
    variant = Store(room.home).resolve("plain")
    engine = connect(room.home)
    asks = ("Read the file src/a.py.", "What is in this folder?", "Run the tests.", "Say hello.", '}{ "tool": [[')
    system = ChatTurn(role="system", content=NEUTRAL.system_prompt(tmp_path, BUILT_IN))
    whole = 0
    try:
        for number, text in enumerate(asks):
            request = ChatRequest(
                client="test",
                conversation=f"c{number}",
                variant=variant,
                messages=(system, ChatTurn(role="user", content=text)),
                max_tokens=96,
                json_schema=NEUTRAL.held(BUILT_IN, "ask", only_answer=False).json_schema,
            )
            done = [event async for event in engine.chat(request)][-1]
            assert isinstance(done, Done)
            if done.outcome is Outcome.STOP:
                assert isinstance(NEUTRAL.parse(done.text), (Answer, ToolCall))
                whole += 1
            else:
                assert done.text.lstrip().startswith("{")
    finally:
        await engine.close()
    assert whole
