"""Formats that models were trained in: the chat template tells of tools and writes calls, an answer is plain text.

``hermes`` (Hermes 2 Pro, Qwen2.5 and later): ``<tool_call>`` and ``</tool_call>`` around ``{"name", "arguments"}``.
``llama3`` (Llama 3.1 and later): ``{"name", "parameters"}`` alone.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from warmline.host.wire import ChatTurn, ReplyForm, ToolUse

from ...thoughts import begun
from ..modes import Mode
from ..plans import Answer, BadPlan, Json, Offer, Plan, ToolCall, as_object, callable_, told
from ..tools.tool import Tool, object_of
from .format import Held

_HEAD: Final = """\
You are a coding assistant who works in the folder {cwd}. Use a tool only where it is needed; you are told its result. \
Paths are relative to the folder."""


@dataclass(frozen=True)
class Native:
    """See `Format`.

    Attributes
    ----------
    before, after
        What stands around a call's JSON.
    sign
        What an answer may not hold, since it begins a call.
    arguments
        What the arguments are called.
    """

    name: str
    before: str
    after: str
    sign: str
    arguments: str

    @property
    def how(self) -> str:
        """See `Format.how`."""
        return f'either {self.before}{{"name": NAME, "{self.arguments}": {{...}}}}{self.after} or plain text'

    def system_prompt(self, cwd: Path, tools: Sequence[Tool]) -> str:
        """See `Format.system_prompt`; of tools the template tells."""
        return _HEAD.format(cwd=cwd)

    def characters(self, tool: Tool) -> int:
        """See `Format.characters`."""
        return len(json.dumps(_function(Offer(tool.name, tool.usage, tool.schema))))

    def held(self, tools: Sequence[Tool], mode: Mode, *, only_answer: bool) -> Held:
        """See `Format.held`."""
        known = json.dumps([_function(offer) for offer in told(tools)])
        if only_answer:
            return Held(None, ReplyForm(or_text_without=self.sign), known)
        calls = [
            object_of({"name": {"const": offer.name}, self.arguments: offer.schema}) for offer in callable_(tools, mode)
        ]
        form = ReplyForm(before=self.before, after=self.after, or_text_without=self.sign)
        return Held(json.dumps({"anyOf": calls}), form, known)

    def reader(self) -> TextWithout:
        """See `Format.reader`."""
        return TextWithout(self._begins, self.sign)

    def parse(self, text: str) -> Plan:
        """See `Format.parse`."""
        text = text.strip()
        if not text:
            raise BadPlan("it is empty")
        if not text.startswith(self._begins):
            if self.sign in text:
                raise BadPlan("text stands before the call")
            return Answer(text)
        before, after = self.before.strip(), self.after.strip()
        if not text.endswith(after):
            raise BadPlan(f"{after} is missing")
        call = as_object(text.removeprefix(before).removesuffix(after))
        name, arguments = call.get("name"), call.get(self.arguments)
        if call.keys() != {"name", self.arguments} or not isinstance(name, str) or not isinstance(arguments, dict):
            raise BadPlan(f'it has not just "name" and "{self.arguments}"')
        return ToolCall(name, arguments)

    def said(self, plan: Plan, decoded: str | None) -> ChatTurn:
        """See `Format.said`; a call is the template's to write, since its marks may be tokens of their own."""
        if isinstance(plan, Answer):
            return ChatTurn(role="assistant", content=plan.text if decoded is None else decoded)
        call = ToolUse(name=plan.name, arguments=json.dumps(plan.arguments, ensure_ascii=False))
        return ChatTurn(role="assistant", content="", call=call)

    def result(self, text: str) -> ChatTurn:
        """See `Format.result`."""
        return ChatTurn(role="tool", content=text)

    @property
    def _begins(self) -> str:
        return self.before.strip() or "{"


def _function(offer: Offer) -> Json:
    function = {"name": offer.name, "description": offer.usage, "parameters": offer.schema}
    return {"type": "function", "function": function}


class TextWithout:
    """Reads a reply that is an answer's plain text, unless it begins as calls do (`Reader`).

    What may be a call's sign is held back until it is none; with a sign the text ends.
    """

    def __init__(self, begins: str, sign: str) -> None:
        self._begins, self._sign = begins, sign
        self._held = ""
        self._answers = False
        self._ended = False

    def feed(self, piece: str) -> str:
        """See `Reader.feed`."""
        if self._ended:
            return ""
        self._held += piece
        if not self._answers:
            text = self._held.lstrip()
            if self._begins.startswith(text) or text.startswith(self._begins):
                return ""
            self._answers, self._held = True, text
        at = self._held.find(self._sign)
        self._ended = at >= 0
        at = at if self._ended else len(self._held) - begun(self._held, self._sign)
        text, self._held = self._held[:at], self._held[at:]
        return text


HERMES: Final = Native("hermes", "<tool_call>\n", "\n</tool_call>", "<tool_call>", "arguments")
LLAMA3: Final = Native("llama3", "", "", '{"name"', "parameters")
