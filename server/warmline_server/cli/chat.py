"""`warmline chat`: a conversation with the agent in the terminal; with a message, one turn with the bare variant."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from .options import Json, variant_names
from .output import Output, cell, visible

if TYPE_CHECKING:
    from warmline.host.wire import Started
    from warmline.variant import ResolvedVariant

    from ..thoughts import Part

_MAX_MESSAGE: Final = 1 << 20  # characters: far more than any context holds, far less than a request may be

REPEATS: Final = "repeats"


@dataclass(frozen=True, slots=True)
class _Answer:
    """A whole answer, and how it ended; of one that was stopped the engine does not tell the number of tokens."""

    text: str
    outcome: str
    predicted_tokens: int | None
    total_ms: float
    thought: str = ""


def command(
    message: Annotated[
        str | None,
        typer.Argument(help="What to say; as -, it is read from stdin. Without it, in a terminal, a conversation."),
    ] = None,
    variant: Annotated[
        str | None, typer.Option(help="A variant instead of the one selected here.", autocompletion=variant_names)
    ] = None,
    system: Annotated[str | None, typer.Option(help="A system message before it.")] = None,
    max_tokens: Annotated[int, typer.Option(min=1, max=65536, help="Most tokens of the answer.")] = 512,
    as_json: Json = False,
) -> None:
    """Talk to the variant selected here, as an agent with tools; or say one thing and print the answer as it comes.

    In a conversation Ctrl-C ends a turn, Ctrl-D the conversation; /help shows its commands.

    Thoughts, where the variant's profile says how they are marked, go to stderr and are no part of the answer.

    JSON: `text` is the whole answer, `thought` what came before it; `reason` says how warm the KV was; `outcome` how
    the answer ended: `stop` (the model's own end), `length` (--max-tokens), or `repeats` (it went round in circles and
    was stopped).
    """
    import asyncio  # not at the top: it is a tenth of what `warmline --help` takes

    from .selection import select

    output = Output(as_json)
    if message is None and not as_json and system is None and sys.stdin.isatty():
        _converse(output, variant, max_tokens)
        return
    text = _message(message)
    selection = select(Path.cwd(), variant, chat=True)
    started, answer = asyncio.run(_turn(output, selection.variant, text, system, max_tokens))
    if as_json:
        output.json(_result(selection.variant.name, started, answer))
    elif started is not None:
        from warmline.host.wire import reused_words

        output.note(
            cell(
                f"{selection.variant.name} {started.identity.removeprefix('sha256:')[:12]} | "
                f"{_ended(answer)} | {reused_words(started)} | "
                f"first token {started.ttft_ms:.0f} ms, all {answer.total_ms:.0f} ms",
                "dim",
            )
        )


def _converse(output: Output, name: str | None, max_tokens: int) -> None:
    from warmline.host.client import connect
    from warmline.registry import warmline_home

    from ..acp.agent import Agent
    from ..acp.options import exact_name
    from ..acp.terminal import converse
    from ..acp.turns import Limits
    from .selection import select

    selected = select(Path.cwd(), name, chat=True).variant  # says at once where nothing is selected, and how to mend it
    home = warmline_home()
    agent = Agent(home, lambda: connect(home), Limits(step_tokens=max_tokens))
    converse(agent, output, Path.cwd(), exact_name(selected) if name else None)


def _message(given: str | None) -> str:
    if given is None and sys.stdin.isatty():
        raise typer.BadParameter("say something: warmline chat MESSAGE")
    if given in (None, "-"):
        given = sys.stdin.buffer.read(4 * _MAX_MESSAGE + 1).decode("utf-8", "replace")
    text = (given or "").strip()
    if not text:
        raise typer.BadParameter("the message is empty")
    if len(text) > _MAX_MESSAGE:
        raise typer.BadParameter(f"the message is longer than {_MAX_MESSAGE} characters")
    return text


async def _turn(
    output: Output, variant: ResolvedVariant, text: str, system: str | None, max_tokens: int
) -> tuple[Started | None, _Answer]:
    from warmline.errors import BackendError
    from warmline.host.wire import ChatRequest, ChatTurn, Delta, Done, Started

    from ..repetition import circles
    from ..thoughts import Thoughts, parted
    from .session import engine

    turns = [ChatTurn(role="system", content=system)] if system else []
    request = ChatRequest(
        client="cli",
        conversation=f"chat-{os.getpid()}",  # two commands at once are two conversations
        variant=variant,
        messages=(*turns, ChatTurn(role="user", content=text)),
        max_tokens=max_tokens,
    )
    started: Started | None = None
    began, said = time.perf_counter(), ""
    reasoning = variant.profile.reasoning
    thoughts, shown = Thoughts(reasoning), _Shown(output)
    async with engine(output) as client:
        with output.working(f"Loading {variant.name}"):
            await client.load(variant)
        async with contextlib.aclosing(client.chat(request)) as events:  # type: ignore[type-var]
            async for event in events:
                if isinstance(event, Started):
                    started = event
                elif isinstance(event, Delta):
                    shown.take(thoughts.feed(event.text))
                    said += event.text
                    if circles(said):
                        _stream(output, "\n")
                        thought, answer = parted(said, reasoning)
                        ms = (time.perf_counter() - began) * 1000
                        return started, _Answer(answer, REPEATS, None, ms, thought)
                elif isinstance(event, Done):
                    shown.take(thoughts.finish())
                    _stream(output, "\n")
                    thought, answer = parted(event.text, reasoning)
                    how = str(event.outcome)
                    return started, _Answer(answer, how, event.predicted_tokens, event.total_ms, thought)
    raise BackendError("the answer has no end", code="backend.crashed", remedy="Ask again")


def _ended(answer: _Answer) -> str:
    if answer.outcome == REPEATS:
        return "stopped: it only repeated itself (repeats)"
    return f"{answer.predicted_tokens} tokens ({answer.outcome})"


class _Shown:
    """Prints a reply as it comes: the answer on stdout, a thought before it beside."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._within_thought = False

    def take(self, parts: list[Part]) -> None:
        """Print more of it."""
        for part in parts:
            if part.thought:
                self._output.aside(part.text)
            else:
                if self._within_thought:
                    self._output.aside("\n")
                _stream(self._output, part.text)
            self._within_thought = part.thought


def _stream(output: Output, text: str) -> None:
    if not output.as_json:
        output.stdout.write(visible(text))
        output.stdout.flush()


def _result(variant: str, started: Started | None, answer: _Answer) -> dict[str, Any]:
    return {
        "variant": variant,
        "identity": started.identity if started else None,
        "text": answer.text,
        "thought": answer.thought,
        "outcome": answer.outcome,
        "reason": started.reason if started else None,
        "prompt_tokens": started.prompt_tokens if started else 0,
        "reused_tokens": started.reused_tokens if started else 0,
        "reused_estimated": started.reused_estimated if started else False,
        "predicted_tokens": answer.predicted_tokens,
        "ttft_ms": round(started.ttft_ms, 3) if started else None,
        "total_ms": round(answer.total_ms, 3),
    }
