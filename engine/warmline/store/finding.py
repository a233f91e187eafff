"""Where variant files are, and which of them a name means: a workspace's own come first, then the user's."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ..errors import ConfigError, StoreError, VariantError
from ..filemodel import BACKENDS, NAME_PATTERN
from ..variant import VariantFile, load_file
from ..workspace import WORKSPACE_FOLDER, Workspace
from .resolution import Found
from .shelf import check_name

VARIANTS: Final = "variants"
_NAME: Final = re.compile(NAME_PATTERN.removesuffix("$") + r"\Z")


def variant_files(home: Path, workspace: Workspace | None) -> list[Found]:
    """See `registry.Store.variants`."""
    found: dict[tuple[str, str], Found] = {}
    if workspace is not None:
        for path in _json_files(workspace.root / WORKSPACE_FOLDER / VARIANTS):
            backend = _backend_of(path)
            found.setdefault((backend, path.stem), Found(path.stem, backend, path, True))
    for backend in BACKENDS:
        for path in _json_files(home / VARIANTS / backend):
            found.setdefault((backend, path.stem), Found(path.stem, backend, path, False))
    return list(found.values())


def _json_files(folder: Path) -> list[Path]:
    # Names are sorted, not paths: comparing those takes as long as reading the files.
    try:
        return [folder / name for name in sorted(os.listdir(folder)) if name.endswith(".json")]
    except OSError:
        return []


def find_variant(home: Path, name: str, workspace: Workspace | None, asked_in: str | None) -> Found:
    """See `registry.Store.find`."""
    backend, _, plain = name.rpartition("/")
    fitting = [found for found in _named(home, plain, workspace) if backend in ("", found.backend)]
    if fitting:
        return fitting[0] if len(fitting) == 1 else _preferred(home, fitting)
    known = variant_files(home, workspace)
    for found in known:
        if found.name == plain and backend in ("", found.backend):
            check_file_name(found)  # a file of this very name, which nothing can ask for
    names = [found.name for found in known if _NAME.match(found.name)]
    near = difflib.get_close_matches(plain, names, n=3)
    if near:
        remedy = f"Did you mean `{near[0]}`?"
    elif names:
        remedy = f"Known variants: {', '.join(sorted(set(names)))}"
    else:
        remedy = f"Write {home / VARIANTS / (backend or 'llama') / (plain + '.json')}"
    raise VariantError(
        f"there is no variant called `{name}`",
        code="variant.unknown",
        file=asked_in,
        field="variant" if asked_in else None,
        remedy=remedy,
    )


def _named(home: Path, plain: str, workspace: Workspace | None) -> Iterator[Found]:
    """Yield the files of a name, in the order of `variant_files`, without looking at any other: a keystroke asks."""
    if not _NAME.match(plain):
        return
    entry = plain + ".json"
    if workspace is not None:
        path = workspace.root / WORKSPACE_FOLDER / VARIANTS / entry
        if os.path.lexists(path):
            yield Found(plain, _backend_of(path), path, True)
    for backend in BACKENDS:
        path = home / VARIANTS / backend / entry
        if os.path.lexists(path):
            yield Found(plain, backend, path, False)


def _preferred(home: Path, fitting: list[Found]) -> Found:
    """Of several with one name: the workspace's own, else that of the backend that the user prefers."""
    from ..settings import usable_settings

    wanted = usable_settings(home).backend
    return next((found for found in fitting if found.workspace or found.backend == wanted), fitting[0])


def check_file_name(found: Found) -> None:
    """A variant's file is called as variants may be called.

    Raises
    ------
    StoreError
        ``store.name``; ``store.name_case`` where another file has the name but for capitals.
    """
    try:
        check_name(found.name)
    except StoreError as error:
        entry = found.path.name
        same = (name for name in os.listdir(found.path.parent) if name.casefold() == entry.casefold() and name != entry)
        other = next(same, None)
        if other is None:
            error.file = str(found.path)
            raise
        raise StoreError(
            f"`{entry}` differs only in capitals from `{other}`, which is there too",
            code="store.name_case",
            file=str(found.path),
            remedy="Rename or remove one of the two",
        ) from None


def check_says_its_name(file: VariantFile, found: Found) -> None:
    """A file's name and folder are what it says of itself: ``config.field`` otherwise."""
    for field, said, place in (("name", file.name, found.path.stem), ("backend", file.backend, found.backend)):
        if said != place:
            raise ConfigError(
                f"the file's {'name' if field == 'name' else 'folder'} says `{place}`",
                code="config.field",
                file=str(found.path),
                field=field,
                remedy="Rename or move the file, or correct the field",
            )


def _backend_of(path: Path) -> str:
    # A broken file is still listed, under the default backend: resolving it then says what is wrong with it.
    try:
        return load_file(path, VariantFile).backend
    except ConfigError:
        return "llama"
