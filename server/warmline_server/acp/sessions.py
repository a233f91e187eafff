"""Sessions, and the store that keeps them: a private file each, bounded, listed by folder, deletable.

A file is lines of JSON: the session first, then its entries, oldest first. Listing reads first lines only.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter
from warmline.digests import open_regular, write_atomically
from warmline.errors import ArtifactError

from ..characters import whole
from .choice import Choice
from .modes import DEFAULT, Mode
from .transcript import Asked, Entry, size, slimmed

MAX_SESSIONS: Final = 200
MAX_ENTRIES: Final = 500
MAX_BYTES: Final = 2 << 20
_MARK: Final = ".deleted"
_REMEMBERED_SECONDS: Final = 30 * 24 * 3600.0
_MAX_HEAD: Final = 64 << 10
_MAX_TITLE: Final = 80
_ID: Final = re.compile(r"[0-9a-f]{32}\Z")
Stamp = tuple[int, int, int]
_ENTRY: TypeAdapter[Entry] = TypeAdapter(Entry)


class Head(BaseModel):
    """What is known of a session without its entries. `dropped` entries at the front are gone for good, and of those
    that are kept the model no longer sees the first `hidden`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str
    cwd: Path
    additional: tuple[Path, ...] = ()
    title: str = ""
    updated_at: str = ""
    mode: Mode = DEFAULT
    choice: Choice = Choice()
    hidden: int = Field(default=0, ge=0)
    dropped: int = Field(default=0, ge=0)

    def as_info(self) -> dict[str, Any]:
        """Give it as the protocol lists it."""
        info: dict[str, Any] = {"sessionId": self.id, "cwd": str(self.cwd), "updatedAt": self.updated_at}
        if self.additional:
            info["additionalDirectories"] = [str(folder) for folder in self.additional]
        return {**info, "title": self.title} if self.title else info


@dataclass(slots=True)
class Record:
    """A session as it is kept.

    Attributes
    ----------
    stamp
        What its file was when it was read or written last; None while there is none.
    kept_as
        The id that it is kept by where somebody else went on with its own; else empty.
    """

    head: Head
    entries: list[Entry] = field(default_factory=list)
    stamp: Stamp | None = None
    kept_as: str = ""

    def add(self, entry: Entry) -> None:
        """Append an entry; the first thing that was asked gives the title."""
        self.entries.append(_writable(entry))
        title = self.head.title
        if not title and isinstance(entry, Asked):
            title = " ".join(entry.text.split())[:_MAX_TITLE]
        self.change(title=title)

    def change(self, **fields: Any) -> None:
        """Change fields of the head."""
        self.head = self.head.model_copy(update={**fields, "updated_at": _now()})

    def seen(self) -> Sequence[Entry]:
        """Give what the model still sees."""
        return self.entries[self.head.hidden :]

    def hide(self, count: int) -> None:
        """Let the model see so many entries less, oldest first."""
        self.change(hidden=min(len(self.entries), self.head.hidden + count))

    def bound(self) -> None:
        """Drop the oldest turns for good where there are too many; what remains begins with something asked.

        What only clients are shown goes first: one change of a large file must not cost what was said.
        """
        sizes = [size(entry) for entry in self.entries]
        drop, total = 0, sum(sizes)
        for index, entry in enumerate(self.entries):
            if total <= MAX_BYTES:
                break
            self.entries[index] = slimmed(entry)
            total -= sizes[index]
            sizes[index] = size(self.entries[index])
            total += sizes[index]
        while drop < len(sizes) and (len(sizes) - drop > MAX_ENTRIES or total > MAX_BYTES):
            total -= sizes[drop]
            drop += 1
        while drop and drop < len(sizes) and not isinstance(self.entries[drop], Asked):
            drop += 1
        if drop:
            del self.entries[:drop]
            self.change(hidden=max(0, self.head.hidden - drop), dropped=self.head.dropped + drop)


class SessionStore:
    """The sessions of a user's store, in a folder of their own."""

    def __init__(self, home: Path) -> None:
        self._folder = home / "acp" / "sessions"

    def begin(self, cwd: Path, additional: tuple[Path, ...] = ()) -> Record:
        """Begin a session; nothing is written before something is said."""
        return Record(Head(id=uuid.uuid4().hex, cwd=cwd, additional=additional, updated_at=_now()))

    def save(self, record: Record) -> str:
        """Write a session; of too many the least recently used goes.

        Returns
        -------
        str
            The id that it is kept by from now on, where another agent went on with its own; empty as a rule.

        Raises
        ------
        OSError
            As the operating system gives it; FileNotFoundError where somebody deleted it.
        ValueError
            It holds what cannot be written.
        """
        record.bound()
        path, apart = self._path(record.kept_as or record.head.id), ""
        if record.stamp is not None and _deleted(path).exists():
            raise FileNotFoundError(None, "it was deleted meanwhile")
        if self.changed(record) and not self._goes_on_from(record, path.stem):
            record.kept_as = apart = uuid.uuid4().hex
            path = self._path(apart)
        head = record.head.model_copy(update={"id": path.stem})
        try:
            first = head.model_dump_json()
        except ValueError:
            raise ValueError("the name of its folder is not UTF-8") from None
        lines = [first, *(entry.model_dump_json() for entry in record.entries)]
        write_atomically(path, ("\n".join(lines) + "\n").encode())
        record.stamp = _stamp(path)
        for old in self.listed()[MAX_SESSIONS:]:
            self._path(old.id).unlink(missing_ok=True)  # one that is open is written again when it goes on
        return apart

    def changed(self, record: Record) -> bool:
        """Tell whether somebody else wrote a session since it was read or written here."""
        found = _stamp(self._path(record.kept_as or record.head.id))
        return found is not None and found != record.stamp

    def _goes_on_from(self, record: Record, session_id: str) -> bool:
        """Tell whether all that is kept by an id was said in the record too."""
        try:
            kept = self.load(session_id)
        except (OSError, ValueError):
            return False
        if kept is None or kept.head.dropped != record.head.dropped:
            return False
        return record.entries[: len(kept.entries)] == kept.entries

    def load(self, session_id: str) -> Record | None:
        """Read a session; None where there is none. A last line that was cut off is left out.

        Raises
        ------
        ValueError
            It cannot be read; the message says why.
        """
        if not _ID.match(session_id):
            return None
        path = self._path(session_id)
        try:
            with open_regular(path) as handle, open(handle, "rb", closefd=False) as file:
                stamp, data = _stamp_of(os.fstat(handle)), file.read(2 * MAX_BYTES)
        except ArtifactError as error:
            if error.code == "artifact.missing":
                return None
            raise ValueError(error.message) from None
        first, *rest = data.splitlines() or [b""]
        if not data.endswith(b"\n"):
            del rest[-1:]
        try:
            head = Head.model_validate_json(first)
            entries = [_ENTRY.validate_json(line) for line in rest]
        except ValueError:
            raise ValueError("it is damaged, or of another version") from None
        if head.id != session_id:
            raise ValueError("it is another session's")
        return Record(head.model_copy(update={"hidden": min(head.hidden, len(entries))}), entries, stamp)

    def forget(self, record: Record) -> None:
        """Delete what was kept of a session that goes on."""
        path = self._path(record.kept_as or record.head.id)
        path.unlink(missing_ok=True)
        _deleted(path).unlink(missing_ok=True)  # nothing is left that was to be deleted
        record.stamp = None

    def delete(self, session_id: str) -> None:
        """Delete a session for good, whoever has it open; one that is not there is deleted already."""
        if not _ID.match(session_id):
            return
        path = self._path(session_id)
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
            _deleted(path).touch(0o600)
            for mark in self._folder.glob(f"*{_MARK}"):
                if time.time() - mark.stat().st_mtime > _REMEMBERED_SECONDS:
                    mark.unlink()

    def listed(self, cwd: Path | None = None) -> list[Head]:
        """List sessions, the latest first; with `cwd` those of that folder only."""
        heads = []
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            for path in self._folder.iterdir():
                if _ID.match(path.stem) and path.suffix == ".jsonl" and (head := _head(path)) is not None:
                    heads.append(head)
        found = [head for head in heads if cwd is None or head.cwd == cwd]
        return sorted(found, key=lambda head: (head.updated_at, head.id), reverse=True)

    def _path(self, session_id: str) -> Path:
        return self._folder / f"{session_id}.jsonl"


def _deleted(path: Path) -> Path:
    """Give the file that says of a session that it was deleted: an agent that has it open must not write it again."""
    return path.with_suffix(_MARK)


def _writable(entry: Entry) -> Entry:
    """Give an entry as it can be written: names of files may bring halves of characters."""
    try:
        entry.model_dump_json()
    except ValueError:
        return _ENTRY.validate_json(whole(json.dumps(entry.model_dump(mode="python"), ensure_ascii=False)))
    return entry


def _stamp(path: Path) -> Stamp | None:
    try:
        return _stamp_of(path.stat())
    except FileNotFoundError:
        return None


def _stamp_of(status: os.stat_result) -> Stamp:
    return status.st_ino, status.st_mtime_ns, status.st_size


def _head(path: Path) -> Head | None:
    try:
        with open_regular(path) as handle, open(handle, "rb", closefd=False) as file:
            head = Head.model_validate_json(file.readline(_MAX_HEAD))
    except (OSError, ValueError, ArtifactError):
        return None
    return head if head.id == path.stem else None


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
