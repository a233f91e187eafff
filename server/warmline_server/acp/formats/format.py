"""What a format of tool calls is: how the model is told of tools, what it is held to, and how its replies are read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from warmline.host.wire import ChatTurn, ReplyForm

from ..modes import Mode
from ..plans import Plan
from ..tools.tool import Tool


class Held(NamedTuple):
    """What a reply is held to, and what the chat template is told of tools; fields as those of `ChatRequest`."""

    json_schema: str | None
    form: ReplyForm = ReplyForm()
    tools: str | None = None


class Reader(Protocol):
    """Reads one reply while it is decoded."""

    def feed(self, piece: str) -> str:
        """Take more of the reply and give what of an answer's text became known with it, never that of a call."""
        ...


class Format(Protocol):
    """One format; it keeps nothing."""

    @property
    def name(self) -> str:
        """What it is kept by in transcripts."""
        ...

    @property
    def how(self) -> str:
        """How a reply has to look, in words for the model."""
        ...

    def system_prompt(self, cwd: Path, tools: Sequence[Tool]) -> str:
        """Tell the model how to speak. It says the same all through a session, so that its KV stays warm."""
        ...

    def characters(self, tool: Tool) -> int:
        """Tell how long it is what the model is told of a tool."""
        ...

    def held(self, tools: Sequence[Tool], mode: Mode, *, only_answer: bool) -> Held:
        """Give what a step is held to: an answer or a call of a tool that the mode allows, or just an answer."""
        ...

    def reader(self) -> Reader:
        """Begin to read a reply."""
        ...

    def parse(self, text: str) -> Plan:
        """Read a whole reply; raises `BadPlan`."""
        ...

    def said(self, plan: Plan, decoded: str | None) -> ChatTurn:
        """Write what the model decided as its message; `decoded` is how it did, to the letter, if that is known."""
        ...

    def result(self, text: str) -> ChatTurn:
        """Write what a tool gave as a message."""
        ...
