"""Text files: through the client where it offers that, with what its buffers hold, else from disk, within limits."""

from __future__ import annotations

import asyncio
import os
import stat
import uuid
from pathlib import Path
from typing import Final

from ..confinement import Outside
from ..edge import RequestError
from .tool import Place, ToolError

MAX_BYTES: Final = 2 << 20


def inside(place: Place, path: str) -> Path:
    """As `Roots.inside`, in a tool's words."""
    try:
        return place.roots.inside(path)
    except Outside as error:
        raise ToolError(str(error)) from None


def writable(place: Place, path: str) -> Path:
    """As `Roots.writable`, in a tool's words; a file that is write-protected is refused too."""
    try:
        real = place.roots.writable(path)
    except Outside as error:
        raise ToolError(str(error)) from None
    # Root may write everything: what nobody may write is meant to stay for root too.
    if real.exists() and not (os.access(real, os.W_OK) and real.stat().st_mode & 0o222):
        raise ToolError(f"{place.shown(real)} is write-protected")
    return real


async def read_text(place: Place, real: Path) -> str:
    """Read a whole text file to show it, what is not UTF-8 replaced; through a client that reads.

    Raises
    ------
    ToolError
        There is none, or it is too large or binary.
    """
    return await _read_text(place, real, through=place.client.reads, exact=False)


async def read_exact(place: Place, real: Path) -> str:
    """Read a whole text file to change it, from where `write_changed` writes it; raises `ToolError` as `read_text`.

    A file that is not UTF-8 is refused, since it could not be written as it was.
    """
    text = await _read_text(place, real, through=place.client.edits, exact=True)
    if "\ufffd" in text and place.client.edits:  # a client's sign for what it could not read
        await asyncio.to_thread(_refuse_other_bytes, real, place.shown(real))
    return text


async def read_replaced(place: Place, real: Path) -> str | None:
    """As `read_exact`; None where there is no file yet, neither on disk nor in the client's buffers."""
    if await asyncio.to_thread(real.exists):
        return await read_exact(place, real)
    if not place.client.edits:
        return None
    try:
        return await read_exact(place, real) or None
    except ToolError:  # which is how most clients say so
        return None


async def write_changed(place: Place, real: Path, old: str | None, new: str) -> None:
    """Write a whole text file, unless it is not any more what it was when the change was shown.

    Parameters
    ----------
    old
        What was read; None where there was no file.
    """
    shown = place.shown(real)
    if (await read_replaced(place, real) if old is None else await read_exact(place, real)) != old:
        raise ToolError(f"{shown} changed meanwhile: read it again")
    if not place.client.edits:
        await asyncio.to_thread(_write, real, new, shown)
        return
    try:
        await place.client.write_text_file(place.session_id, real, new)
    except RequestError as error:
        raise ToolError(f"the client cannot write {shown}: {error}") from None


async def _read_text(place: Place, real: Path, *, through: bool, exact: bool) -> str:
    shown = place.shown(real)
    if not through:
        return await asyncio.to_thread(_read, real, shown, exact)
    try:
        text = await place.client.read_text_file(place.session_id, real)
    except RequestError as error:
        raise ToolError(f"the client cannot read {shown}: {error}") from None
    if len(text) > MAX_BYTES:
        raise ToolError(f"{shown} is larger than {MAX_BYTES} bytes")
    return text


def _read(real: Path, shown: str, exact: bool) -> str:
    data = read_bytes(real, shown)
    if b"\x00" in data[:8192]:
        raise ToolError(f"{shown} is a binary file")
    try:
        return data.decode("utf-8", "strict" if exact else "replace")
    except UnicodeDecodeError:
        raise ToolError(f"{shown} is not UTF-8, and a change would damage it") from None


def _refuse_other_bytes(real: Path, shown: str) -> None:
    if real.exists():
        _read(real, shown, exact=True)


def read_bytes(real: Path, shown: str) -> bytes:
    """Read a regular file within the limit; a link, pipe or device that took its place meanwhile is refused."""
    try:
        handle = os.open(real, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise ToolError(f"{shown}: {error.strerror}") from None
    with open(handle, "rb") as file:
        info = os.fstat(handle)
        if not stat.S_ISREG(info.st_mode):
            raise ToolError(f"{shown} is no regular file")
        if info.st_size > MAX_BYTES:
            raise ToolError(f"{shown} has {info.st_size} bytes; at most {MAX_BYTES} are read")
        return file.read(MAX_BYTES)


def _write(real: Path, text: str, shown: str) -> None:
    try:
        real.parent.mkdir(parents=True, exist_ok=True)
        if os.path.realpath(real) != str(real):
            raise ToolError(f"{shown} was replaced by a link meanwhile")
        temporary = real.with_name(f".warmline-{uuid.uuid4().hex}")
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        try:
            with open(handle, "w", encoding="utf-8", newline="") as file:
                if real.exists():
                    os.fchmod(handle, stat.S_IMODE(real.stat().st_mode))
                file.write(text)
            os.replace(temporary, real)
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as error:
        raise ToolError(f"{shown} cannot be written: {error.strerror}") from None
