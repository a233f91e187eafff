"""`warmline model`: the bases that variants stand on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from . import upkeep
from .options import BackendOption, Json, model_names
from .output import Output, cell

if TYPE_CHECKING:
    from warmline.registry import Listed
    from warmline.store.records import ModelRecord

    from .tables import Cell

_HELP = "Base models: install, list, check and remove them."
app = typer.Typer(help=_HELP)
_Name = Annotated[str, typer.Argument(help="Its name, or backend/name.", autocompletion=model_names)]


@app.callback()
def group() -> None:
    """Base models: install, list, check and remove them."""


@app.command("add")
def add(
    source: Annotated[
        str, typer.Argument(metavar="FILE|PACKAGE:FILE", help="A GGUF file, a file of a Python package, or a folder.")
    ],
    name: Annotated[str, typer.Option(help="What to call it.")],
    copy: Annotated[bool, typer.Option("--copy", help="Copy it into the store; else it stays where it is.")] = False,
    merged_from: Annotated[
        str | None, typer.Option(metavar="BASE+ADAPTER", help="What a merged export was made of.")
    ] = None,
    licence: Annotated[str, typer.Option(help="Its licence, where the file does not say.")] = "",
    backend: Annotated[Literal["llama", "openvino"], typer.Option(help="What runs it.")] = "llama",
    precision: Annotated[
        Literal["exact", "compact"],
        typer.Option(help="How a GGUF is kept for OpenVINO: with its own values, or a little smaller and less exact."),
    ] = "exact",
    as_json: Json = False,
) -> None:
    """Install a base; nothing is copied unless asked. For OpenVINO a GGUF is converted, and each weight proven."""
    from warmline.registry import Store, warmline_home

    from .amounts import bar

    output = Output(as_json)
    with bar(output, f"Reading {source}") as progress:
        record = Store(warmline_home()).add_model(
            source,
            name,
            backend,
            copy=copy,
            precision=precision,
            merged_from=merged_from,
            licence=licence,
            progress=progress,
        )
    installed(output, record)


def installed(output: Output, record: ModelRecord) -> None:
    """Say what was installed."""
    from warmline.digests import short

    from .amounts import size

    if output.as_json:
        output.json(_row(record))
        return
    where = "copied" if record.copied else "left where it is"
    if record.source_digest:
        where = f"made of {short(record.source_digest)}, {record.precision}, every weight proven"
    what = f"{record.architecture or record.format}, {size(record.size)}, {short(record.digest)}, {where}"
    output.note(cell(f"Installed {record.backend}/{record.name}: {what}"))
    output.note(cell(f"Next: warmline variant add NAME --base {record.backend}/{record.name}", "dim"))


@app.command("list")
def list_models(as_json: Json = False) -> None:
    """List the installed bases."""
    from warmline.registry import Store, warmline_home

    from . import tables

    output = Output(as_json)
    listed = Store(warmline_home()).list_models()
    if as_json:
        output.json([_listed(each) for each in listed])
    elif listed:
        headers = ("model", "backend", "kind", "architecture", "size", "digest", "trust", "bytes are", "from")
        tables.rows(output, headers, [_cells(each) for each in listed])
    else:
        output.note(cell("No bases yet: warmline model add FILE --name NAME"))


@app.command("show")
def show(name: _Name, backend: BackendOption = None, as_json: Json = False) -> None:
    """Show a base: its record, and what its file says of context, template, BOS and fill-in-the-middle."""
    from warmline.registry import Store, warmline_home
    from warmline.store.upkeep import needed_by

    from . import tables
    from .inspection import inspect_model

    output = Output(as_json)
    output.guard()  # reading a vocabulary loads the native library
    store = Store(warmline_home())
    record = store.get_model(name, backend)
    needed = needed_by("model", record.backend, record.name, store.list_variants(record.backend))
    with output.working(f"Reading {record.name}"):
        found = inspect_model(store, record)
    if as_json:
        output.json(_row(record) | found.as_json() | {"path": str(store.model_path(record)), "needed_by": needed})
        return
    from .amounts import size

    tables.facts(
        output,
        {
            "model": (f"{record.backend}/{record.name}", "bold"),
            "kind": _kind(record),
            "digest": record.digest,
            "size": size(record.size),
            "file": str(store.model_path(record)),
            "from": record.source,
            **({"made of": f"{record.source_digest}, {record.precision}"} if record.source_digest else {}),
            "licence": record.licence,
            "trust": _trust(record),
            "installed": record.installed_at,
            **found.facts(),
            "needed by": ", ".join(needed) or "no variant",
        },
    )


@app.command("remove")
def remove(name: _Name, backend: BackendOption = None, as_json: Json = False) -> None:
    """Remove a base, unless a variant needs it; a file that was not copied stays where it is."""
    upkeep.remove("model", name, backend, as_json=as_json)


@app.command("verify")
def verify(name: _Name, backend: BackendOption = None, as_json: Json = False) -> None:
    """Hash a base afresh and compare with its record."""
    upkeep.verify("model", name, backend, as_json=as_json)


def _kind(record: ModelRecord) -> str:
    return f"merged: {record.merged_from}" if record.merged_from else "base"


def _trust(record: ModelRecord) -> str:
    from warmline_server.labels import trust_label

    return trust_label(record.catalog, verified=True)


def _where(record: ModelRecord) -> str:
    return "copied" if record.copied else "referenced"


def _row(record: ModelRecord) -> dict[str, Any]:
    return {
        "name": record.name,
        "backend": record.backend,
        "kind": "merged" if record.merged_from else "base",
        "merged_from": record.merged_from,
        "format": record.format,
        "architecture": record.architecture,
        "source_digest": record.source_digest,
        "precision": record.precision or None,
        "size": record.size,
        "digest": record.digest,
        "copied": record.copied,
        "source": record.source,
        "licence": record.licence,
        "trust": str(record.trust),
        "catalog": record.catalog or None,
        "installed_at": record.installed_at,
    }


def _listed(each: Listed[ModelRecord]) -> dict[str, Any]:
    if each.record is not None:
        return _row(each.record) | {"error": None}
    return {"name": each.name, "backend": each.backend, "error": each.error.to_dict() if each.error else None}


def _cells(each: Listed[ModelRecord]) -> list[Cell]:
    from warmline.digests import short

    from .amounts import size

    record = each.record
    if record is None:
        why = each.error.message if each.error else ""
        return [each.name, each.backend, ("broken", "red"), "", "", "", "", "", why]
    return [
        (record.name, "bold"),
        record.backend,
        _kind(record),
        record.architecture or record.format,
        size(record.size),
        short(record.digest),
        _trust(record),
        _where(record),
        record.source,
    ]
