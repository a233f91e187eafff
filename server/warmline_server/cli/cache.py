"""`warmline cache`: KV on disk. What is in it are transcripts of prompts, so it can be listed and removed."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import typer

from .options import Json
from .output import Output, cell

if TYPE_CHECKING:
    from warmline.kv.disk import DiskSnapshots

app = typer.Typer(help="KV on disk, which makes a restarted engine warm: list and remove it.")


@app.callback()
def group() -> None:
    """KV on disk, which makes a restarted engine warm: list and remove it."""


@app.command("list")
def list_snapshots(as_json: Json = False) -> None:
    """List the snapshots, latest first: whose they are, how many tokens and bytes; never what they say."""
    from warmline.digests import short

    from . import tables
    from .amounts import age, count, size

    output = Output(as_json)
    now = time.time()
    entries = _disk().entries()[::-1]
    if as_json:
        output.json(
            [
                {
                    "identity": each.identity,
                    "tokens": len(each.tokens),
                    "bytes": each.nbytes,
                    "age_seconds": round(max(0.0, now - each.used_at), 1),
                }
                for each in entries
            ]
        )
        return
    if not entries:
        output.note(cell("No KV is on disk."))
        return
    rows = [[short(e.identity), str(len(e.tokens)), size(e.nbytes), age(now - e.used_at)] for e in entries]
    tables.rows(output, ("identity", "tokens", "size", "last used"), rows)
    output.note(cell(f"{count(len(entries), 'snapshot')}, {size(sum(each.nbytes for each in entries))}", "dim"))


@app.command("purge")
def purge(as_json: Json = False) -> None:
    """Remove all KV from the disk. What a running engine has in memory goes when it stops."""
    from .amounts import count, size

    output = Output(as_json)
    disk = _disk()
    nbytes = sum(each.nbytes for each in disk.entries())
    removed = disk.purge()
    if as_json:
        output.json({"removed": removed, "bytes": nbytes})
    else:
        output.note(cell(f"Removed {count(removed, 'snapshot')}, {size(nbytes)}"))


def _disk() -> DiskSnapshots:
    from warmline.kv.disk import DiskSnapshots
    from warmline.registry import warmline_home
    from warmline.settings import load_settings

    home = warmline_home()
    return DiskSnapshots(load_settings(home).snapshots(home))
