"""Errors as diagnostics: on the workspace or variant file, at the field that is to be mended.

Where that is a variant's file, the workspace file that selects the variant gets one too, which points there: the
variant's file is rarely open.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lsprotocol import types
from warmline.errors import WarmlineError
from warmline.variant import ResolvedVariant

from ..characters import as_message
from ..paths import short_paths
from . import uris
from .documents import DocumentStore
from .initialize import Client
from .json_location import Span, locate, locate_duplicate, locate_key, syntax_error
from .own_files import text_on_disk
from .variants import Place

#: Begins the names of owners that are files, not places; see `DiagnosticsBoard.show`.
FILE_OWNER = "file:"

#: Codes of failures of the engine itself, which no change of a variant or of what selects it would mend.
ENGINES_OWN: Final = frozenset(
    {"internal"}
    | {
        f"backend.{what}"
        for what in (
            "cancelled",
            "closed",
            "crashed",
            "failed",
            "host_missing",
            "host_protocol",
            "host_running",
            "host_start",
            "import",
            "internal",
            "message",
            "message_size",
            "preempted",
            "protocol",
            "runtime_folder",
            "stopping",
            "superseded",
        )
    }
)


@dataclass(frozen=True, slots=True)
class Fault:
    """The file and the field that a person has to look at."""

    path: Path
    field: str | None


def blame(error: WarmlineError, place: Place, variant: ResolvedVariant | None) -> Fault | None:
    """Find the file and field that an error is about; None where it is about none, as a failure of the engine's own.

    An error about a model or adapter file lands on the field of the variant file that names it: nobody opens a GGUF to
    read what is wrong with it. An error that names no file lands where the variant is selected.
    """
    if error.code in ENGINES_OWN:
        return None
    selected_in = place.workspace.file if place.workspace else None
    if error.file is None:
        if variant is not None and error.field is not None:
            return Fault(Path(variant.file), error.field)
        return _selection(selected_in, variant)
    file = Path(error.file)
    if variant is not None and not _same(file, Path(variant.file)):
        digest = error.code.endswith(".digest")
        names = [(variant.base.path, "base")]
        names += [(adapter.path, f"adapters[{index}]") for index, adapter in enumerate(variant.adapters)]
        for path, field in names:
            if _same(path, file):
                return Fault(Path(variant.file), f"{field}.digest" if digest else f"{field}.path")
    if file.suffix == ".json":
        return Fault(file, error.field)
    return _selection(selected_in, variant)


def _selection(selected_in: Path | None, variant: ResolvedVariant | None) -> Fault | None:
    if selected_in is not None:
        return Fault(selected_in, "variant")
    return Fault(Path(variant.file), None) if variant is not None else None


def _same(one: Path, other: Path) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)


def diagnose(
    error: WarmlineError, place: Place, variant: ResolvedVariant | None, client: Client
) -> list[tuple[Path, types.Diagnostic]]:
    """Make all diagnostics of an error, each with its file."""
    fault = blame(error, place, variant)
    if fault is None:
        return []
    root = place.workspace.root if place.workspace else None
    found = diagnostic(error, fault, client.encoding, root)
    selected_in = place.workspace.file if place.workspace else None
    if selected_in is None or _same(fault.path, selected_in):
        return [(fault.path, found)]
    selection = diagnostic(error, Fault(selected_in, "variant"), client.encoding, root)
    if client.related_information:
        there = types.Location(uris.to_uri(fault.path), found.range)
        selection.related_information = [types.DiagnosticRelatedInformation(there, found.message)]
    return [(fault.path, found), (selected_in, selection)]


def diagnostic(
    error: WarmlineError, fault: Fault, encoding: str, root: Path | None = None, text: str | None = None
) -> types.Diagnostic:
    """Make the diagnostic, with a range in the file's text; paths are shown from `root` on.

    Parameters
    ----------
    text
        The file's text; None for what is on disk now.
    """
    message = f"{error.message}. {error.remedy}" if error.remedy else error.message
    if error.file is not None and not _same(Path(error.file), fault.path):
        message = f"{error.file}: {message}"
    return types.Diagnostic(
        range=_range(text_on_disk(fault.path) if text is None else text, error, fault.field, encoding),
        message=as_message(short_paths(message, root)),
        severity=types.DiagnosticSeverity.Error,
        code=error.code,
        source="warmline",
        data={"field": fault.field},
    )


def _range(text: str, error: WarmlineError, field: str | None, encoding: str) -> types.Range:
    span = _span(text, error.code, field) or Span(0, 0)
    # A document of its own, since positions follow LSP's line rules and the session's encoding.
    document = DocumentStore(encoding).open("", "json", 0, text)
    return types.Range(document.position_at(span.start), document.position_at(span.end))


def _span(text: str, code: str, field: str | None) -> Span | None:
    if code == "config.json":
        return (locate_duplicate(text, field) if field else None) or syntax_error(text)
    if code == "config.unknown_field":
        return locate_key(text, field or "")
    return locate(text, field or "")


class DiagnosticsBoard:
    """What is published, so that it can be taken back; several places may blame one file.

    Parameters
    ----------
    publish
        Sends the diagnostics of a file, an empty list to clear it.
    """

    def __init__(self, publish: Callable[[Path, list[types.Diagnostic]], None]) -> None:
        self._publish = publish
        self._shown: dict[str, list[tuple[Path, types.Diagnostic]]] = {}

    def show(self, owner: str, items: list[tuple[Path, types.Diagnostic]]) -> None:
        """Show a place's error, in place of the one it had."""
        before = self._shown.get(owner, [])
        if before == items:
            return
        self._shown[owner] = items
        for path in dict.fromkeys(path for path, _ in [*before, *items]):
            if [item for where, item in before if where == path] != [item for where, item in items if where == path]:
                self._send(path)

    def clear(self, owner: str) -> None:
        """Take a place's error back, if it has one."""
        if owner in self._shown:
            self.show(owner, [])
            del self._shown[owner]

    def items(self, path: Path) -> list[types.Diagnostic]:
        """Give what is shown of a file.

        What a file's own text says comes first, and counts where a place says the same of what is on disk.
        """
        owners = sorted(self._shown, key=lambda owner: not owner.startswith(FILE_OWNER))
        items: list[types.Diagnostic] = []
        said: set[tuple[object, str]] = set()
        for owner in owners:
            new = [
                item for where, item in self._shown[owner] if where == path and (item.code, item.message) not in said
            ]
            said |= {(item.code, item.message) for item in new}
            items += new
        return items

    def _send(self, path: Path) -> None:
        self._publish(path, self.items(path))
