"""`warmline variant`: which variants can be selected here."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .output import Output, cell

app = typer.Typer(help="Variants that can be selected.")


@app.callback()
def group() -> None:
    """Variants that can be selected."""


@app.command("list")
def list_variants(
    path: Annotated[Path, typer.Argument(help="A file or folder of the workspace.")] = Path("."),
    as_json: Annotated[bool, typer.Option("--json", help="JSON for programs.")] = False,
) -> None:
    """List the variants of the workspace at PATH and of the user's store."""
    from warmline.errors import ConfigError
    from warmline.registry import Store, find_workspace, warmline_home

    output = Output(as_json)
    workspace = find_workspace(path)
    try:
        selected = workspace.load().variant if workspace else None
    except ConfigError:
        selected = None  # a broken workspace file is what `status` reports; the list still helps to mend it
    rows = [
        {
            "name": found.name,
            "backend": found.backend,
            "file": str(found.path),
            "from": "workspace" if found.workspace else "store",
            "selected": selected in (found.name, f"{found.backend}/{found.name}"),
        }
        for found in Store(warmline_home()).variants(workspace)
    ]
    if as_json:
        output.json(rows)
        return
    if not rows:
        output.note(cell(f"No variants yet: write {warmline_home() / 'variants' / 'llama'}/NAME.json"))
        return
    from rich.table import Table

    table = Table("", "variant", "backend", "from", "file", box=None, pad_edge=False)
    for row in rows:
        mark = cell("*" if row["selected"] else "", "bold green")
        table.add_row(mark, *(cell(row[key]) for key in ("name", "backend", "from", "file")))
    output.table(table)
