"""`warmline catalog`: bases, adapters and variants that a team or a curator publishes in one file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from .options import BackendOption, Json
from .output import Output, cell

if TYPE_CHECKING:
    from warmline.catalog import AnyEntry, Plan

    from .catalogs import Added

app = typer.Typer(help="Catalogs of a team or a curator: add, search, and install from them.")


def _names(incomplete: str) -> list[str]:
    from warmline.registry import warmline_home

    from .catalogs import names

    return [name for name in names(warmline_home()) if name.startswith(incomplete)]


def _entries(incomplete: str) -> list[str]:
    from warmline.registry import warmline_home

    from .catalogs import Added, all_added

    found = [each for _, each in all_added(warmline_home()) if isinstance(each, Added)]
    return sorted({e.name for each in found for e in each.catalog.entries if e.name.startswith(incomplete)})


_Catalog = Annotated[str, typer.Argument(metavar="CATALOG", help="Its name.", autocompletion=_names)]


@app.callback()
def group() -> None:
    """Catalogs of a team or a curator: add, search, and install from them."""


@app.command("add")
def add(
    location: Annotated[str, typer.Argument(metavar="FILE|URL", help="The catalog's JSON file.")],
    digest: Annotated[str | None, typer.Option(help="Refuse any other bytes (sha256:...).")] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Take the place of one of this name.")] = False,
    as_json: Json = False,
) -> None:
    """Trust a catalog: what is installed from it is then *curated*. It is kept as it is now."""
    from warmline.registry import warmline_home

    from . import catalogs

    output = Output(as_json)
    with output.working(f"Reading {location}"):
        added = catalogs.read(location, digest)
    catalogs.add(warmline_home(), added, replace=replace)
    if as_json:
        output.json(_added(added))
        return
    output.note(cell(f"Added {added.catalog.name}: {len(added.catalog.entries)} entries, {added.digest}"))
    if added.location.lower().startswith("http://") and digest is None:
        output.note(cell("It came unencrypted: compare its digest with the curator's.", "yellow"))
    output.note(cell(f"Next: warmline catalog list {added.catalog.name}", "dim"))


@app.command("list")
def list_catalogs(
    name: Annotated[
        str | None, typer.Argument(metavar="[CATALOG]", help="List what it has.", autocompletion=_names)
    ] = None,
    as_json: Json = False,
) -> None:
    """List the catalogs that you added, or the entries of one."""
    from warmline.errors import WarmlineError
    from warmline.registry import warmline_home

    from . import catalogs, tables

    output = Output(as_json)
    home = warmline_home()
    if name is not None:
        one = catalogs.get(home, name)
        _show(output, [(one, entry) for entry in one.catalog.entries])
        return
    found = list(catalogs.all_added(home))
    if as_json:
        rows = [
            {"name": each, "error": added.to_dict()} if isinstance(added, WarmlineError) else _added(added)
            for each, added in found
        ]
        output.json(rows)
        return
    if not found:
        output.note(cell("No catalogs yet: warmline catalog add FILE|URL"))
        return
    cells: list[list[tables.Cell]] = []
    for each, added in found:
        if isinstance(added, WarmlineError):
            cells.append([each, ("broken", "red"), "", added.message])
        else:
            cells.append([(each, "bold"), str(len(added.catalog.entries)), added.added_at, added.location])
    tables.rows(output, ("catalog", "entries", "added", "from"), cells)


@app.command("search")
def search(
    text: Annotated[str, typer.Argument(help="Words that name or description must hold.")],
    as_json: Json = False,
) -> None:
    """Search all catalogs that you added."""
    from warmline.registry import warmline_home

    from .catalogs import Added, all_added

    output = Output(as_json)
    added = [each for _, each in all_added(warmline_home()) if isinstance(each, Added)]
    _show(output, [(each, entry) for each in added for entry in each.catalog.search(text)])


@app.command("install")
def install(
    name: Annotated[str, typer.Argument(help="An entry, or backend/entry.", autocompletion=_entries)],
    catalog: Annotated[str | None, typer.Option(help="From this catalog alone.", autocompletion=_names)] = None,
    own: Annotated[
        bool, typer.Option("--own", help="As your own, not curated: digests that the catalog lacks are let pass.")
    ] = False,
    backend: BackendOption = None,
    as_json: Json = False,
) -> None:
    """Install an entry with all that it needs: a variant brings its base and adapters, each checked by digest."""
    from warmline.catalog import plan
    from warmline.catalog_install import install as carry_out
    from warmline.registry import Store, warmline_home
    from warmline.store import changes

    from . import catalogs
    from .amounts import bar, size

    output = Output(as_json)
    home = warmline_home()
    store = Store(home)
    added = catalogs.get(home, catalog) if catalog else catalogs.having(home, name)
    todo = plan(added.catalog, name, store, backend=backend, strict=not own)
    for need in todo.to_fetch:
        nbytes = f", {size(need.entry.size)}" if need.entry.size else ""
        output.note(cell(f"{need.entry.type} {need.entry.name}: {need.entry.source}{nbytes}", "dim"))
    with changes.typed_errors(home), bar(output, f"Bringing {name}") as progress:
        bringer = catalogs.Bringer(home, added, progress)
        try:
            records = carry_out(todo, store, bringer, bringer.certificate)
            bringer.close()
        finally:
            bringer.unlock()
    if as_json:
        output.json(_installed(todo, [f"{each.backend}/{each.name}" for each in records]))
        return
    for record in records:
        output.note(cell(f"Installed {record.backend}/{record.name}: {size(record.size)}, {record.trust}"))
    if todo.variant is not None:
        output.note(cell(f"Wrote the variant {todo.variant.backend}/{todo.variant.name}"))
    elif not records:
        output.note(cell("It was installed already."))


@app.command("remove")
def remove(name: _Catalog, as_json: Json = False) -> None:
    """Forget a catalog; what was installed from it stays, and stays labelled."""
    from warmline.registry import warmline_home

    from . import catalogs

    output = Output(as_json)
    catalogs.remove(warmline_home(), name)
    if as_json:
        output.json({"removed": name})
    else:
        output.note(cell(f"Removed {name}"))


def _added(added: Added) -> dict[str, Any]:
    return {
        "name": added.catalog.name,
        "description": added.catalog.description,
        "entries": len(added.catalog.entries),
        "location": added.location,
        "digest": added.digest,
        "added_at": added.added_at,
        "error": None,
    }


def _installed(todo: Plan, records: list[str]) -> dict[str, Any]:
    return {
        "catalog": todo.catalog,
        "installed": records,
        "present": [f"{need.entry.backend}/{need.entry.name}" for need in todo.needs if need.present],
        "variant": f"{todo.variant.backend}/{todo.variant.name}" if todo.variant else None,
    }


def _show(output: Output, found: list[tuple[Added, AnyEntry]]) -> None:
    from . import tables
    from .catalogs import kind_of

    here = _installed_standings()
    if output.as_json:
        rows = []
        for added, entry in found:
            data = entry.model_dump(mode="json", exclude_unset=True)
            names = {"catalog": added.catalog.name, "type": entry.type, "name": entry.name}
            rows.append(names | data | {"installed_certificate": here.get(_key(entry))})
        output.json(rows)
        return
    if not found:
        output.note(cell("Nothing is found."))
        return
    cells: list[list[tables.Cell]] = [
        [
            (entry.name, "bold"),
            kind_of(entry),
            entry.backend,
            _made_of(entry),
            "; here ".join(filter(None, ("given" if entry.certificate else "none", here.get(_key(entry))))),
            entry.licence,
            added.catalog.name,
            entry.description,
        ]
        for added, entry in found
    ]
    tables.rows(
        output, ("entry", "type", "backend", "made of", "certificate", "licence", "catalog", "description"), cells
    )


def _key(entry: AnyEntry) -> tuple[str, str, str]:
    return entry.type, entry.backend, entry.name


def _installed_standings() -> dict[tuple[str, str, str], str]:
    """Tell how each installed variant stands by its certificate; nothing where the store has none at all."""
    from warmline.registry import warmline_home

    from warmline_server.listing import list_rows
    from warmline_server.standing import certificates

    home = warmline_home()
    if certificates(home) is None:
        return {}
    return {("variant", row.found.backend, row.found.name): row.certificate for row in list_rows(home, None)}


def _made_of(entry: AnyEntry) -> str:
    from warmline.catalog import AdapterEntry, VariantEntry
    from warmline.identity import exact_decimal

    if isinstance(entry, VariantEntry):
        parts = " + ".join(f"{each.name}@{exact_decimal(each.scale)}" for each in entry.adapters)
        return f"{entry.base} -> {parts}" if parts else entry.base
    return f"for {entry.base.name}" if isinstance(entry, AdapterEntry) and entry.base.name else ""
