"""The agent for a person at a terminal: the client is this process, and what it is told is printed as it comes."""

from __future__ import annotations

import asyncio
import contextlib
import difflib
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

from acp.schema import InitializeRequest, NewSessionRequest, PromptRequest, TextContentBlock
from warmline.digests import short
from warmline.errors import WarmlineError

from ..characters import whole
from ..cli.output import Output, cell, one_line, visible
from ..processes import on_signals
from .agent import Agent
from .edge import Call, RequestError

if sys.platform != "win32":
    import termios

Json = dict[str, Any]
_MOST_DIFF: Final = 60  # lines
_KEYS: Final = {"y": "allow_once", "a": "allow_always", "n": "reject_once", "never": "reject_always"}
_MARKS: Final = {"completed": "x", "in_progress": ">", "pending": " "}


class Terminal:
    """A `Peer` that prints. `ask` shows a question and gives the line that a person types."""

    def __init__(self, output: Output, ask: Callable[[str], Awaitable[str]]) -> None:
        self._output = output
        self._ask = ask
        self._titles: dict[str, str] = {}
        self._within_line = False
        self._within_thought = False

    async def send_request(self, method: str, params: Json) -> Any:
        """Ask for a permission; a terminal offers nothing else."""
        if method != "session/request_permission":
            raise RequestError.method_not_found(method)
        call = params["toolCall"]
        self._note(cell(f"{call['title']}?", "bold"))
        for content in call.get("content") or ():
            if content["type"] == "diff":
                self._diff(content)
        names = {option["optionId"]: option["name"] for option in params["options"]}
        offered = ", ".join(f"{key} = {names[option]}" for key, option in _KEYS.items())
        chosen = _KEYS.get((await self._ask(one_line(f"{offered}: "))).strip().lower(), "reject_once")
        return {"outcome": {"outcome": "selected", "optionId": chosen}}

    async def send_notification(self, method: str, params: Json) -> None:
        """Print what happens."""
        update = params["update"]
        kind = update["sessionUpdate"]
        if kind == "agent_message_chunk":
            text = update["content"]["text"]
            self._end_thought()
            self._output.stdout.write(visible(text))
            self._output.stdout.flush()
            self._within_line = not text.endswith("\n")
        elif kind == "agent_thought_chunk":
            if not self._within_thought:
                self._new_line()
            self._within_thought = True
            self._output.aside(update["content"]["text"])
        elif kind in ("tool_call", "tool_call_update"):
            title = self._titles.setdefault(update["toolCallId"], update.get("title") or "")
            if update.get("status") in ("completed", "failed"):
                self._note(cell(f"{title}: {update['status']}", "dim"))
        elif kind == "plan":
            for entry in update["entries"]:
                self._note(cell(f"[{_MARKS[entry['status']]}] {entry['content']}", "dim"))

    def ended(self, answer: Json) -> None:
        """Print how a turn ended, and which exact variant answered."""
        self._new_line()
        record = answer.get("_meta", {}).get("warmline")
        how = "" if answer["stopReason"] == "end_turn" else f" | {answer['stopReason']}"
        if record is not None:
            self._note(cell(f"{record['variant']} {short(record['identity'])}{how}", "dim"))
        elif how:
            self._note(cell(how.removeprefix(" | "), "dim"))

    def _diff(self, content: Json) -> None:
        lines = difflib.unified_diff(
            (content.get("oldText") or "").splitlines(), content["newText"].splitlines(), n=2, lineterm=""
        )
        shown = list(lines)[2:]
        for line in shown[:_MOST_DIFF]:
            self._note(cell(line, "green" if line.startswith("+") else "red" if line.startswith("-") else "dim"))
        if len(shown) > _MOST_DIFF:
            self._note(cell(f"[{len(shown) - _MOST_DIFF} more lines]", "dim"))

    def _note(self, text: Any) -> None:
        self._new_line()
        self._output.note(text)

    def _end_thought(self) -> None:
        if self._within_thought:
            self._within_thought = False
            self._output.aside("\n")

    def _new_line(self) -> None:
        self._end_thought()
        if self._within_line:
            self._output.stdout.write("\n")
            self._output.stdout.flush()
            self._within_line = False


class Conversation:
    """One session of an agent whose client is a terminal."""

    def __init__(self, agent: Agent, terminal: Terminal, output: Output) -> None:
        self._agent, self._terminal, self._output = agent, terminal, output
        self._session = ""
        self.over = False

    async def begin(self, cwd: Path, variant: str | None) -> None:
        """Begin; `variant` is an exact name (``backend/name``), or None for the folder's own."""
        self._agent.connect(self._terminal)
        await self._agent.initialize(InitializeRequest(protocol_version=1), Call())
        begun = await self._agent.new(NewSessionRequest(cwd=str(cwd), mcp_servers=[]), Call())
        self._session = begun["sessionId"]
        if variant is not None:
            await self._agent.choose(self._session, "variant", variant)

    async def say(self, text: str) -> None:
        """Run one turn and print it; cancelling ends the turn, and it is printed as cancelled.

        `over` is true afterwards where the process was asked to end meanwhile, or its terminal was closed.
        """
        prompt = PromptRequest(session_id=self._session, prompt=[TextContentBlock(type="text", text=text)])
        turn = asyncio.current_task()
        assert turn is not None

        def leave() -> None:
            self.over = True
            turn.cancel()

        try:
            with on_signals(leave):
                self._terminal.ended(await self._agent.prompt(prompt, Call()))
        except WarmlineError as error:
            self._output.error(error)
        except RequestError as error:
            self._output.note(cell(str(error), "red"))


def converse(agent: Agent, output: Output, cwd: Path, variant: str | None) -> None:
    """Talk until the person ends it (Ctrl-D, or Ctrl-C at the prompt); Ctrl-C in a turn ends that turn."""
    with contextlib.suppress(ImportError):  # some Pythons are built without it
        # What `input` edits its line with: keys, what was said before, and text of many lines pasted as one.
        import readline  # noqa: F401
    conversation = Conversation(agent, Terminal(output, typed_line), output)
    with asyncio.Runner() as runner:
        runner.run(conversation.begin(cwd, variant))
        try:
            while True:
                try:
                    text = input("> ")
                except KeyboardInterrupt:  # meant for a turn that had just ended, or for what was typed
                    output.stdout.write("\n")
                    output.note(cell("Ctrl-D ends the conversation.", "dim"))
                    continue
                except EOFError:
                    output.stdout.write("\n")
                    return
                text = whole(text)
                if text.strip():
                    with contextlib.suppress(KeyboardInterrupt):  # once more, while the turn is being ended
                        runner.run(conversation.say(text))
                if conversation.over:
                    return
        finally:
            runner.run(agent.leave())


async def typed_line(question: str) -> str:
    """Show a question and wait for a line on the terminal, without holding up what runs or is cancelled meanwhile.

    What was typed or pasted before the question answers nothing: a second line of a prompt must permit no command.
    """
    if sys.platform == "win32":
        import msvcrt

        while msvcrt.kbhit():
            msvcrt.getwch()
        return await asyncio.to_thread(_line, question)
    with contextlib.suppress(termios.error):  # no terminal
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
    sys.stderr.write(question)
    sys.stderr.flush()
    loop, terminal = asyncio.get_running_loop(), sys.stdin.fileno()
    parts: asyncio.Queue[bytes] = asyncio.Queue()
    typed = b""
    # Read where it is known that there is something: at any later time it could wait, and hold up everything.
    loop.add_reader(terminal, lambda: parts.put_nowait(_read(terminal)))
    try:
        while not typed.endswith(b"\n"):  # Ctrl-D hands over part of a line, and at its beginning nothing: the end
            if not (part := await parts.get()):
                break
            typed += part
    finally:
        loop.remove_reader(terminal)
    return typed.decode("utf-8", "replace")


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 4096)
    except OSError:  # it was closed
        return b""


def _line(question: str) -> str:
    sys.stderr.write(question)
    sys.stderr.flush()
    return sys.stdin.readline()
