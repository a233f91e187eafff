"""`warmline chat` in a terminal: the same agent, printed; Ctrl-C ends a turn and no more."""

from __future__ import annotations

import os
import pty
import select
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
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
        said = request.messages[-1].content
        try:
            async for event in super().chat(request):
                await asyncio.sleep(0.01 if said in ("long", "stubborn") else 0)
                yield event
        finally:
            await asyncio.sleep(1 if said == "stubborn" else 0)
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


@contextmanager
def pseudo_terminal(room: Room, code: str) -> Iterator[tuple[subprocess.Popen[bytes], Callable[[str], str], int]]:
    """Run code at a terminal; gives the process, what waits for a text and gives all up to it, and what types."""
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

    def until(text: str) -> str:
        nonlocal seen
        limit = time.monotonic() + 20
        while text not in seen:
            assert select.select([leader], [], [], max(0.0, limit - time.monotonic()))[0], seen
            seen += os.read(leader, 4096).decode()
        before, _, seen = seen.partition(text)
        return before

    try:
        yield process, until, leader
    finally:
        process.kill()
        process.wait()
        os.close(leader)


def press_until(process: subprocess.Popen[bytes], stop: threading.Event) -> None:
    """Press Ctrl-C every half second."""
    while True:
        process.send_signal(signal.SIGINT)
        if stop.wait(0.5):
            return


def test_ctrl_c_ends_a_turn_and_ctrl_d_the_conversation(room: Room) -> None:
    path = [folder for folder in sys.path if "tests" in folder]
    code = TALK.format(path=path, plans=repr(answer("word " * 20_000)))
    with pseudo_terminal(room, code) as (process, until, leader):
        until("> ")
        os.write(leader, b"long\n")
        until("word word")
        process.send_signal(signal.SIGINT)
        until("cancelled")
        until("> ")
        # One that comes between the prompt and the reading is noticed with the next key only: some are sent.
        stop = threading.Event()
        pressing = threading.Thread(target=press_until, args=(process, stop))
        pressing.start()
        try:
            until("Ctrl-D ends the conversation")
        finally:
            stop.set()
            pressing.join()
        until("> ")
        os.write(leader, b"/help\n")
        until("/status")
        until("> ")
        os.write(leader, b"\x04")
        assert process.wait(10) == 0


def test_what_was_pasted_before_a_question_is_no_answer_to_it(room: Room) -> None:
    path = [folder for folder in sys.path if "tests" in folder]
    plans = (call("run_command", command="touch ran\n: forged"), answer("Well."))
    with pseudo_terminal(room, TALK.format(path=path, plans=", ".join(map(repr, plans)))) as (process, until, leader):
        until("> ")
        os.write(leader, b"Run it.\ny\na\n")
        shown = until("never = ")
        assert "touch ran\\n: forged, in this session, n = Reject" in shown
        until("session: ")
        os.write(leader, b"n\n")
        until("Well.")
        assert not (room.root / "ran").exists()
        until("> ")
        os.write(leader, b"\x04")
        assert process.wait(10) == 0


def test_ctrl_c_again_while_a_turn_ends_does_not_end_the_conversation(room: Room) -> None:
    path = [folder for folder in sys.path if "tests" in folder]
    code = TALK.format(path=path, plans=repr(answer("word " * 20_000)))
    with pseudo_terminal(room, code) as (process, until, leader):
        until("> ")
        os.write(leader, b"stubborn\n")
        until("word word")
        process.send_signal(signal.SIGINT)
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        until("> ")
        os.write(leader, b"/help\n")
        until("/status")
        until("> ")
        os.write(leader, b"\x04")
        assert process.wait(10) == 0


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM])
def test_what_was_said_is_kept_when_the_terminal_is_closed_in_a_turn(room: Room, number: signal.Signals) -> None:
    path = [folder for folder in sys.path if "tests" in folder]
    code = TALK.format(path=path, plans=repr(answer("word " * 20_000)))
    with pseudo_terminal(room, code) as (process, until, leader):
        until("> ")
        os.write(leader, b"long\n")
        until("word word")
        process.send_signal(number)
        until("cancelled")
        assert process.wait(10) == 0
    (kept,) = (room.home / "acp/sessions").glob("*.jsonl")
    assert "word word" in kept.read_text()


def test_half_a_line_at_a_question_holds_nothing_up(room: Room) -> None:
    path = [folder for folder in sys.path if "tests" in folder]
    plans = (call("run_command", command="touch ran"), answer("Well."))
    with pseudo_terminal(room, TALK.format(path=path, plans=", ".join(map(repr, plans)))) as (process, until, leader):
        until("> ")
        os.write(leader, b"Run it.\n")
        until("session: ")
        os.write(leader, b"y\x04")  # Ctrl-D hands over what stands there, and ends nothing
        until("y")
        process.send_signal(signal.SIGINT)
        until("cancelled")
        until("> ")
        assert not (room.root / "ran").exists()
        os.write(leader, b"\x04")
        assert process.wait(10) == 0


@pytest.mark.skipif(sys.platform != "linux", reason="names of files are Unicode there")
def test_a_folder_whose_name_is_not_utf8_is_no_obstacle(room: Room, tmp_path: Path) -> None:
    odd = os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9")
    shutil.copytree(room.root, odd)
    room.root = Path(odd)
    path = [folder for folder in sys.path if "tests" in folder]
    with pseudo_terminal(room, TALK.format(path=path, plans=repr(answer("Well.")))) as (process, until, leader):
        until("> ")
        os.write(leader, b"Hi caf\xe9\n")
        assert "cannot be kept: the name of its folder is not UTF-8" in until("acme 1111")
        until("> ")
        os.write(leader, b"\x04")
        assert process.wait(10) == 0


def test_a_line_is_edited_and_recalled_and_a_paste_of_many_lines_is_one_message(room: Room) -> None:
    pytest.importorskip("readline", reason="this Python is built without readline")
    path = [folder for folder in sys.path if "tests" in folder]
    code = TALK.format(path=path, plans=", ".join(repr(answer(f"Well {number}.")) for number in range(3)))
    code += "\nprint('SAID', [chat.messages[-1].content for chat in engine.chats])"
    with pseudo_terminal(room, code) as (process, until, leader):
        until("> ")
        os.write(leader, b"\x1b[200~def one():\n    return 1\x1b[201~")
        until("return 1")
        os.write(leader, b"\n")
        until("Well 0.")
        until("> ")
        os.write(leader, b"worle\x1b[D\x1b[Dd \x1b[1~Hi \n")  # two to the left, and to the line's beginning
        until("Well 1.")
        until("> ")
        os.write(leader, b"\x1b[A\x7f!\n")  # the line before, with another end
        until("Well 2.")
        until("> ")
        os.write(leader, b"\x04")
        said = until("]\r\n")
        assert "['def one():\\n    return 1', 'Hi word le', 'Hi word l!']" in said + "]"
        assert process.wait(10) == 0
