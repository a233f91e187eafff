"""`warmline variant`: what can be selected, what it is made of, and what tells two of them apart."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .options import BackendOption, Json, adapter_names, model_names, own_variant_names, variant_names
from .output import Output, cell

if TYPE_CHECKING:
    from warmline.capacity import Capacity
    from warmline.registry import Store
    from warmline.variant import Profile
    from warmline.workspace import Workspace

    from warmline_server.file_state import FileState

    from .tables import Cell

app = typer.Typer(help="Variants: a base, adapters and a profile under one name.")
_Folder = Annotated[Path, typer.Option("--in", help="A file or folder of the workspace.")]


@app.callback()
def group() -> None:
    """Variants: a base, adapters and a profile under one name."""


@app.command("add")
def add(
    name: Annotated[str, typer.Argument(help="What to call it.")],
    base: Annotated[str, typer.Option(help="An installed base.", autocompletion=model_names)],
    adapter: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[@SCALE]", help="An installed adapter; may be repeated.", autocompletion=adapter_names
        ),
    ] = None,
    profile_file: Annotated[Path | None, typer.Option(help="A JSON file with the profile's fields.")] = None,
    description: Annotated[str, typer.Option(help="One line for whoever chooses.")] = "",
    replace: Annotated[bool, typer.Option("--replace", help="Write over a variant of this name.")] = False,
    backend: BackendOption = None,
    as_json: Json = False,
) -> None:
    """Define a variant of installed parts; nothing is copied or loaded."""
    from warmline.filemodel import BACKENDS
    from warmline.registry import Store, warmline_home
    from warmline.variant import VariantFile, parse

    from .bases import find_base

    output = Output(as_json)
    store = Store(warmline_home())
    (found, plain), preferred = find_base(store, base, backend)
    # Through the file's own model, so that what is refused in a file is refused here, by the same words.
    fields: dict[str, Any] = {"name": name, "backend": found, "base": {"name": plain}}
    if adapter:
        fields["adapters"] = [_spec(text) for text in adapter]
    if description:
        fields["description"] = description
    variant = parse(_json(fields), VariantFile, f"variant {name}")
    if profile_file is not None:
        variant = VariantFile.model_validate(
            variant.model_dump(exclude_unset=True) | {"profile": _profile(profile_file)}
        )
    path = store.add_variant(variant, replace=replace)
    if as_json:
        output.json({"name": name, "backend": found, "file": str(path)})
        return
    output.note(cell(f"Wrote {path}"))
    if preferred:
        others = " or ".join(f"{each}/{plain}" for each in BACKENDS if each != found)
        output.note(cell(f"On {found}/{plain}, as the setting `backend` prefers; for the other: --base {others}"))
    output.note(cell(f"Next: warmline config set default-variant {name}, or name it in .warmline/config.json", "dim"))


def _spec(text: str) -> dict[str, Any]:
    name, at, scale = text.partition("@")
    return {"name": name, "scale": scale} if at else {"name": name}


def _json(fields: dict[str, Any]) -> str:
    import json

    return json.dumps(fields)


def _profile(file: Path) -> Profile:
    from warmline.variant import FileModel, Profile, load_file

    class ProfileFile(FileModel, Profile):
        """A profile in a file of its own."""

    read = load_file(file, ProfileFile)
    return Profile.model_validate(read.model_dump(exclude_unset=True, exclude={"json_schema"}))


@app.command("list")
def list_variants(
    path: Annotated[Path, typer.Argument(help="A file or folder of the workspace.")] = Path("."), as_json: Json = False
) -> None:
    """List the variants of the workspace at PATH and of the user's store, with what they are made of."""
    from warmline.home import warmline_home
    from warmline.workspace import find_workspace

    from . import kept_list, tables

    output = Output(as_json)
    home, workspace = warmline_home(), find_workspace(path)
    key = kept_list.key_of(home) if workspace is None else None
    listed = kept_list.load(home, key) if key else None
    if listed is None:
        listed = _list(home, workspace, key)
    if as_json:
        output.json([each["json"] for each in listed])
        return
    if not listed:
        from warmline.registry import Store

        from .selection import first_steps

        output.note(cell(f"No variants yet: {first_steps(Store(home))}"))
        return
    headers = ("", "variant", "base -> adapters@scale", "kind", "trust", "certificate", "backend", "from")
    tables.rows(output, headers, [[_cell(each) for each in one["cells"]] for one in listed])
    for one in listed:
        if one["overridden"]:
            output.note(cell(f"{one['json']['name']}: {one['overridden']}, by .warmline/config.json", "dim"))


def _list(home: Path, workspace: Workspace | None, key: str | None) -> list[dict[str, Any]]:
    """List variants: of each what programs get, its cells, and what the workspace changes of it; keep it by a key."""
    from warmline_server.listing import list_rows

    from . import kept_list

    weights: dict[str, FileState] = {}
    rows = list_rows(home, workspace, weights)
    listed = [{"json": row.as_json(), "cells": row.cells(), "overridden": row.overridden} for row in rows]
    # A package that is not there leaves no path to look at.
    if key and listed and not any(row.error and row.error.code == "config.package" for row in rows):
        kept_list.keep(home, key, listed, weights)
    return listed


def _cell(kept: Any) -> Cell:
    return kept if isinstance(kept, str) else (kept[0], kept[1])


@app.command("show")
def show(
    name: Annotated[str, typer.Argument(help="Its name, or backend/name.", autocompletion=variant_names)],
    folder: _Folder = Path("."),
    as_json: Json = False,
) -> None:
    """Verify a variant's files and show what would answer: identity, parts, profile and what fits into memory."""
    from warmline.registry import warmline_home
    from warmline.trust import TrustStore

    from warmline_server.approval import taken_back
    from warmline_server.standing import standing

    from . import provenance, tables
    from .selection import select
    from .verifying import verified

    output = Output(as_json)
    selection = select(folder, name)
    approved = TrustStore(warmline_home() / "trust.json").approved
    loose = taken_back(selection.variant, approved)
    with output.working(f"Verifying {name}"):
        found = verified(output, selection.variant)
    status = found.status()
    certificate = standing(warmline_home(), status, selection.variant.profile)
    profile = selection.variant.profile.model_dump(mode="json", exclude_unset=True)
    if as_json:
        more = {"file": selection.variant.file, "profile": profile, "certificate": certificate, "taken_back": loose}
        output.json(provenance.as_json(status) | more)
        return
    import json

    output.table(provenance.table([status]), cell(""))
    context = f"{status.context.n_ctx} tokens" + (" (clamped)" if status.context.clamped else "")
    tables.facts(
        output,
        {
            "identity": status.identity,
            "base": status.base.digest,
            **{f"adapter {each.name}": each.digest for each in status.adapters},
            "merged from": status.base.merged_from or "",
            "certificate": certificate,
            "approval": f"taken back, and still installed: {', '.join(loose)}" if loose else "",
            "backend": f"{status.backend.name} {status.backend.version}",
            "context": context,
            **(_memory(status.capacity) if status.capacity else {}),
            "FIM": status.fim,
            "template": status.template,
            "BOS": status.bos,
            "profile": json.dumps(profile) if profile else "defaults",
            "file": selection.variant.file,
        },
    )


def _memory(capacity: Capacity) -> dict[str, str]:
    """Say what a variant takes, and what context would fit, before and after its adapters."""
    from .amounts import size

    weights = f"{size(capacity.base_bytes)} base, {size(capacity.adapter_bytes)} adapters"
    if capacity.kv_bytes is None or capacity.kv_bytes_per_token is None:
        return {"weights": weights, "KV": capacity.note}
    found = {
        "weights": weights,
        "KV": f"{size(capacity.kv_bytes)} ({size(capacity.kv_bytes_per_token)} a token)",
    }
    if capacity.budget_bytes is not None:
        fits = f"{capacity.fits_before} tokens, {capacity.fits_after} with the adapters"
        found["fits"] = f"{fits}, in {size(capacity.budget_bytes)}" + ("" if capacity.fits else "; this does not")
    return found


@app.command("remove")
def remove(
    name: Annotated[str, typer.Argument(help="Its name, or backend/name.", autocompletion=own_variant_names)],
    backend: BackendOption = None,
    as_json: Json = False,
) -> None:
    """Remove a variant of the store; its base and adapters stay. Was it the default, there is no default any more."""
    from warmline.registry import Store, warmline_home

    output = Output(as_json)
    store = Store(warmline_home())
    store.remove_variant(name, backend)
    default = _unset_default(store, name)
    if as_json:
        output.json({"removed": name, "default_unset": default is not None})
        return
    output.note(cell(f"Removed {name}"))
    if default is not None:
        message = f"It was the default variant; that setting (`{default}`) is unset now"
        output.note(cell(f"{message}. Another: warmline config set default-variant NAME", "yellow"))


def _unset_default(store: Store, removed: str) -> str | None:
    """Unset the default variant where it has just been removed, and return what it was; else None."""
    from warmline.errors import VariantError
    from warmline.settings import change_setting, usable_settings

    default = usable_settings(store.home).default_variant
    if default is None or default.rpartition("/")[2] != removed.rpartition("/")[2]:
        return None
    try:
        store.find(default)  # of this name on the other backend
    except VariantError:
        change_setting(store.home, "default-variant", None)
        return default
    return None


@app.command("diff")
def diff(
    a: Annotated[str, typer.Argument(help="A variant.", autocompletion=variant_names)],
    b: Annotated[str, typer.Argument(help="Another.", autocompletion=variant_names)],
    folder: _Folder = Path("."),
    as_json: Json = False,
) -> None:
    """Say which fields of identity differ between two variants: while one does, they share no KV."""
    from warmline.digests import short
    from warmline.identity import differences

    from . import tables
    from .selection import select
    from .verifying import verified

    output = Output(as_json)
    with output.working(f"Verifying {a} and {b}"):
        one, other = (verified(output, select(folder, name).variant).identity for name in (a, b))
    found = differences(one.fields(), other.fields())
    if as_json:
        names = {"a": {"variant": a, "identity": one.digest}, "b": {"variant": b, "identity": other.digest}}
        rows = [{"field": each.field, "a": each.one, "b": each.other} for each in found]
        output.json(names | {"same": not found, "fields": rows})
    elif found:
        cells = [[each.field, _value(each.one), _value(each.other)] for each in found]
        tables.rows(output, ("field", f"{a} {short(one.digest)}", f"{b} {short(other.digest)}"), cells)
    else:
        output.note(cell(f"{a} and {b} are the same identity {short(one.digest)}: they share KV"))


def _value(value: str | None) -> str:
    from warmline.digests import is_digest, short

    if value is None:
        return "-"
    return short(value) if is_digest(value) else value
