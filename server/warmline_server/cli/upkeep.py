"""What `model` and `adapter` do alike: remove and verify an artifact."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import typer

from .output import Exit, Output, cell

if TYPE_CHECKING:
    from warmline.filemodel import Backend
    from warmline.registry import Verification

Kind = Literal["model", "adapter"]


def remove(kind: Kind, name: str, backend: Backend | None, *, as_json: bool) -> None:
    """Remove an artifact, unless a variant needs it; raises `StoreError`."""
    from warmline.registry import Store, warmline_home

    output = Output(as_json)
    store = Store(warmline_home())
    if kind == "model":
        found, plain = store.places.models.find(name, backend)
        store.remove_model(plain, found)
    else:
        found, plain = store.places.adapters.find(name, backend)
        store.remove_adapter(plain, found)
    if as_json:
        output.json({"removed": f"{found}/{plain}"})
    else:
        output.note(cell(f"Removed {found}/{plain}"))


def verify(kind: Kind, name: str, backend: Backend | None, *, as_json: bool) -> None:
    """Hash an artifact afresh and say whether it is whole; exit code 1 where it is not."""
    from warmline.registry import Store, warmline_home

    from .amounts import bar

    output = Output(as_json)
    store = Store(warmline_home())
    with bar(output, f"Hashing {name}") as progress:
        check = store.verify_model if kind == "model" else store.verify_adapter
        found = check(name, backend, progress)
    _say(output, found)


def _say(output: Output, found: Verification) -> None:
    if output.as_json:
        output.json(
            {
                "name": found.name,
                "backend": found.backend,
                "ok": found.ok,
                "path": str(found.path) if found.path else None,
                "expected": found.expected,
                "found": found.found,
                "error": found.error.to_dict() if found.error else None,
            }
        )
        if not found.ok:
            raise typer.Exit(Exit.ERROR)
    elif found.error is not None:
        raise found.error
    else:
        output.note(cell(f"{found.backend}/{found.name} is whole: {found.found}"))
