"""`warmline model pull`: fetch a base from a Hugging Face hub, and install it."""

from __future__ import annotations

import os
import shutil
from typing import Annotated

import typer

from .options import BackendOption, Json
from .output import Output, cell


def command(
    reference: Annotated[str, typer.Argument(metavar="REPO[:FILE]", help="A repository, and a GGUF file in it.")],
    name: Annotated[str | None, typer.Option(help="What to call it; else what the file is called.")] = None,
    revision: Annotated[str | None, typer.Option(help="A branch, tag or commit; else the newest.")] = None,
    digest: Annotated[str | None, typer.Option(help="Refuse any other bytes (sha256:...).")] = None,
    backend: BackendOption = None,
    as_json: Json = False,
) -> None:
    """Fetch a GGUF file or an OpenVINO folder from a hub into the store; goes on where it stopped.

    The hub is the one that HF_ENDPOINT names. What arrives is compared with the digests that the hub states.
    """
    from warmline.digests import is_digest
    from warmline.filemodel import Backend
    from warmline.registry import Store, warmline_home
    from warmline.settings import load_settings
    from warmline.store import changes
    from warmline.store.shelf import check_free, check_name, inside

    from . import hub
    from .amounts import bar, size
    from .model import installed

    output = Output(as_json)
    if digest is not None and not is_digest(digest):
        raise typer.BadParameter("a digest is sha256: and 64 hex digits", param_hint="--digest")
    home = warmline_home()
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")  # before the library is imported
    with output.working(f"Asking for {reference}"):
        offer = hub.look(reference, revision, backend)
    if digest is not None and offer.folder:
        raise typer.BadParameter("a folder has no digest of this kind", param_hint="--digest")
    name = check_name(name or offer.name)
    kind: Backend = "openvino" if offer.folder else "llama"
    check_free(inside(home, "models", kind), name, f"a model `{kind}/{name}`")  # before anything is fetched
    output.note(cell(f"{offer.origin}: {size(offer.size)}", "dim"))
    folder = load_settings(home).downloads(home) / f"{offer.repo.replace('/', '--')}-{offer.commit[:12]}"
    with changes.typed_errors(home):
        with bar(output, f"Fetching {offer.repo}") as progress:
            path = hub.fetch(offer, folder, progress, {offer.files[0].name: digest} if digest else None)
        if offer.folder:
            shutil.rmtree(folder / ".cache", ignore_errors=True)
        with bar(output, f"Installing {name}") as progress:
            record = Store(home).add_model(
                path, name, kind, copy=True, origin=offer.origin, licence=offer.licence, progress=progress
            )
        shutil.rmtree(folder, ignore_errors=True)
    installed(output, record)
