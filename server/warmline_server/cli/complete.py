"""`warmline complete`: one suggestion at one place of one file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .options import variant_names
from .output import Exit, Output, cell

if TYPE_CHECKING:
    from warmline.host.client import EngineClient
    from warmline.variant import ResolvedVariant

    from warmline_server.completion import Completion

    from .document import Document


def command(
    place: Annotated[
        str, typer.Argument(metavar="FILE:LINE:COL", help="Where; LINE and COL from 1, COL in characters; - is stdin.")
    ],
    variant: Annotated[
        str | None,
        typer.Option(help="A variant instead of the workspace's, without its overrides.", autocompletion=variant_names),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON for programs.")] = False,
) -> None:
    """Print what the workspace's variant suggests at FILE:LINE:COL.

    JSON: `text` is the suggestion as an editor would show it, or null; `shown` says why it is what it is; `reason`
    says how warm the KV was (cold, warm, prefix:..., identity:...), null when the engine was not asked. A file whose
    name says that it holds secrets (`.env`, `*.pem`) is refused.
    """
    from warmline_server.completion import BINARY, is_binary, refused

    from .document import parse_place, read
    from .selection import select
    from .session import asking_for_approval

    output = Output(as_json)
    where = parse_place(place)
    document = read(where.file)
    _check_no_secret(where.file, document)
    line, column = document.cursor(where)
    selection = select(document.path or Path.cwd(), variant)
    if is_binary(document.snapshot, document.offset(line, column)):
        completion = refused(BINARY)
    else:
        with asking_for_approval(selection.workspace, variant):
            import asyncio

            completion = asyncio.run(_complete(output, selection.variant, document, line, column))
    if as_json:
        output.json(result(selection.variant.name, completion))
    else:
        _print(output, selection.variant.name, completion)
    if completion.text is None:
        raise typer.Exit(Exit.NOTHING)


def _check_no_secret(file: str, document: Document) -> None:
    from warmline.errors import ConfigError

    from warmline_server.context.secrets import leads_to_secret

    if document.path is not None and leads_to_secret(document.path, document.snapshot.language_id):
        raise ConfigError(
            "this file may hold secrets: no text of it goes to a model",
            code="config.secret",
            file=file,
            remedy="Name another file; an editor's warmline.suggest.secretPaths adds names to the built-in ones, "
            "no setting takes any away",
        )


async def _complete(output: Output, variant: ResolvedVariant, document: Document, line: int, column: int) -> Completion:
    from .session import engine

    async with engine(output) as client:
        with output.working(f"Loading {variant.name}"):
            await client.load(variant)
        return await ask(client, variant, document, line, column, client=f"cli-{os.getpid()}")


async def ask(
    engine: EngineClient, variant: ResolvedVariant, document: Document, line: int, column: int, *, client: str
) -> Completion:
    """Complete at a cursor (0-based), with the document as an editor would send it."""
    from warmline_server.completion import complete

    snapshot = document.snapshot
    return await complete(
        engine,
        variant,
        snapshot,
        line,
        column,
        client=client,
        document=snapshot.uri,
        language=snapshot.language_id,
        path=document.path.name if document.path else None,
        eol=snapshot.eol,
    )


def result(variant: str, completion: Completion) -> dict[str, Any]:
    """Return one completion as the JSON that `complete` and `demo` print; times in milliseconds."""
    started = completion.started
    return {
        "variant": variant,
        "identity": started.identity if started else None,
        "text": completion.text,
        "reason": started.reason if started else None,
        "shown": completion.reason,
        "outcome": str(completion.outcome) if completion.outcome else None,
        "fim": started.fim if started else None,
        "prompt_tokens": started.prompt_tokens if started else 0,
        "reused_tokens": started.reused_tokens if started else 0,
        "reused_estimated": started.reused_estimated if started else False,
        "ttft_ms": round(started.ttft_ms, 3) if started else None,
        "total_ms": round(completion.total_ms, 3),
    }


def _print(output: Output, variant: str, completion: Completion) -> None:
    started = completion.started
    # The suggestion alone goes to stdout, so that a pipe gets nothing else.
    if completion.text is not None:
        output.text(completion.text)
    else:
        output.note(cell(f"nothing to suggest: {completion.reason}", "yellow"))
    if started:
        from warmline.host.wire import reused_words

        output.note(
            cell(
                f"{variant} {started.identity.removeprefix('sha256:')[:12]} | "
                f"{reused_words(started)} | "
                f"first token {started.ttft_ms:.0f} ms, all {completion.total_ms:.0f} ms | {started.fim}",
                "dim",
            )
        )
