"""Which digests the user has approved: nothing that a workspace brings is loaded before.

Installing an artifact approves its digest (``by: install``); that approval leaves with the artifact, while one that the
user gave by hand (``by: user``) stays until it is taken back. A changed byte is another digest, and asks again.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal

from .digests import is_digest, open_regular, private_folder, write_atomically
from .errors import ArtifactError, TrustError

_MOST_BYTES: Final = 16 << 20
Entries = dict[str, dict[str, str]]
By = Literal["user", "install"]


@dataclass(frozen=True, slots=True)
class TrustStore:
    """Approved digests in one JSON file (0600), read afresh at each question so that an approval counts at once."""

    path: Path

    def approved(self, digest: str) -> bool:
        """Tell whether the user approved these very bytes."""
        return digest in self._read()

    def entries(self) -> dict[str, dict[str, str]]:
        """Return digest -> {name, file, approved_at, by}; an entry without `by` is the user's own."""
        return self._read()

    def add(self, digest: str, *, name: str, file: str, by: By = "user") -> None:
        """Approve a digest; one that is approved stays as it is when the same bytes are installed afterwards.

        Raises
        ------
        TrustError
            ``trust.digest`` when it is not a digest, ``trust.store`` when the store cannot be written.
        """
        if not is_digest(digest):
            raise TrustError(
                f"not a digest: {digest!r}", code="trust.digest", remedy="Give `sha256:` and 64 hex digits, or a file"
            )
        stamp = datetime.now(UTC).isoformat(timespec="seconds")
        entry = {"name": name, "file": file, "approved_at": stamp, "by": by}

        def with_entry(entries: Entries) -> Entries:
            known = entries.get(digest)
            return entries if by == "install" and known is not None else entries | {digest: entry}

        self._change(with_entry)

    def remove(self, digest: str) -> bool:
        """Take an approval back; tell whether there was one."""
        had = self.approved(digest)
        self._change(lambda entries: {key: value for key, value in entries.items() if key != digest})
        return had

    def forget_installed(self, digest: str) -> None:
        """Take back the approval that installing gave; one that the user gave by hand stays."""
        if self._read().get(digest, {}).get("by") == "install":
            self.remove(digest)

    def sweep(self) -> list[Path]:
        """Remove what an interrupted write has left beside the file; return what it was."""
        with self._locked():
            left = sorted(self.path.parent.glob(self.path.name + ".????????"))
            for path in left:
                path.unlink()
        return left

    def _change(self, change: Callable[[Entries], Entries]) -> None:
        with self._locked():
            write_atomically(self.path, json.dumps(change(self._read()), indent=1, sort_keys=True).encode())

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        from filelock import FileLock  # for those who approve; whoever lists variants only reads

        try:
            private_folder(self.path.parent)
            with FileLock(str(self.path) + ".lock", timeout=10, mode=0o600):
                yield
        except (OSError, TimeoutError) as error:
            raise TrustError(
                f"the trust store cannot be written: {error}",
                code="trust.store",
                file=str(self.path),
                remedy="Check the folder's permissions and free space",
            ) from error

    def _read(self) -> dict[str, dict[str, str]]:
        try:
            with open_regular(self.path) as fd:
                raw = json.loads(os.pread(fd, _MOST_BYTES, 0))
        except ArtifactError as error:
            if error.code == "artifact.missing":
                return {}
            raise self._unreadable(error.message) from None
        except (OSError, ValueError, RecursionError) as error:
            raise self._unreadable(str(error)) from None
        if not isinstance(raw, dict):
            raise self._unreadable("it is not a JSON object")
        return {key: value for key, value in raw.items() if is_digest(key) and isinstance(value, dict)}

    def _unreadable(self, why: str) -> TrustError:
        # Unreadable approvals approve nothing; saying so beats overwriting what the user had.
        return TrustError(
            f"the trust store cannot be read: {why}",
            code="trust.store",
            file=str(self.path),
            remedy="Repair the file, or delete it and approve again",
        )
