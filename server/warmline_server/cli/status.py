"""`warmline status`: which variant answers here, verified, and where its parts come from."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from warmline_server.paths import short_path

from .options import variant_names
from .output import Exit, Output, cell

if TYPE_CHECKING:
    from warmline.host.wire import EngineStatus, VariantStatus

    from .selection import Selection


def command(
    path: Annotated[Path, typer.Argument(help="A file or folder of the workspace.")] = Path("."),
    variant: Annotated[
        str | None, typer.Option(help="Another variant than the workspace's.", autocompletion=variant_names)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON for programs.")] = False,
) -> None:
    """Show which variant answers here, and where it comes from.

    Verifies every file of the variant without loading weights. State is the engine's own, whoever it works for: `empty`
    when nothing is loaded now. It is `failed` when this variant cannot be used, and `error` says why (exit code 1).
    """
    from warmline.errors import WarmlineError

    from .selection import select
    from .session import asking_for_approval

    output = Output(as_json)
    selection = None
    try:
        selection = select(path, variant)
        with asking_for_approval(selection.workspace, variant):
            import asyncio

            active, engine_status = asyncio.run(_describe(output, selection))
    except WarmlineError as error:
        if not as_json:
            raise
        output.json(_as_json(selection, None, None) | {"error": error.to_dict()})
        raise typer.Exit(Exit.ERROR) from None
    from warmline.registry import warmline_home

    from warmline_server.standing import standing

    certificate = standing(warmline_home(), active, selection.variant.profile)
    if as_json:
        output.json(_as_json(selection, active, engine_status) | {"certificate": certificate})
        return
    from . import provenance, tables

    output.table(provenance.table([active]), cell(""))
    tables.facts(
        output,
        {
            "certificate": certificate,
            "backend": f"{active.backend.name} {active.backend.version}",
            "context": f"{active.context.n_ctx} tokens" + (" (clamped)" if active.context.clamped else ""),
            "scales": _overridden(selection),
            "FIM": active.fim,
            "engine": str(engine_status.state),
            "workspace": _shown(selection.workspace.file, selection) if selection.workspace else "none",
            "chat": _chat(selection),
            "file": _shown(Path(selection.variant.file), selection),
        },
    )


def _chat(selection: Selection) -> str:
    """Name the variant that the workspace chats with where it is another; empty else."""
    if selection.workspace is None:
        return ""
    chosen = selection.workspace.load()
    name = chosen.selects(chat=True)[0]
    return "" if name == chosen.variant else f"works with {name}: warmline status --variant {name}"


def _overridden(selection: Selection) -> str:
    """Say which scales are the workspace's word; empty where the variant's own hold."""
    if selection.workspace is None or not selection.overridden:
        return ""
    from warmline.identity import exact_decimal

    scales = {each.name: each.scale for each in selection.variant.adapters}
    said = ", ".join(f"{name}@{exact_decimal(scales[name])}" for name in selection.overridden)
    return f"{said}, by {_shown(selection.workspace.file, selection)}"


def _shown(file: Path, selection: Selection) -> str:
    """Write a path as it is reached from here, inside the workspace; else from the home folder on, or whole."""
    here, root = Path.cwd(), selection.workspace.root if selection.workspace else None
    if root is not None and here.is_relative_to(root) and file.is_relative_to(root):
        return os.path.relpath(file, here)
    return short_path(file)


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
    last = None
    if active and engine_status and engine_status.active:
        # The engine's latest request may have been another variant's.
        last = engine_status.last if engine_status.active.identity == active.identity else None
    return {
        "state": str(engine_status.state) if engine_status else "failed",
        **dict.fromkeys(keys),
        **({"variant": selection.variant.name} if selection else {}),
        **(provenance.as_json(active) if active else {}),
        "last": last.model_dump(mode="json") if last else None,
        "certificate": None,
        "workspace": str(selection.workspace.file) if selection and selection.workspace else None,
        "file": selection.variant.file if selection else None,
        "error": None,
    }
