"""Zed's settings: the fields are those that it documents for agents, and the command in them is an agent."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

# Zed's documentation of external agents, "Add More Agents".
FIELDS = {"type", "command", "args", "env"}


def test_the_command_of_the_settings_answers_as_an_agent(repo: Path, tmp_path: Path, home: Path) -> None:
    settings = json.loads((repo / "editors" / "zed" / "settings.json").read_text())
    [(name, server)] = settings["agent_servers"].items()
    assert name == "Warmline" and set(server) == FIELDS and server["type"] == "custom"
    capabilities = {"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": True}
    params = {"protocolVersion": 1, "clientCapabilities": capabilities}
    question = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    with subprocess.Popen(
        [server["command"], *server["args"]],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=tmp_path,
        env={**os.environ, **server["env"], "PATH": path},
        text=True,
    ) as agent:
        assert agent.stdin and agent.stdout
        agent.stdin.write(json.dumps(question) + "\n")
        agent.stdin.flush()
        answer = json.loads(agent.stdout.readline())
        agent.stdin.close()
        agent.wait(30)
    assert answer["id"] == 0
    assert answer["result"]["protocolVersion"] == 1
    assert answer["result"]["agentInfo"]["name"] == "warmline"
