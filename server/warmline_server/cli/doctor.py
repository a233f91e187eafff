"""`warmline doctor`: one row for each thing that must be right, with what to do where it is not."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from .options import Json
from .output import Exit, Output, cell

if TYPE_CHECKING:
    from .checks import Check

# Seconds: the promise is five, with what starting takes.
_NATIVE: Final = 3.0
_VARIANTS: Final = 3.5
_STYLES: Final = {"ok": "green", "warn": "yellow", "fail": "bold red"}


def command(
    deep: Annotated[bool, typer.Option("--deep", help="Hash everything afresh; takes as long as it takes.")] = False,
    probe: Annotated[
        bool, typer.Option("--probe", help="Measure how OpenVINO's prefix cache treats adapters; takes a minute.")
    ] = False,
    sweep: Annotated[bool, typer.Option("--sweep", help="First remove what crashes have left behind.")] = False,
    as_json: Json = False,
) -> None:
    """Check this machine, the store, every variant and the engine. Exit code 1 where something does not work.

    Loads no weights, starts no engine, and ends within 5 seconds unless --deep or --probe.
    """
    from .amounts import count
    from .checks import Level

    output = Output(as_json)
    if probe:
        output.guard()
    swept = _sweep(output) if sweep else None
    with output.working("Looking around"):
        checks = list(_all(deep, probe))
    counts = {str(level): sum(check.level is level for check in checks) for level in Level}
    if as_json:
        rows = [check.as_json() for check in checks]
        output.json({"ok": not counts["fail"], "counts": counts, "checks": rows, "swept": swept})
    else:
        _print(output, checks)
        words = (f"{counts['ok']} ok", count(counts["warn"], "warning"), count(counts["fail"], "failure"))
        output.note(cell(", ".join(words)))
    if counts["fail"]:
        raise typer.Exit(Exit.ERROR)


def _all(deep: bool, probe: bool) -> Iterator[Check]:
    from warmline.registry import Store, warmline_home

    from .checks import editors, engine, machine, openvino, storage, workspace
    from .checks.variants import VariantChecks

    # Whoever asks for what takes longer waits for everything.
    deadline = None if deep or probe else time.monotonic() + _VARIANTS
    home = warmline_home()
    store = Store(home)

    def largest() -> int:
        return max((each.record.size for each in store.list_models() if each.record), default=0)

    parts: list[tuple[str, Callable[[], Check | Iterable[Check]]]] = [
        ("python", machine.python),
        ("native library", lambda: machine.native(_NATIVE)),
        ("openvino", lambda: openvino.checks(store, probe=probe)),
        ("memory", lambda: machine.memory(largest)),
        ("store", lambda: storage.permissions(home)),
        ("artifacts", lambda: storage.artifacts(store, deep=deep)),
        ("settings", lambda: storage.settings(store)),
        ("variants", lambda: VariantChecks(store, deadline, deep=deep).run()),
        ("workspace", lambda: workspace.selected(store, VariantChecks(store, deadline, deep=deep), Path.cwd())),
        ("trust", lambda: storage.approvals(store)),
        ("catalogs", lambda: storage.catalogs(home)),
        ("engine", lambda: engine.host(home)),
        ("quarantine", lambda: engine.quarantine(home)),
        ("KV on disk", lambda: storage.snapshots(home)),
        ("locks", lambda: storage.leftovers(store)),
        ("command", editors.command),
        ("neovim", editors.neovim),
        ("vscode", editors.vscode),
    ]
    for name, part in parts:
        yield from _safely(name, part)


def _safely(name: str, part: Callable[[], Check | Iterable[Check]]) -> Iterator[Check]:
    """A check that itself fails is a row like others: the doctor is asked when things are broken."""
    from .checks import Check, fail

    try:
        found = part()
        yield from [found] if isinstance(found, Check) else found
    except Exception as error:
        remedy = getattr(error, "remedy", "") or "Report this, with what `WARMLINE_DEBUG=1 warmline doctor` shows"
        yield fail(name, f"{type(error).__name__}: {error}", remedy)


def _print(output: Output, checks: list[Check]) -> None:
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True, overflow="ellipsis", max_width=32)
    table.add_column(overflow="fold")
    for check in checks:
        table.add_row(cell(check.level, _STYLES[check.level]), cell(check.name), cell(check.message))
        if check.remedy:
            table.add_row("", "", cell(f"-> {check.remedy}", "dim"))
    output.table(table)


def _sweep(output: Output) -> dict[str, Any]:
    from warmline.registry import Store, warmline_home

    from .amounts import count, size

    swept = Store(warmline_home()).sweep()
    output.note(cell(f"Removed {count(len(swept.removed), 'leftover')}, {size(swept.nbytes)}"))
    for why in swept.kept:
        output.note(cell(f"Kept {why}", "yellow"))
    return {"removed": list(swept.removed), "bytes": swept.nbytes, "kept": list(swept.kept)}
