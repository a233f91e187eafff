"""`warmline chat`: one turn with a variant, streamed."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from .options import Json, variant_names
from .output import Output, cell, visible

if TYPE_CHECKING:
    from warmline.host.wire import Done, Started
    from warmline.variant import ResolvedVariant

_MAX_MESSAGE: Final = 1 << 20  # characters: far more than any context holds, far less than a request may be


def command(
    message: Annotated[
        str | None, typer.Argument(help="What to say; without it, or as -, it is read from stdin.")
    ] = None,
    variant: Annotated[
        str | None, typer.Option(help="A variant instead of the one selected here.", autocompletion=variant_names)
    ] = None,
    system: Annotated[str | None, typer.Option(help="A system message before it.")] = None,
    max_tokens: Annotated[int, typer.Option(min=1, max=65536, help="Most tokens of the answer.")] = 512,
    as_json: Json = False,
) -> None:
    """Say one thing to the variant selected here, and print its answer as it comes.

    JSON: `text` is the whole answer; `reason` says how warm the KV was; `outcome` how the answer ended.
    """
    import asyncio  # not at the top: it is a tenth of what `warmline --help` takes

    from .selection import select

    output = Output(as_json)
    text = _message(message)
    selection = select(Path.cwd(), variant)
    started, done = asyncio.run(_turn(output, selection.variant, text, system, max_tokens))
    if as_json:
        output.json(_result(selection.variant.name, started, done))
    elif started is not None:
        from warmline.host.wire import reused_words

        output.note(
            cell(
                f"{selection.variant.name} {started.identity.removeprefix('sha256:')[:12]} | "
                f"{done.predicted_tokens} tokens ({done.outcome}) | {reused_words(started)} | "
                f"first token {started.ttft_ms:.0f} ms, all {done.total_ms:.0f} ms",
                "dim",
            )
        )


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
) -> tuple[Started | None, Done]:
    from warmline.errors import BackendError
    from warmline.host.wire import ChatRequest, ChatTurn, Delta, Done, Started

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
    async with engine(output) as client:
        with output.working(f"Loading {variant.name}"):
            await client.load(variant)
        async for event in client.chat(request):
            if isinstance(event, Started):
                started = event
            elif isinstance(event, Delta):
                _stream(output, event.text)
            elif isinstance(event, Done):
                _stream(output, "\n")
                return started, event
    raise BackendError("the answer has no end", code="backend.crashed", remedy="Ask again")


def _stream(output: Output, text: str) -> None:
    if not output.as_json:
        output.stdout.write(visible(text))
        output.stdout.flush()


def _result(variant: str, started: Started | None, done: Done) -> dict[str, Any]:
    return {
        "variant": variant,
        "identity": started.identity if started else None,
        "text": done.text,
        "outcome": str(done.outcome),
        "reason": started.reason if started else None,
        "prompt_tokens": started.prompt_tokens if started else 0,
        "reused_tokens": started.reused_tokens if started else 0,
        "reused_estimated": started.reused_estimated if started else False,
        "predicted_tokens": done.predicted_tokens,
        "ttft_ms": round(started.ttft_ms, 3) if started else None,
        "total_ms": round(done.total_ms, 3),
    }
