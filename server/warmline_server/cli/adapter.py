"""`warmline adapter`: the LoRA adapters that variants put on their bases."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from warmline_server.labels import trust_label

from . import upkeep
from .options import BackendOption, Json, adapter_names, model_names
from .output import Output, cell

if TYPE_CHECKING:
    from warmline.filemodel import Backend
    from warmline.registry import Listed, Store
    from warmline.store.records import AdapterRecord

    from .tables import Cell

app = typer.Typer(help="LoRA adapters: install, list, check and remove them.")
_Name = Annotated[str, typer.Argument(help="Its name, or backend/name.", autocompletion=adapter_names)]


@app.callback()
def group() -> None:
    """LoRA adapters: install, list, check and remove them."""


@app.command("add")
def add(
    source: Annotated[
        Path, typer.Argument(metavar="PATH", help="A PEFT folder as training tools write it, or a GGUF file.")
    ],
    base: Annotated[str, typer.Option(help="The installed base it is checked against.", autocompletion=model_names)],
    name: Annotated[str | None, typer.Option(help="What to call it; else what the path is called.")] = None,
    licence: Annotated[str, typer.Option(help="Its licence, where the file does not say.")] = "",
    backend: BackendOption = None,
    as_json: Json = False,
) -> None:
    """Install an adapter: checked against its base, converted where the backend needs it, and copied."""
    from warmline.digests import short
    from warmline.registry import Store, warmline_home

    from .amounts import bar

    output = Output(as_json)
    store = Store(warmline_home())
    found, plain = _base(store, source, base, backend)
    with bar(output, f"Reading {source}") as progress:
        record = store.add_adapter(
            source, name or _called(source), found, base=plain, licence=licence, progress=progress
        )
    if as_json:
        output.json(_row(record))
        return
    factor = f", factor {record.factor:g}" if record.factor is not None else ""
    trust = _trust(record)
    output.note(
        cell(f"Installed {record.backend}/{record.name}: rank {record.rank}{factor}, {record.pairs} weights, {trust}")
    )
    if record.base.digest:
        said = f"Made for {record.base.name or 'a base'} ({short(record.base.digest)}), says adapter.json beside it."
        output.note(cell(said, "dim"))
    if record.unverified:
        output.note(cell("Unverified: nothing ties it to this very base but its shapes.", "yellow"))
    fitting = f"{record.backend}/{record.checked_base.name}"
    output.note(cell(f"Next: warmline variant add NAME --base {fitting} --adapter {record.name}", "dim"))


def _base(store: Store, source: Path, base: str, backend: Backend | None) -> tuple[Backend, str]:
    """Find a base's backend and plain name; one that is not there is left to the store, which checks more first.

    Raises `ArtifactError`, ``artifact.backend``, for a GGUF adapter where only the other backend has the base.
    """
    from warmline.errors import ArtifactError, StoreError

    from .bases import find_base

    if backend is None and source.suffix == ".gguf" and "/" not in base:
        backend = "llama"  # the other backend takes none
    try:
        return find_base(store, base, backend)[0]
    except StoreError as error:
        if error.code != "store.unknown_model":
            raise
        others = [each.name for each in store.list_models("openvino")]
        if backend == "llama" and base in others and source.suffix == ".gguf":
            raise ArtifactError(
                f"the base `{base}` is installed for the backend `openvino`, which takes no GGUF adapter",
                code="artifact.backend",
                file=str(source),
                remedy=f"Give the PEFT folder that the adapter was converted from: warmline adapter add FOLDER --base "
                f"openvino/{base}; or install the base for llama.cpp too: warmline model add FILE.gguf --name {base}",
            ) from None
        return backend or "llama", base


def _called(source: Path) -> str:
    path = source.absolute()
    if path.is_dir():
        return path.name.lower()
    # `acme-style/adapter.gguf` is what converters write: the folder has the name.
    return (path.parent.name if path.stem.startswith("adapter") else path.stem).lower()


@app.command("list")
def list_adapters(as_json: Json = False) -> None:
    """List the installed adapters."""
    from warmline.registry import Store, warmline_home

    from . import tables

    output = Output(as_json)
    listed = Store(warmline_home()).list_adapters()
    if as_json:
        output.json([_listed(each) for each in listed])
    elif listed:
        headers = ("adapter", "backend", "for", "rank", "factor", "size", "digest", "trust", "from")
        tables.rows(output, headers, [_cells(each) for each in listed])
    else:
        output.note(cell("No adapters yet: warmline adapter add PATH --base NAME"))


@app.command("show")
def show(name: _Name, backend: BackendOption = None, as_json: Json = False) -> None:
    """Show an adapter: its record, what it was made for and checked against, and who needs it."""
    from warmline.digests import short
    from warmline.registry import Store, warmline_home
    from warmline.store.upkeep import needed_by

    from . import tables
    from .amounts import size

    output = Output(as_json)
    store = Store(warmline_home())
    record = store.get_adapter(name, backend)
    needed = needed_by("adapter", record.backend, record.name, store.list_variants(record.backend))
    if as_json:
        output.json(_row(record) | {"path": str(store.adapter_path(record)), "needed_by": needed})
        return
    declared = f"{record.base.name or ''} {short(record.base.digest) if record.base.digest else ''}".strip()
    checked = f"{record.checked_base.name or ''} {short(record.checked_base.digest or '')}".strip()
    zero = f", {record.zero_pairs} of them all zero" if record.zero_pairs else ""
    tables.facts(
        output,
        {
            "adapter": (f"{record.backend}/{record.name}", "bold"),
            "trust": (_trust(record), "yellow" if record.unverified else ""),
            "made for": declared or "not stated",
            "checked against": checked,
            "rank": str(record.rank),
            "alpha": "" if record.alpha is None else f"{record.alpha:g}",
            "factor at scale 1": "" if record.factor is None else f"{record.factor:g}",
            "changes": f"{record.pairs} weights{zero}",
            "architecture": record.architecture,
            "format": record.format,
            "digest": record.digest,
            "converted from": record.source_digest or "",
            "size": size(record.size),
            "file": str(store.adapter_path(record)),
            "from": record.source,
            "licence": record.licence,
            "certificate": record.certificate,
            "installed": record.installed_at,
            "needed by": ", ".join(needed) or "no variant",
        },
    )


@app.command("remove")
def remove(name: _Name, backend: BackendOption = None, as_json: Json = False) -> None:
    """Remove an adapter and its approval, unless a variant needs it."""
    upkeep.remove("adapter", name, backend, as_json=as_json)


@app.command("verify")
def verify(name: _Name, backend: BackendOption = None, as_json: Json = False) -> None:
    """Hash an adapter afresh and compare with its record."""
    upkeep.verify("adapter", name, backend, as_json=as_json)


def _trust(record: AdapterRecord) -> str:
    return trust_label(record.catalog, verified=not record.unverified)


def _row(record: AdapterRecord) -> dict[str, Any]:
    return {
        "name": record.name,
        "backend": record.backend,
        "format": record.format,
        "digest": record.digest,
        "source_digest": record.source_digest,
        "size": record.size,
        "rank": record.rank,
        "alpha": record.alpha,
        "factor": record.factor,
        "pairs": record.pairs,
        "zero_pairs": record.zero_pairs,
        "architecture": record.architecture,
        "base": record.base.model_dump(),
        "checked_base": record.checked_base.model_dump(),
        "trust": str(record.trust),
        "verified": not record.unverified,
        "catalog": record.catalog or None,
        "certificate": record.certificate or None,
        "source": record.source,
        "licence": record.licence,
        "installed_at": record.installed_at,
    }


def _listed(each: Listed[AdapterRecord]) -> dict[str, Any]:
    if each.record is not None:
        return _row(each.record) | {"error": None}
    return {"name": each.name, "backend": each.backend, "error": each.error.to_dict() if each.error else None}


def _cells(each: Listed[AdapterRecord]) -> list[Cell]:
    from warmline.digests import short

    from .amounts import size

    record = each.record
    if record is None:
        why = each.error.message if each.error else ""
        return [each.name, each.backend, ("broken", "red"), "", "", "", "", "", why]
    return [
        (record.name, "bold"),
        record.backend,
        record.checked_base.name or record.base.name or "",
        str(record.rank),
        "" if record.factor is None else f"{record.factor:g}",
        size(record.size),
        short(record.digest),
        (_trust(record), "yellow" if record.unverified else ""),
        record.source,
    ]
