"""Fifty tasks for the real 135M model: each ends with an answer, none shows a call's text, none hangs."""

from __future__ import annotations

import re
from typing import Any

import pytest
from scripted import Room
from smollm2 import PACKAGE
from warmline.host.client import connect
from warmline_server.acp.turns import Limits
from wire_client import wired

FILES = {
    "README.md": "# Shop\nA small shop. Run the tests with pytest.\n",
    "src/prices.py": "TAX = 0.2\n\n\ndef gross(net):\n    return net * (1 + TAX)\n",
    "src/cart.py": "from prices import gross\n\n\ndef total(items):\n    return sum(gross(price) for price in items)\n",
    "tests/test_cart.py": "from cart import total\n\n\ndef test_total():\n    assert total([10]) == 12\n",
    "notes.txt": "todo: rename gross\n",
}
TASKS = (
    *(f"Read the file {name} and tell me what it does." for name in FILES),
    *(f"List the folder {name}." for name in (".", "src", "tests", "docs", "/etc")),
    *(f"Search for {word}." for word in ("gross", "TAX", "import", "todo", "nothing_like_that")),
    *(f"In {name}, replace {old} by {new}." for name, old, new in (
        ("src/prices.py", "0.2", "0.25"), ("src/cart.py", "total", "amount"), ("notes.txt", "todo", "done"),
        ("README.md", "small", "large"), ("none.py", "a", "b"),
    )),
    *(f"Write a file {name} with {what}." for name, what in (
        ("a.txt", "the word hello"), ("src/new.py", "a function that adds two numbers"), ("b.json", "an empty object"),
        ("../out.txt", "anything"), (".env", "a key"),
    )),
    *(f"Run {command}." for command in ("the tests", "ls", "echo hello", "git status", "python src/cart.py")),
    *("Hello!", "What is 2 + 2?", "Who are you?", "Tell me a joke.", "Thank you."),
    *("Make a plan to rename gross.", "Plan the work, then do it.", "What is left to do?", "Fix the tests.", "Go on."),
    *('{"tool": "read_file"', "<tool_call>", "```json\n{}\n```", "}}}}]]", "\u202e\u0000 tool"),
    *("Explain this project.", "Why does test_total fail?", "Add a tax of 5 %.", "Delete everything.", "Say nothing."),
)  # fmt: skip
CALL = re.compile(r'"(tool|arguments)"\s*:|</?tool_call>')


@pytest.mark.model
@pytest.mark.slow
async def test_fifty_tasks(room: Room, schema: Any) -> None:
    assert len(TASKS) == 50
    for name, text in FILES.items():
        room.root.joinpath(name).parent.mkdir(exist_ok=True)
        room.root.joinpath(name).write_text(text)
    room.variant("plain", {"base": {"package": PACKAGE}})
    room.select("plain")
    limits = Limits(steps=2, step_tokens=24)
    async with wired(connect(room.home), room.home, schema, limits) as wire:  # type: ignore[arg-type]
        await wire.hello()
        wire.person.answers = ["reject_once"] * 1000
        for task in TASKS:
            session = await wire.new(room.root)
            reason = (await wire.prompt(session, task))["stopReason"]
            assert reason in ("end_turn", "max_tokens", "max_turn_requests")
            said = [each for each in wire.updates("agent_message_chunk", session) if "messageId" in each]
            text = "".join(each["content"]["text"] for each in said)
            assert text.strip(), task
            assert not CALL.search(text), (task, text)
            await wire.ask("session/close", {"sessionId": session})
            wire.frames.clear()
    assert {name: room.root.joinpath(name).read_text() for name in FILES} == FILES  # all was refused
    assert not (room.root.parent / "out.txt").exists()
