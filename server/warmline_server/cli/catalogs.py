"""The catalogs that a person added, and bringing what their entries name: by the catalog's word alone."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final
from urllib.parse import quote, urljoin, urlsplit

from filelock import FileLock, Timeout
from pydantic import Field
from warmline.catalog import (
    MAX_CATALOG_BYTES,
    AdapterEntry,
    AnyEntry,
    Catalog,
    ModelEntry,
    Need,
    VariantEntry,
    local_source,
)
from warmline.digests import bytes_digest, open_regular, write_atomically
from warmline.errors import CatalogError, WarmlineError
from warmline.filemodel import Digest, FileModel, load_file, parse
from warmline.settings import load_settings
from warmline.store import changes
from warmline.store.blobs import digest_of
from warmline.store.shelf import check_name, inside
from warmline.validation import check_digest

if TYPE_CHECKING:
    from warmline.certificates import Certificate

FOLDER: Final = "catalogs"
# Of a file whose size the catalog does not tell; no base that runs on such a machine is larger.
_LARGEST: Final = 512 << 30


class Added(FileModel):
    """`catalogs/<name>.json` in the store: a catalog as it was when it was added, and where it came from."""

    location: Annotated[str, Field(max_length=4096)] = Field(description="URL, or path of the file.")
    digest: Digest = Field(description="Of the file's bytes.")
    added_at: Annotated[str, Field(max_length=40)] = ""
    catalog: Catalog

    @property
    def remote(self) -> bool:
        """Whether it came over HTTP."""
        return is_url(self.location)


def is_url(text: str) -> bool:
    """Tell a URL from a path."""
    return text.lower().startswith(("http://", "https://"))


def read(location: str, digest: str | None = None) -> Added:
    """Read a catalog from a file or URL; nothing is kept.

    Raises
    ------
    CatalogError
        ``catalog.fetch``, ``catalog.too_large``; ``catalog.source`` for any other kind of URL.
    ArtifactError, ConfigError
        The file cannot be read, has another digest, or is no catalog.
    """
    if is_url(location):
        from .transfer import fetch_text

        data = fetch_text(location, MAX_CATALOG_BYTES)
    elif "://" in location:
        remedy = "Give an http:// or https:// URL, or a file"
        raise CatalogError("catalogs are not fetched this way", code="catalog.source", file=location, remedy=remedy)
    else:
        location = os.path.abspath(location)
        with open_regular(location) as fd:
            data = os.pread(fd, MAX_CATALOG_BYTES + 1, 0)
        if len(data) > MAX_CATALOG_BYTES:
            message, remedy = f"it has more than {MAX_CATALOG_BYTES} bytes", "This is no catalog"
            raise CatalogError(message, code="catalog.too_large", file=location, remedy=remedy)
    found = bytes_digest(data)
    check_digest(found, digest, location)
    catalog = parse(data, Catalog, location)
    return Added(location=location, digest=found, added_at=changes.now(), catalog=catalog)


def add(home: Path, added: Added, *, replace: bool) -> None:
    """Keep a catalog. Another one of its name stays unless `replace`: ``catalog.exists``."""
    name = added.catalog.name
    with changes.changing(home, f"catalog add {name}"):
        path = _path(home, name)
        if path.exists() and not replace:
            known = _load(path)
            if known.digest == added.digest and known.location == added.location:
                return
            raise CatalogError(
                f"there is a catalog `{name}`, from {known.location}",
                code="catalog.exists",
                file=str(path),
                remedy="Take its place with --replace, or remove it first",
            )
        changes.private_folder(path.parent)
        data = json.loads(added.model_dump_json(by_alias=True, exclude_unset=True))
        write_atomically(path, json.dumps(data, indent=1, ensure_ascii=False).encode())


def remove(home: Path, name: str) -> None:
    """Forget a catalog; what was installed from it stays."""
    path = _path(home, name)
    with changes.changing(home, f"catalog remove {name}"):
        try:
            path.unlink()
        except FileNotFoundError:
            raise unknown(home, name) from None


def get(home: Path, name: str) -> Added:
    """Return a catalog that was added: ``catalog.unknown`` where it was not."""
    path = _path(home, name)
    if not path.exists():
        raise unknown(home, name)
    return _load(path)


def names(home: Path) -> list[str]:
    """List the names of the catalogs that were added."""
    return sorted(path.stem for path in (home / FOLDER).glob("*.json"))


def all_added(home: Path) -> Iterator[tuple[str, Added | WarmlineError]]:
    """Yield each catalog, or what is wrong with it."""
    for name in names(home):
        try:
            yield name, _load(_path(home, name))
        except WarmlineError as error:
            yield name, error


def having(home: Path, name: str) -> Added:
    """Return the one catalog that has an entry: ``catalog.unknown``, or ``catalog.ambiguous`` where several have it."""
    plain = name.rpartition("/")[2]
    added = [each for _, each in all_added(home) if isinstance(each, Added)]
    found = [each for each in added if any(entry.name == plain for entry in each.catalog.entries)]
    if len(found) == 1:
        return found[0]
    if found:
        which = " or ".join(f"--catalog {each.catalog.name}" for each in found)
        message = f"more than one catalog has `{name}`"
        raise CatalogError(message, code="catalog.ambiguous", field=name, remedy=f"Say which: {which}")
    remedy = f"Search: warmline catalog search {plain}" if added else "Add a catalog: warmline catalog add FILE|URL"
    raise CatalogError(f"no catalog has `{name}`", code="catalog.unknown", field=name, remedy=remedy)


def unknown(home: Path, name: str) -> CatalogError:
    """The error for a catalog that was not added."""
    known = ", ".join(names(home))
    remedy = f"Known catalogs: {known}" if known else "Add it: warmline catalog add FILE|URL"
    return CatalogError(f"there is no catalog `{name}`", code="catalog.unknown", field=name, remedy=remedy)


def _path(home: Path, name: str) -> Path:
    return inside(home, FOLDER, check_name(name) + ".json")


def _load(path: Path) -> Added:
    return load_file(path, Added, max_bytes=2 * MAX_CATALOG_BYTES)


# ---- bringing ----


@dataclass(frozen=True, slots=True)
class _Wanted:
    """One file: from where, to where, and what the catalog says of it."""

    name: str
    source: str
    digest: str | None
    size: int | None


class Bringer:
    """Brings artifacts of one catalog, for `warmline.catalog.install`; what it fetched goes away with `close`.

    `unlock` it in the end, whatever happened.
    """

    def __init__(self, home: Path, added: Added, progress: Callable[[int, int], None]) -> None:
        self._added = added
        self._progress = progress
        self._folder = load_settings(home).downloads(home)
        self._used: list[Path] = []
        self._locks: list[FileLock] = []

    def __call__(self, need: Need) -> Path:
        """Return the file or folder of an entry, fetched if need be."""
        source = need.entry.source
        if source.startswith("package:"):
            return Path()  # found in the installed package by whoever installs
        if source.startswith("hf://"):
            return self._from_hub(source, need.entry)
        if not is_url(source) and not self._added.remote:
            path = local_source(Path(self._added.location), source)
            assert path is not None  # it is no URL
            return path
        folder = self._folder / bytes_digest(f"{source}\n{need.entry.digest}".encode())[7:23]
        if folder not in self._used:
            self._used.append(folder)
            self._lock(folder, need.entry)
        url = source if is_url(source) else urljoin(self._added.location, quote(source))
        if not need.entry.files:
            suffix = Path(urlsplit(url).path).suffix  # a pickle is known by it, and not opened
            name = "file" + (suffix if re.fullmatch(r"\.\w{1,16}", suffix) else "")
            return self._fetched(folder, _Wanted(name, url, need.entry.digest, need.entry.size))
        base = url.rstrip("/") + "/"
        for file in need.entry.files:
            wanted = _Wanted(file.name, urljoin(base, quote(file.name)), file.digest, file.size)
            self._fetched(folder / "files", wanted)
        return folder / "files"

    def certificate(self, entry: VariantEntry) -> Certificate:
        """Return the certificate that an entry names; ``catalog.source`` where it is not to be had this way."""
        from warmline.certificates import MAX_BYTES, parse_certificate, read_certificate

        source = entry.certificate
        if not is_url(source) and not self._added.remote:
            path = local_source(Path(self._added.location), source) if "://" not in source else None
            if path is None:
                remedy = "Ask the curator for a URL, or a path beside the catalog"
                message = "certificates are not fetched this way"
                raise CatalogError(message, code="catalog.source", file=source, field=entry.name, remedy=remedy)
            return read_certificate(path)
        from .transfer import fetch_text

        url = source if is_url(source) else urljoin(self._added.location, quote(source))
        return parse_certificate(fetch_text(url, MAX_BYTES), url)

    def close(self) -> None:
        """Remove what was fetched. Call it once everything is installed: else the next attempt goes on with it."""
        self.unlock()
        for folder in self._used:
            shutil.rmtree(folder, ignore_errors=True)

    def unlock(self) -> None:
        """Let others fetch the same."""
        for lock in self._locks:
            lock.release()

    def _lock(self, folder: Path, entry: AnyEntry) -> None:
        """Two that write one partial file would make a mix: ``catalog.busy`` while another process fetches this."""
        changes.private_folder(folder)
        lock = FileLock(str(folder / "fetching.lock"), timeout=0, mode=0o600)
        try:
            lock.acquire()
        except Timeout:
            message, remedy = "another process fetches this now", "Wait until it is done"
            raise CatalogError(message, code="catalog.busy", field=entry.name, remedy=remedy) from None
        self._locks.append(lock)

    def _fetched(self, folder: Path, wanted: _Wanted) -> Path:
        from .transfer import fetch_file

        path = folder / wanted.name
        if wanted.digest is None:  # nothing would tell a mix of two files from one
            for old in (path, path.with_name(path.name + ".part")):
                old.unlink(missing_ok=True)
        if not path.exists():
            total = wanted.size or 0
            limit = _LARGEST if wanted.size is None else wanted.size
            fetch_file(wanted.source, path, limit, lambda done: self._progress(done, total))
        try:
            check_digest(digest_of(path), wanted.digest, wanted.source)
        except WarmlineError:
            path.unlink(missing_ok=True)
            raise
        return path

    def _from_hub(self, source: str, entry: ModelEntry | AdapterEntry) -> Path:
        from . import hub

        owner, repo, *rest = source.removeprefix("hf://").split("/", 2)
        inner = rest[0].strip("/") if rest else ""
        if entry.files:
            promised = {f"{inner}/{file.name}".lstrip("/"): file.digest for file in entry.files}
            offer = hub.look_files(f"{owner}/{repo}", list(promised))
        else:
            offer = hub.look(f"{owner}/{repo}" + (f":{inner}" if inner else ""), None, None)
            promised = {offer.files[0].name: entry.digest} if entry.digest and not offer.folder else {}
        folder = self._folder / f"{owner}--{repo}-{offer.commit[:12]}"
        self._used.append(folder)
        path = hub.fetch(offer, folder, self._progress, promised)
        return path / inner if entry.files else path


def kind_of(entry: AnyEntry) -> str:
    """Say what an entry is, for people: merged models are told from bases."""
    merged = getattr(entry, "merged_from", None)
    return f"model, merged: {merged}" if merged else entry.type
