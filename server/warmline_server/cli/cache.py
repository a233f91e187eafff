"""`warmline cache`: KV on disk, which are transcripts of prompts, and the demo's imported base: listed and removed."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import typer

from .options import Json
from .output import Output, cell

if TYPE_CHECKING:
    from pathlib import Path

    from warmline.kv.disk import DiskSnapshots

_HELP: Final = (
    "KV on disk, which makes a restarted engine warm, and the demo's base for OpenVINO: list and remove them."
)
app = typer.Typer(help=_HELP)


@app.callback()
def group() -> None:
    """KV on disk, which makes a restarted engine warm, and the demo's base for OpenVINO: list and remove them."""


@app.command("list")
def list_snapshots(as_json: Json = False) -> None:
    """List the snapshots, latest first: whose they are, how many tokens and bytes; never what they say.

    A base that `warmline demo` imported comes after them; it is nobody's: no identity and no tokens.
    """
    from warmline.digests import short

    from . import tables
    from .amounts import age, size

    output = Output(as_json)
    now = time.time()
    entries = _disk().entries()[::-1]
    bases = [(path, *_measured(path)) for path in _demo_bases()]
    if as_json:
        output.json(
            [
                {
                    "kind": "kv",
                    "identity": each.identity,
                    "tokens": len(each.tokens),
                    "bytes": each.nbytes,
                    "age_seconds": round(max(0.0, now - each.used_at), 1),
                }
                for each in entries
            ]
            + [
                {
                    "kind": "demo base",
                    "identity": None,
                    "tokens": None,
                    "bytes": nbytes,
                    "age_seconds": round(max(0.0, now - at), 1),
                }
                for _, nbytes, at in bases
            ]
        )
        return
    if not entries and not bases:
        output.note(cell("No KV is on disk."))
        return
    rows = [[short(e.identity), str(len(e.tokens)), size(e.nbytes), age(now - e.used_at)] for e in entries]
    rows += [[path.name, "", size(nbytes), age(now - at)] for path, nbytes, at in bases]
    tables.rows(output, ("identity", "tokens", "size", "last used"), rows)
    nbytes = sum(each.nbytes for each in entries) + sum(each[1] for each in bases)
    output.note(cell(f"{_counted(len(entries), len(bases))}, {size(nbytes)}", "dim"))


@app.command("purge")
def purge(as_json: Json = False) -> None:
    """Remove all KV from the disk, and the base that `warmline demo` imported; the next demo imports it again.

    What a running engine has in memory goes when it stops.
    """
    import shutil

    from .amounts import size

    output = Output(as_json)
    disk = _disk()
    nbytes = sum(each.nbytes for each in disk.entries())
    removed = disk.purge()
    bases = _demo_bases()
    for path in bases:
        nbytes += _measured(path)[0]
        shutil.rmtree(path)
    if as_json:
        output.json({"removed": removed, "demo_bases": len(bases), "bytes": nbytes})
    else:
        output.note(cell(f"Removed {_counted(removed, len(bases))}, {size(nbytes)}"))


def _counted(snapshots: int, bases: int) -> str:
    from .amounts import count

    return count(snapshots, "snapshot") + (f" and {count(bases, 'base')} of the demo" if bases else "")


def _demo_bases() -> list[Path]:
    from warmline.registry import warmline_home

    from .demo_openvino import imported

    return imported(warmline_home())


def _measured(folder: Path) -> tuple[int, float]:
    """Return a folder's bytes, and when it was made."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()), folder.stat().st_mtime


def _disk() -> DiskSnapshots:
    from warmline.kv.disk import DiskSnapshots
    from warmline.registry import warmline_home
    from warmline.settings import load_settings

    home = warmline_home()
    return DiskSnapshots(load_settings(home).snapshots(home))
