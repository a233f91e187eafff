"""Clients that others wrote, on the real process: the protocol's TypeScript SDK, and acpx."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import acp
import pytest
from acp.schema import TextContentBlock
from planned_engine import answer, call
from scripted import Room
from wire_client import Person

HERE = Path(__file__).parent


@pytest.fixture
def node() -> str:
    found = shutil.which("node")
    if found is None:
        pytest.skip("node is missing")
    return found


def agent(*plans: str) -> list[str]:
    return [sys.executable, str(HERE / "planned_agent.py"), *plans]


def test_a_conversation_on_the_typescript_sdk(node: str, node_modules: Path, room: Room) -> None:
    plans = (call("write_file", path="made.txt", content="made"), answer("Done."))
    command = [node, str(HERE / "client.mjs"), str(node_modules), str(room.root), *agent(*plans)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["version"] == 1
    assert seen["categories"] == ["model", "model_config", "model_config", "mode"]
    assert seen["current"] == "llama/plain"
    assert seen["stops"] == ["end_turn", "end_turn"]
    assert seen["variants"] == ["acme", "plain"]
    assert seen["text"] == "Done.Done."
    assert seen["sessions"] == 1
    assert {"tool_call", "tool_call_update", "usage_update", "config_option_update"} <= set(seen["kinds"])
    assert (room.root / "made.txt").read_text() == "made"


async def test_an_agent_in_the_sdks_trimmed_environment_finds_the_persons_store(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HOME and PATH are all that it passes on: no WARMLINE_HOME, no XDG folders."""
    home = room.root.parent / "person"
    (home / ".local" / "share").mkdir(parents=True)
    room.home.rename(home / ".local" / "share" / "warmline")
    monkeypatch.setenv("HOME", str(home))
    command, *arguments = agent(answer("Found."))
    async with acp.spawn_agent_process(lambda _: Person(), command, *arguments) as (sdk, _process):  # type: ignore[arg-type, return-value]
        await sdk.initialize(protocol_version=1)
        session = (await sdk.new_session(cwd=str(room.root), mcp_servers=[])).session_id
        told = await sdk.prompt(session_id=session, prompt=[TextContentBlock(type="text", text="Hi")])
    assert told.stop_reason == "end_turn"
    assert told.field_meta is not None
    assert told.field_meta["warmline"]["variant"] == "acme"


def test_acpx_gets_its_answer(node: str, node_modules: Path, room: Room, tmp_path: Path) -> None:
    command = [str(node_modules / ".bin" / "acpx"), "--agent", shlex.join(agent(answer("Hello, acpx.")))]
    done = subprocess.run(
        [*command, "--format", "json", "exec", "hello"],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=room.root,
        env=os.environ | {"HOME": str(tmp_path)},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    frames = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    chunks = [
        frame["params"]["update"]["content"]["text"]
        for frame in frames
        if frame.get("params", {}).get("update", {}).get("sessionUpdate") == "agent_message_chunk"
    ]
    assert "".join(chunks) == "Hello, acpx."
