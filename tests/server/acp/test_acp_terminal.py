"""`warmline chat` in a terminal: the same agent, printed; Ctrl-C ends a turn and no more."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time
from typing import Any

import pytest
from planned_engine import PlannedEngine, answer, call
from scripted import Room
from warmline_server.acp.agent import Agent
from warmline_server.acp.terminal import Conversation, Terminal
from warmline_server.cli.output import Output

TALK = """
import sys
from pathlib import Path
sys.path[:0] = {path!r}
from planned_engine import PlannedEngine
from warmline.registry import warmline_home
from warmline_server.acp.agent import Agent
from warmline_server.acp.terminal import converse
from warmline_server.cli.output import Output
import asyncio
class Slow(PlannedEngine):
    async def chat(self, request):
        async for event in super().chat(request):
            await asyncio.sleep(0.01 if request.messages[-1].content == "long" else 0)
            yield event
engine = Slow({plans})
converse(Agent(warmline_home(), lambda: engine), Output(), Path.cwd(), None)
"""


async def talk(room: Room, capsys: Any, lines: list[str], answers: list[str], *plans: str) -> tuple[str, str]:
    async def ask(_question: str) -> str:
        return answers.pop(0)

    engine = PlannedEngine(*plans)
    output = Output()
    agent = Agent(room.home, lambda: engine)  # type: ignore[arg-type, return-value]
    conversation = Conversation(agent, Terminal(output, ask), output)
    await conversation.begin(room.root, None)
    for line in lines:
        await conversation.say(line)
    await agent.leave()
    captured = capsys.readouterr()
    return captured.out, captured.err


async def test_answers_go_to_stdout_and_all_else_to_stderr(room: Room, capsys: Any) -> None:
    write = call("write_file", path="a.txt", content="new text")
    out, err = await talk(room, capsys, ["Write it."], ["y\n"], write, answer("Done \x1b[31m."))
    assert out == "Done \\x1b[31m.\n"
    assert "Create a.txt?" in err
    assert "+new text" in err
    assert "Create a.txt: completed" in err
    assert "acme 111111111111" in err
    assert (room.root / "a.txt").read_text() == "new text"


async def test_thoughts_are_printed_beside(room: Room, capsys: Any) -> None:
    room.variant("acme", {"base": {"path": str(room.base)}, "profile": {"reasoning": {}}})
    out, err = await talk(room, capsys, ["Hi"], [], f"<think>Hm, \x1b[2Jwell.</think>{answer('Yes.')}")
    assert out == "Yes.\n"
    assert "Hm, \\x1b[2Jwell.\n" in err


@pytest.mark.parametrize("typed", ["n\n", "\n", "what?\n", ""])
async def test_whatever_is_no_yes_is_a_no(room: Room, capsys: Any, typed: str) -> None:
    write = call("write_file", path="a.txt", content="x")
    await talk(room, capsys, ["Write it."], [typed], write, answer("Well."))
    assert not (room.root / "a.txt").exists()


async def test_commands_and_errors_are_printed(room: Room, capsys: Any) -> None:
    room.select("gone")
    out, err = await talk(room, capsys, ["/help", "Hi"], [], answer("x"))
    assert "/status" in out
    assert "variant.unknown" in err


def test_ctrl_c_ends_a_turn_and_ctrl_d_the_conversation(room: Room) -> None:
    path = [folder for folder in sys.path if "tests" in folder]
    code = TALK.format(path=path, plans=repr(answer("word " * 500)))
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=follower,
        stdout=follower,
        stderr=follower,
        cwd=room.root,
        start_new_session=True,
    )
    os.close(follower)
    seen = ""

    def until(text: str) -> None:
        nonlocal seen
        limit = time.monotonic() + 20
        while text not in seen:
            assert time.monotonic() < limit, seen
            seen += os.read(leader, 4096).decode()

    try:
        until("> ")
        os.write(leader, b"long\n")
        until("word word")
        process.send_signal(signal.SIGINT)
        until("cancelled")
        seen = seen[seen.index("cancelled") :]
        until("> ")
        os.write(leader, b"/help\n")
        until("/status")
        seen = seen[seen.index("/status") :]
        until("> ")
        os.write(leader, b"\x04")
        assert process.wait(10) == 0
    finally:
        process.kill()
        os.close(leader)
