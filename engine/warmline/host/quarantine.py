"""What crashed the host: counted by digest, and after the second time refused until a person releases it.

Python's faulthandler writes to a file when native code ends the process (SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL). The
next host finds that file together with the note of what ran, and counts. A host that was killed from outside leaves
no such file and blames nothing.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TextIO

from pydantic import BaseModel, ConfigDict, ValidationError

from ..digests import FileKey, key_of, private_folder, short, write_atomically
from ..identity import Identity

LIMIT: Final = 2
_log = logging.getLogger(__name__)


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid")

    crashes: int
    name: str
    last: str = ""


@dataclass(frozen=True, slots=True)
class Suspect:
    """An artifact that was at work when the host crashed: its digest, name, number of crashes and what was said."""

    digest: str
    name: str
    crashes: int
    last: str

    @property
    def quarantined(self) -> bool:
        """Whether it is refused."""
        return self.crashes >= LIMIT


class CrashLedger:
    """Counts crashes in a folder of the store.

    An identity's adapters are blamed, for they are what differs from the base that others run; a base alone is blamed
    itself.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._counts = folder / "counts.json"
        self._marker = folder / "running.json"
        self._trace = folder / "native.txt"
        self._noted: tuple[tuple[str, str], ...] = ()
        self._known: tuple[FileKey | None, dict[str, _Record]] = None, {}
        self._file: TextIO | None = None

    def open(self) -> list[Suspect]:
        """Count what the last host left behind, begin to watch this process, and return whom it blamed."""
        private_folder(self._folder)
        blamed = self._settle()
        self._file = self._trace.open("w", encoding="utf-8")
        faulthandler.enable(self._file)
        return blamed

    def note(self, identity: Identity, names: Sequence[str]) -> None:
        """Say what is about to run; writes only when it is something else than before."""
        digests = [adapter.digest for adapter in identity.adapters] or [identity.base]
        noted = tuple(zip(digests, names, strict=False))
        if noted != self._noted:
            self._noted = noted
            with contextlib.suppress(OSError):
                write_atomically(self._marker, json.dumps(noted).encode())

    def suspects(self) -> list[Suspect]:
        """List everything that was at work in a crash."""
        return [Suspect(digest, record.name, record.crashes, record.last) for digest, record in self._read().items()]

    def quarantined(self, digest: str) -> bool:
        """Tell whether this content is refused."""
        record = self._counted().get(digest)
        return record is not None and record.crashes >= LIMIT

    def release(self, digest: str) -> bool:
        """Forget an artifact's crashes; `digest` may be shortened. Tell whether it was known."""
        known, digest = self._read(), digest.removeprefix("sha256:")
        found = [
            one
            for one in known
            if one == f"sha256:{digest}" or (len(digest) >= 6 and short(one, 64).startswith(digest))
        ]
        if len(found) != 1:
            return False
        del known[found[0]]
        self._write(known)
        return True

    def close(self) -> None:
        """End the watch in good order: nothing crashed."""
        faulthandler.disable()
        if self._file is not None:
            self._file.close()
            self._file = None
        for path in (self._trace, self._marker):
            with contextlib.suppress(OSError):
                path.unlink()

    def _settle(self) -> list[Suspect]:
        try:
            trace = self._trace.read_text("utf-8", "replace").strip()
            noted = json.loads(self._marker.read_text("utf-8")) if trace else []
            pairs = [(str(digest), str(name)) for digest, name in noted]
        except (OSError, ValueError, TypeError, RecursionError):
            return []
        if not trace:
            return []
        known = self._read()
        for digest, name in pairs:
            crashes = known[digest].crashes if digest in known else 0
            known[digest] = _Record(crashes=crashes + 1, name=name, last=trace.splitlines()[0][:200])
            _log.warning("the engine crashed while `%s` (%s) was at work: %d times", name, short(digest), crashes + 1)
        self._write(known)
        with contextlib.suppress(OSError):
            self._marker.unlink()
        return [Suspect(digest, name, known[digest].crashes, known[digest].last) for digest, name in pairs]

    def _counted(self) -> dict[str, _Record]:
        """Return what `_read` does, read again if the file is another one: a release is another process's doing."""
        try:
            key = key_of(os.stat(self._counts))
        except OSError:
            return {}
        if self._known[0] != key:
            self._known = key, self._read()
        return self._known[1]

    def _read(self) -> dict[str, _Record]:
        try:
            raw = json.loads(self._counts.read_text("utf-8"))
            return {digest: _Record.model_validate(record) for digest, record in raw.items()}
        except (OSError, ValueError, ValidationError, AttributeError, RecursionError):
            return {}

    def _write(self, records: dict[str, _Record]) -> None:
        data = {digest: record.model_dump() for digest, record in records.items()}
        with contextlib.suppress(OSError):
            write_atomically(self._counts, json.dumps(data, indent=1).encode())
