"""What is wrong with a workspace or variant file as it stands in the editor, saved or not, selected or not.

Only what can be told without hashing or loading anything; the rest shows when the variant is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from lsprotocol import types
from warmline.digests import open_regular
from warmline.errors import WarmlineError
from warmline.filemodel import parse
from warmline.registry import Store
from warmline.store.finding import check_says_its_name
from warmline.store.resolution import resolve_adapter, resolve_base
from warmline.variant import Overrides, VariantFile, WorkspaceFile

from ..paths import unreadable
from .diagnostics import FILE_OWNER, Fault, diagnostic
from .documents import Snapshot
from .own_files import OwnFile, own_file

if TYPE_CHECKING:
    from .session import Session

#: Code of the hint on an artifact that any bytes may stand in for.
UNPINNED: Final = "variant.unpinned"


def check(session: Session, uri: str) -> None:
    """Show what is wrong with a document, if it is one of our files; nothing when it is not open any more."""
    file = own_file(session.variants, uri)
    if file is None:
        return
    owner = f"{FILE_OWNER}{file.path}"
    snapshot = session.documents.get(uri)
    if snapshot is None:
        session.diagnostics.clear(owner)
    else:
        session.diagnostics.show(owner, [(file.path, item) for item in diagnosed(session, file, snapshot)])


def diagnosed(session: Session, file: OwnFile, snapshot: Snapshot) -> list[types.Diagnostic]:
    """Make the diagnostics of a file's text."""
    problems = _variant if file.variant is not None else _workspace
    items = []
    for error in problems(session.variants.store, file, snapshot.text):
        fault = Fault(file.path, error.field)
        item = diagnostic(error, fault, snapshot.encoding, file.root, snapshot.text)
        if error.code == UNPINNED:
            item.severity = types.DiagnosticSeverity.Hint
        items.append(item)
    return items


def _workspace(store: Store, file: OwnFile, text: str) -> Iterator[WarmlineError]:
    def found(chat: bool) -> None:
        selection = parse(text, WorkspaceFile, str(file.path))
        assert file.workspace is not None  # a variant's file of the store may have none, this is none
        store.resolve_selection(selection, file.workspace, chat=chat)

    # What is wrong in the variant's own file is shown there.
    seen: set[str] = set()
    for chat in (False, True):
        for error in _error(partial(found, chat), file):
            if error.file == str(file.path) and str(error) not in seen:  # what is wrong with both is one fault
                seen.add(str(error))
                yield error


def _variant(store: Store, file: OwnFile, text: str) -> Iterator[WarmlineError]:
    parsed: list[VariantFile] = []
    yield from _error(lambda: parsed.append(parse(text, VariantFile, str(file.path))), file)
    if not parsed:
        return
    [variant] = parsed
    found = file.found(file.path.parent.name if file.workspace is None else variant.backend)
    yield from _error(lambda: check_says_its_name(variant, found), file)

    def base() -> None:
        _there(resolve_base(variant.base, variant.backend, found, store.places).path, variant.backend)

    yield from _error(base, file, "base.path")
    if not variant.base.installed and variant.base.digest is None:
        yield _unpinned(file, "base")
    for index, spec in enumerate(variant.adapters):

        def adapter(index: int = index, spec: Any = spec) -> None:
            resolved = resolve_adapter(spec, index, variant.backend, Overrides(), found, store.places)
            _there(resolved.path, variant.backend)

        yield from _error(adapter, file, f"adapters[{index}].path")
        if spec.path is not None and spec.digest is None:
            yield _unpinned(file, f"adapters[{index}]")


def _there(path: Any, backend: str) -> None:
    if backend == "llama":  # for others a base may be a folder
        with open_regular(path):
            pass


def _unpinned(file: OwnFile, field: str) -> WarmlineError:
    return WarmlineError(
        "whatever lies at this path is taken: no digest is named",
        code=UNPINNED,
        file=str(file.path),
        field=field,
        remedy="Fill in its digest",
    )


def _error(question: Callable[[], object], file: OwnFile, field: str | None = None) -> Iterator[WarmlineError]:
    """Yield the error that a question ends in; with `field` it is about that, if it names another file."""
    try:
        question()
    except WarmlineError as error:
        if field is not None and error.file != str(file.path):
            error.field = field
        yield error
    except OSError as error:
        yield unreadable(error, file.path)
