"""`warmline bench`: what a variant costs beside its base and its merged model."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .options import BackendOption, Json, variant_names
from .output import Exit, Output, cell

if TYPE_CHECKING:
    from warmline.benchmark.report import Report
    from warmline.variant import ResolvedVariant


def command(
    variants: Annotated[
        list[str] | None,
        typer.Argument(metavar="VARIANT", help="The workspace's or default one.", autocompletion=variant_names),
    ] = None,
    runs: Annotated[int, typer.Option(min=1, max=1000, help="Rounds; each variant runs once in each.")] = 5,
    prompt_tokens: Annotated[int, typer.Option(min=16, max=1 << 20, help="Tokens to read.")] = 512,
    decode_tokens: Annotated[int, typer.Option(min=4, max=4096, help="Tokens to write behind them.")] = 64,
    backend: BackendOption = None,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a page with plots.")] = None,
    output_file: Annotated[Path | None, typer.Option("--output", metavar="FILE", help="Write the JSON too.")] = None,
    as_json: Json = False,
) -> None:
    """Measure variants beside their bases and merged models: load, prefill, decode, first token, memory.

    Each run is a process of its own that begins with nothing; the variants take turns. The engine that serves your
    editor is neither used nor changed. An interrupt ends it early: what was measured is shown, and
    said to be partial; that holds for --json too.
    """
    from warmline.benchmark.rounds import Settings, bench
    from warmline.benchmark.subjects import stand_beside
    from warmline.registry import Store, find_workspace, warmline_home

    from .bench_tables import show
    from .session import asking_for_approval

    output = Output(as_json)
    for file in (html, output_file):
        _check_writable(file)
    if html is not None:
        from warmline.benchmark.plots import check_package

        check_package()
    home = warmline_home()
    subjects = stand_beside(Store(home), _variants(variants or [], backend))
    warnings = _resident_at_work(home)
    with asking_for_approval(find_workspace(Path.cwd())), _progress(output) as told:
        report = bench(subjects, Settings(runs, prompt_tokens, decode_tokens), home, told, warnings=warnings)
    if not warnings:
        report = report.model_copy(update={"warnings": (*report.warnings, *_resident_at_work(home))})
    _write(report, html, output_file)
    if as_json:
        output.json(report.model_dump(mode="json"))
    else:
        show(output, report)
    if report.partial is not None:
        interrupted = report.partial.code == "bench.interrupted"
        raise typer.Exit(Exit.INTERRUPTED if interrupted else Exit.ERROR)


def _variants(names: list[str], backend: str | None) -> list[ResolvedVariant]:
    """Resolve what was asked for; without a name what the workspace or the user selects."""
    from warmline.errors import VariantError

    from .selection import select

    here = Path.cwd()
    if not names:
        chosen = select(here).variant
        if backend in (None, chosen.backend):
            return [chosen]
        names = [chosen.name]
    try:
        return [select(here, name if "/" in name or not backend else f"{backend}/{name}").variant for name in names]
    except VariantError as error:
        error.field = "VARIANT" if error.field == "--variant" else error.field
        raise


def _check_writable(file: Path | None) -> None:
    """Say before minutes of measuring, not after them, that a file cannot be written."""
    if file is None:
        return
    from warmline.errors import ConfigError

    if file.is_dir() or not os.access(file if file.exists() else file.parent, os.W_OK):
        raise ConfigError(
            "the report cannot be written here",
            code="config.unwritable",
            file=str(file),
            remedy="Name a file in a folder that is there and can be written",
        )


def _resident_at_work(home: Path) -> tuple[str, ...]:
    """Say that the engine which serves editors is at work; asking neither starts nor changes one."""
    from warmline.host.paths import host_paths

    paths = host_paths(home)
    if not paths.socket.exists():
        return ()
    import asyncio

    from warmline.host.process import is_at_work

    busy = asyncio.run(is_at_work(paths))
    return ("the engine that serves editors was at work meanwhile",) if busy else ()


@contextlib.contextmanager
def _progress(output: Output) -> Iterator[Callable[[str, int, int], None]]:
    """Show a bar on stderr; silent with JSON and where no person looks."""
    if output.as_json or not sys.stderr.isatty():
        yield lambda what, done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(file=sys.stderr), transient=True) as progress:
        task = progress.add_task("", total=None)
        yield lambda what, done, total: progress.update(task, description=cell(what).plain, completed=done, total=total)


def _write(report: Report, html: Path | None, output_file: Path | None) -> None:
    if output_file is not None:
        data = json.dumps(report.model_dump(mode="json"), indent=2, allow_nan=False)
        output_file.write_text(data + "\n", encoding="utf-8")
    if html is not None:
        from warmline.benchmark.page import page

        html.write_text(page(report), encoding="utf-8")
