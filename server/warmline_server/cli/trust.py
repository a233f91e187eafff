"""`warmline trust`: approve, by digest, what a workspace brings."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from warmline_server.paths import short_path

from .options import approved_digests, variant_names
from .output import Output, cell

if TYPE_CHECKING:
    from warmline.trust import TrustStore

    from warmline_server.approval import Artifact

app = typer.Typer(help="Approve, by digest, the models and adapters that a workspace brings.")

_JSON = Annotated[bool, typer.Option("--json", help="JSON for programs.")]


@app.callback()
def group() -> None:
    """Approve, by digest, the models and adapters that a workspace brings."""


@app.command("list")
def list_approvals(as_json: _JSON = False) -> None:
    """List what you have approved."""
    output = Output(as_json)
    entries = _store().entries()
    if as_json:
        output.json([{"digest": digest, **entry} for digest, entry in sorted(entries.items())])
        return
    if not entries:
        output.note(cell("Nothing is approved yet. In a workspace: warmline trust add --workspace"))
        return
    from warmline_server.approval import Artifact

    _show(output, [Artifact(e.get("name", ""), digest, e.get("file", "")) for digest, e in sorted(entries.items())])


@app.command("add")
def add(
    target: Annotated[
        str | None, typer.Argument(metavar="[DIGEST|FILE]", help="A digest or file; with --workspace a folder in it.")
    ] = None,
    workspace: Annotated[bool, typer.Option("--workspace", help="What the workspace's variants bring.")] = False,
    variant: Annotated[
        str | None,
        typer.Option(help="With --workspace: what this variant alone brings.", autocompletion=variant_names),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask on a terminal.")] = False,
    as_json: _JSON = False,
) -> None:
    """Approve a digest, a file's bytes, or all that a workspace's variants bring; shows the digests first."""
    output = Output(as_json)
    if workspace:
        artifacts = _brought(output, Path(target or "."), variant)
    elif target is None:
        raise typer.BadParameter("name a digest or a file, or pass --workspace")
    else:
        artifacts = [_artifact(target)]
    if not as_json and artifacts:
        _show(output, artifacts)
        if workspace and not yes and sys.stdin.isatty():
            typer.confirm("Approve these bytes to be loaded?", abort=True, err=True)
    store = _store()
    for artifact in artifacts:
        store.add(artifact.digest, name=artifact.name, file=artifact.file)
    if as_json:
        output.json([{"digest": each.digest, "name": each.name, "file": each.file} for each in artifacts])
    else:
        output.note(cell("Approved." if artifacts else "Nothing is brought that needs approval."))


@app.command("remove")
def remove(
    target: Annotated[
        str,
        typer.Argument(
            metavar="DIGEST|FILE", help="A digest, its first digits, or a file.", autocompletion=approved_digests
        ),
    ],
    as_json: _JSON = False,
) -> None:
    """Take an approval back: no workspace uses these bytes then. What you installed stays, and is told."""
    from warmline.errors import TrustError
    from warmline.registry import Store, warmline_home

    from warmline_server.approval import installed_as

    output = Output(as_json)
    store = _store()
    digests = [digest for digest in store.entries() if _begins(digest, target)] or [_artifact(target).digest]
    if len(digests) > 1:
        raise TrustError(
            f"{len(digests)} approved digests begin with {target!r}",
            code="trust.ambiguous",
            remedy="Give more digits; warmline trust list shows them",
        )
    if not store.remove(digests[0]):
        raise TrustError(
            "this digest was not approved", code="trust.unknown", remedy="See what is: warmline trust list"
        )
    there = installed_as(Store(warmline_home()), lambda digest: digest == digests[0])
    if as_json:
        rows = [
            {"kind": each.kind, "name": each.name, "backend": each.backend, "variants": list(each.variants)}
            for each in there
        ]
        output.json({"removed": digests[0], "installed": rows})
        return
    output.note(cell(f"Removed {digests[0]}"))
    for each in there:
        output.note(
            cell(f"Still installed: {each.used}. Installing it was your choice; only workspaces ask.", "yellow")
        )
        output.note(cell(f"To be rid of it: {each.removal}", "dim"))


def _store() -> TrustStore:
    from warmline.registry import warmline_home
    from warmline.trust import TrustStore

    return TrustStore(warmline_home() / "trust.json")


def _begins(digest: str, target: str) -> bool:
    digits = target.removeprefix("sha256:")
    return len(digits) >= 6 and digest.removeprefix("sha256:").startswith(digits)


def _artifact(target: str) -> Artifact:
    """Name what a digest or a file on the command line means."""
    from warmline.digests import DigestCache, is_digest

    from warmline_server.approval import Artifact

    if is_digest(target):
        return Artifact("", target, "")
    path = Path(target).absolute()
    return Artifact(path.parent.name if path.stem == "adapter" else path.stem, DigestCache().digest(path), str(path))


def _brought(output: Output, folder: Path, variant: str | None) -> list[Artifact]:
    """List what the variant takes from the workspace, without a name what all of the workspace's own take.

    Errors are as in `approval.brought` for the variant that is named or selected; another that cannot be used is left
    out, and told.
    """
    from warmline.errors import WarmlineError
    from warmline.registry import Store, warmline_home

    from warmline_server.approval import brought

    from .selection import select

    selection = select(folder, variant)
    artifacts = brought(selection.variant)
    if variant is None and selection.workspace is not None:
        store = Store(warmline_home())
        others = (one for one in store.variants(selection.workspace) if one.workspace)
        for found in (one for one in others if str(one.path) != selection.variant.file):
            try:
                artifacts += brought(store.resolve(f"{found.backend}/{found.name}", selection.workspace))
            except WarmlineError as error:
                output.note(cell(f"Left out: variant {found.name}: {error.message}", "yellow"))
    return list({artifact.digest: artifact for artifact in artifacts}.values())


def _show(output: Output, artifacts: list[Artifact]) -> None:
    from . import tables

    here = Path.cwd()
    rows = [(each.digest, each.name, short_path(each.file, here) if each.file else "") for each in artifacts]
    tables.rows(output, ("digest", "name", "file"), rows)
