"""Files over HTTP(S) for catalogs: bounded in size, going on where they stopped, by no other scheme whatever leads."""

from __future__ import annotations

import contextlib
import os
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from http import HTTPStatus
from http.client import HTTPException, HTTPMessage, HTTPResponse
from pathlib import Path
from typing import IO, Final

from warmline import __version__
from warmline.errors import CatalogError
from warmline.store import changes

_CHUNK: Final = 1 << 18
_SECONDS: Final = 30.0  # without a byte
_SMALL_SECONDS: Final = 120.0  # of a small file, from its first byte
_TRIES: Final = 3  # in a row that bring nothing
_PAUSE: Final = 1.0


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects, but never from an encrypted connection to one that is not."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> urllib.request.Request | None:
        if req.type == "https" and not newurl.lower().startswith("https:"):
            raise urllib.error.HTTPError(req.full_url, code, "it leads from https to something else", headers, fp)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _opener() -> urllib.request.OpenerDirector:
    # Not `build_opener`: that one also opens file: and ftp:.
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(),
        _Redirects(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
        urllib.request.UnknownHandler(),
    ):
        opener.add_handler(handler)
    return opener


def fetch_text(url: str, limit: int) -> bytes:
    """Fetch a small file whole, within `_SMALL_SECONDS`.

    Raises
    ------
    CatalogError
        ``catalog.fetch``; ``catalog.too_large`` beyond `limit` bytes.
    """
    data = bytearray()
    with _typed(url), _open(url, 0) as response:
        announced = response.length
        most = limit + 1 if announced is None else min(announced, limit + 1)
        end = time.monotonic() + _SMALL_SECONDS
        while len(data) < most and (chunk := response.read1(min(_CHUNK, most - len(data)))):
            data += chunk
            if time.monotonic() > end:
                raise _unfetched(url, f"it comes too slowly: {len(data)} bytes in {_SMALL_SECONDS:.0f} s")
    if len(data) > limit:
        raise _too_large(url, limit)
    if announced is not None and len(data) < announced:
        raise _unfetched(url, "the connection broke")
    return bytes(data)


def fetch_file(url: str, path: Path, limit: int, told: Callable[[int], None]) -> None:
    """Fetch a large file, going on with `path`.part if that is there; what arrives is for the caller to verify.

    Parameters
    ----------
    limit
        Bytes that it has at most.
    told
        Called with the bytes that are there so far.

    Raises
    ------
    CatalogError
        As `fetch_text`, once several attempts in a row brought nothing.
    OSError
        The disk is full or cannot be written.
    """
    part = path.with_name(path.name + ".part")
    changes.private_folder(path.parent)
    fruitless = 0
    while True:
        before = _size(part)
        try:
            with _typed(url):
                if _stream(url, part, before, limit, told):
                    break
        except CatalogError as error:
            fruitless = 0 if _size(part) > before else fruitless + 1
            if error.code != "catalog.fetch" or fruitless > _TRIES:
                raise
            time.sleep(_PAUSE)
    part.replace(path)


def _stream(url: str, part: Path, before: int, limit: int, told: Callable[[int], None]) -> bool:
    """Bring what follows; False where nothing can follow what is there, which is then removed: it is another file's."""
    try:
        opened = _open(url, before)
    except urllib.error.HTTPError as error:
        if error.code != HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE or not before:
            raise
        with error:
            whole: bool = error.headers.get("Content-Range") == f"bytes */{before}"
        if not whole:
            part.unlink()
        return whole
    with opened as response:
        going_on = before > 0 and response.status == 206
        done = before if going_on else 0
        announced = response.length
        if announced is not None and done + announced > limit:
            raise _too_large(url, limit)
        with _written(part, going_on) as out:
            while chunk := response.read(_CHUNK):
                done += len(chunk)
                if done > limit:
                    raise _too_large(url, limit)
                out(chunk)
                told(done)
    if announced is not None and _size(part) < (before if going_on else 0) + announced:
        raise _unfetched(url, "the connection broke")
    return True


@contextlib.contextmanager
def _written(part: Path, going_on: bool) -> Iterator[Callable[[bytes], None]]:
    """Open a file for writing; what the disk refuses must not be taken for the network's fault."""
    try:
        file = open(part, "ab" if going_on else "wb", opener=lambda name, flags: os.open(name, flags, 0o600))  # noqa: SIM115
    except OSError as error:
        raise _DiskError(error) from None

    def write(chunk: bytes) -> None:
        try:
            file.write(chunk)
        except OSError as error:
            raise _DiskError(error) from None

    with file:
        yield write


class _DiskError(Exception):
    def __init__(self, error: OSError) -> None:
        super().__init__(str(error))
        self.error = error


def _open(url: str, before: int) -> HTTPResponse:
    headers = {"User-Agent": f"warmline/{__version__}", "Accept-Encoding": "identity"}
    if before:
        headers["Range"] = f"bytes={before}-"
    response: HTTPResponse = _opener().open(urllib.request.Request(url, headers=headers), timeout=_SECONDS)
    return response


@contextlib.contextmanager
def _typed(url: str) -> Iterator[None]:
    try:
        yield
    except _DiskError as error:
        raise error.error from None
    except urllib.error.HTTPError as error:
        with error:
            raise _unfetched(url, f"HTTP {error.code} {error.reason}") from None
    except (OSError, HTTPException, ValueError) as error:
        raise _unfetched(url, str(getattr(error, "reason", error)) or type(error).__name__) from None


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _unfetched(url: str, why: str) -> CatalogError:
    return CatalogError(
        f"it cannot be fetched: {why[:300]}",
        code="catalog.fetch",
        file=url,
        remedy="Check the address and the network, then try again: it goes on where it stopped",
    )


def _too_large(url: str, limit: int) -> CatalogError:
    message, remedy = f"it has more than {limit} bytes", "Ask the curator: the catalog and its files disagree"
    return CatalogError(message, code="catalog.too_large", file=url, remedy=remedy)
