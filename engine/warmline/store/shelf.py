"""Where the store keeps its records: ``models/<backend>/<name>/record.json``, ``adapters/...``, ``variants/...``."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Generic, Literal, TypeVar

from ..errors import ConfigError, StoreError, WarmlineError
from ..filemodel import BACKENDS, NAME_PATTERN, RESERVED_NAMES, Backend, FileModel, load_file
from .records import Record

RECORD_FILE: Final = "record.json"
_NAME: Final = re.compile(NAME_PATTERN.removesuffix("$") + r"\Z")

R = TypeVar("R", bound=Record)
F = TypeVar("F", bound=FileModel)


@dataclass(frozen=True, slots=True)
class Listed(Generic[F]):
    """One entry of a list: what its file says, or why it cannot be read. Exactly one of `record` and `error` is set."""

    name: str
    backend: Backend
    path: Path
    record: F | None
    error: WarmlineError | None = None


def check_name(name: str) -> str:
    """Return a name that may become a path.

    Raises
    ------
    StoreError
        ``store.name``: not `NAME_PATTERN`, or a name that Windows keeps for itself.
    """
    if not _NAME.match(name) or name.partition(".")[0] in RESERVED_NAMES or name.endswith("."):
        raise StoreError(
            f"this name cannot be used: {name[:80]!r}",
            code="store.name",
            remedy="Use 1 to 64 of a-z 0-9 . _ - with a letter or digit first, and no name of a Windows device",
        )
    return name


def inside(home: Path, *parts: str) -> Path:
    """Return a path in the store through which no link leads out of it: ``store.link`` where one stands on the way."""
    path = os.fspath(home)
    for part in parts:
        path = os.path.join(path, part)
        if os.path.islink(path):
            raise StoreError(
                "a link stands in the store, and links are not followed there",
                code="store.link",
                file=path,
                remedy="Remove the link and install what it leads to",
            )
    return Path(path)


def check_free(folder: Path, entry: str, what: str, instead: str = "Remove it first") -> None:
    """Refuse a name that is taken, also by one that differs only in capitals: some file systems take both for one.

    `what` has that name, with its article; `instead` is what a person may do about the one that is there.
    """
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return
    for found in names:
        if found == entry:
            message = f"there is already {what}"
            remedy = f"{instead}, or choose another name"
            raise StoreError(message, code="store.exists", file=str(folder / found), remedy=remedy)
        if found.casefold() == entry.casefold():
            message = f"`{found}` is there, and differs only in capitals"
            remedy = "Remove that first, or choose another name"
            raise StoreError(message, code="store.name_case", file=str(folder / found), remedy=remedy)


@dataclass(frozen=True, slots=True)
class Shelf(Generic[R]):
    """The records of one kind."""

    home: Path
    kind: Literal["model", "adapter"]
    form: type[R]

    def folder(self, backend: str, name: str) -> Path:
        """Return an artifact's folder, which need not exist; see `check_name` and `inside`."""
        return inside(self.home, self.kind + "s", backend, check_name(name))

    def get(self, name: str, backend: Backend | None = None) -> R:
        """Return the record called `name` or ``backend/name``.

        Raises
        ------
        StoreError
            ``store.unknown_model`` or ``store.unknown_adapter`` with the nearest names; ``store.ambiguous`` where two
            backends have the name and none was given; ``store.record`` for a record under another name than its own.
        ConfigError
            For a record that cannot be read.
        """
        found, plain = self.find(name, backend)
        return self.read(found, plain)

    def find(self, name: str, backend: Backend | None = None) -> tuple[Backend, str]:
        """Return backend and plain name of an artifact that is there; errors as in `get`."""
        given, _, plain = name.rpartition("/")
        check_name(plain)
        among = [each for each in BACKENDS if each == (given or backend or each)]
        found = [each for each in among if (self.folder(each, plain) / RECORD_FILE).exists()]
        if len(found) == 1:
            return found[0], plain
        if found:
            exact = " or ".join(f"`{each}/{plain}`" for each in found)
            message = f"there is more than one {self.kind} called `{plain}`"
            raise StoreError(message, code="store.ambiguous", remedy=f"Say which: {exact}")
        raise self._unknown(name, among)

    def read(self, backend: Backend, name: str) -> R:
        """Return the record of an artifact that is there."""
        path = inside(self.home, self.kind + "s", backend, check_name(name), RECORD_FILE)
        record = load_file(path, self.form)
        if (record.name, record.backend) != (name, backend):
            raise StoreError(
                f"the record says it is `{record.backend}/{record.name}`",
                code="store.record",
                file=str(path),
                remedy=f"Remove the {self.kind} and install it again",
            )
        return record

    def all(self, backend: Backend | None = None) -> list[Listed[R]]:
        """List all records, sorted by backend and name; a broken one is in the list, with what is wrong with it."""
        found = []
        for each, name in self.names(backend):
            path = self.home / (self.kind + "s") / each / name / RECORD_FILE
            try:
                found.append(Listed(name, each, path, self.read(each, name)))
            except WarmlineError as error:
                found.append(Listed(name, each, path, None, error))
        return found

    def names(self, backend: Backend | None = None) -> Iterator[tuple[Backend, str]]:
        """Yield backend and name of everything that is there; names that could not be asked for are left out."""
        for each in BACKENDS if backend is None else (backend,):
            for name in _names(self.home / (self.kind + "s") / each):
                if _NAME.match(name) and (self.home / (self.kind + "s") / each / name / RECORD_FILE).exists():
                    yield each, name

    def _unknown(self, name: str, among: list[Backend]) -> StoreError:
        known = [found for backend in among for _, found in self.names(backend)]
        near = difflib.get_close_matches(name.rpartition("/")[2], known, n=1)
        others = [each for each in BACKENDS if (each, name.rpartition("/")[2]) in set(self.names())]
        if others and among:  # so it was asked for on another backend
            remedy = (
                f"`{others[0]}/{name.rpartition('/')[2]}` is there; install it for `{among[0]}` as well, or use that"
            )
        elif near:
            remedy = f"Did you mean `{near[0]}`?"
        elif known:
            remedy = f"Known {self.kind}s: {', '.join(sorted(set(known))[:20])}"
        else:
            remedy = f"Install it: warmline {self.kind} add FILE --name {name.rpartition('/')[2]}"
        on = "" if len(among) != 1 else f" for the backend `{among[0]}`"
        message = f"there is no {self.kind} called `{name}`{on}"
        return StoreError(message, code=f"store.unknown_{self.kind}", field="name", remedy=remedy)


def _names(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []


def list_files(home: Path, form: Callable[[Path], F], backend: Backend | None = None) -> list[Listed[F]]:
    """List the variant files of a store as `Shelf.all` does; `form` reads one."""
    found: list[Listed[F]] = []
    for each in BACKENDS if backend is None else (backend,):
        for entry in _names(home / "variants" / each):
            name = entry.removesuffix(".json")
            if name == entry:
                continue
            path = home / "variants" / each / entry
            try:
                found.append(Listed(name, each, path, form(path)))
            except ConfigError as error:
                found.append(Listed(name, each, path, None, error))
    return found
