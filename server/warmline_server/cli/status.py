"""`warmline status`: which variant answers here, verified, and where its parts come from."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .output import Exit, Output, cell

if TYPE_CHECKING:
    from warmline.host.wire import EngineStatus, VariantStatus

    from .selection import Selection


def command(
    path: Annotated[Path, typer.Argument(help="A file or folder of the workspace.")] = Path("."),
    variant: Annotated[str | None, typer.Option(help="Another variant than the workspace's.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON for programs.")] = False,
) -> None:
    """Show which variant answers here, and where it comes from.

    Verifies every file of the variant without loading weights. State: `empty` when nothing is loaded now; `failed`
    when the variant cannot be used, and `error` says why (exit code 1).
    """
    from warmline.errors import WarmlineError

    from .selection import select

    output = Output(as_json)
    selection = None
    try:
        selection = select(path, variant)
        active, engine_status = asyncio.run(_describe(output, selection))
    except WarmlineError as error:
        if not as_json:
            raise
        output.json(_as_json(selection, None, None) | {"error": error.to_dict()})
        raise typer.Exit(Exit.ERROR) from None
    if as_json:
        output.json(_as_json(selection, active, engine_status))
        return
    from rich.console import Group

    from . import provenance

    context = f"{active.context.n_ctx} tokens" + (" (clamped)" if active.context.clamped else "")
    workspace = selection.workspace.file if selection.workspace else "none"
    output.table(
        provenance.table([active]),
        Group(
            cell(""),
            cell(f"backend   {active.backend.name} {active.backend.version}"),
            cell(f"context   {context}"),
            cell(f"fim       {active.fim}"),
            cell(f"state     {engine_status.state}"),
            cell(f"workspace {workspace}"),
            cell(f"variant   {selection.variant.file}"),
        ),
    )


async def _describe(output: Output, selection: Selection) -> tuple[VariantStatus, EngineStatus]:
    from .session import engine

    async with engine(output, start=False) as client:
        with output.working("Verifying files"):
            active = await client.describe(selection.variant)
        return active, await client.status()


def _as_json(
    selection: Selection | None, active: VariantStatus | None, engine_status: EngineStatus | None
) -> dict[str, Any]:
    from . import provenance

    keys = ("variant", "identity", "base", "adapters", "backend", "context")
    last = engine_status.last if engine_status else None
    return {
        "state": str(engine_status.state) if engine_status else "failed",
        **dict.fromkeys(keys),
        **({"variant": selection.variant.name} if selection else {}),
        **(provenance.as_json(active) if active else {}),
        "last": last.model_dump(mode="json") if last else None,
        "workspace": str(selection.workspace.file) if selection and selection.workspace else None,
        "file": selection.variant.file if selection else None,
        "error": None,
    }
