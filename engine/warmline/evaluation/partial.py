"""What an evaluation has measured so far, one line of JSON an answer: an interrupted one goes on from there."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from ..digests import bytes_digest, private_folder
from ..errors import EvaluationError
from .rows import Row


class Partial:
    """A file of rows under a key; a half line at its end, which a crash leaves, is dropped.

    Parameters
    ----------
    folder
        Where such files are.
    subject
        All that the answers depend on: identities, suite digest, seed and options. Another subject is another file.
    """

    def __init__(self, folder: Path, subject: Mapping[str, Any]) -> None:
        text = json.dumps(subject, sort_keys=True)
        self.path = folder / f"{bytes_digest(text.encode())[7:39]}.jsonl"
        self.rows: dict[tuple[str, str], Row] = {}

    @contextlib.contextmanager
    def open(self, *, fresh: bool = False) -> Iterator[None]:
        """Read what is there, or remove it if `fresh`, and hold the file against a second evaluation of the same.

        Raises
        ------
        EvaluationError
            ``evaluation.running``: one is at work.
        """
        private_folder(self.path.parent)
        lock = FileLock(str(self.path.with_suffix(".lock")), mode=0o600)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            raise EvaluationError(
                "the same evaluation is running already",
                code="evaluation.running",
                file=str(self.path),
                remedy="Wait for it, or end it",
            ) from None
        try:
            if fresh:
                self.path.unlink(missing_ok=True)
            self._read()
            yield
        finally:
            lock.release()

    def add(self, row: Row) -> None:
        """Keep a row, at once."""
        self.rows[row.side, row.task] = row
        line = row.model_dump_json() + "\n"
        with open(os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "a", encoding="utf-8") as file:
            file.write(line)

    def remove(self) -> None:
        """Forget all of it: the evaluation is through."""
        self.path.unlink(missing_ok=True)
        self.path.with_suffix(".lock").unlink(missing_ok=True)

    def _read(self) -> None:
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return
        whole = data[: data.rfind(b"\n") + 1]
        for line in whole.splitlines():
            try:
                row = Row.model_validate_json(line)
            except ValueError:
                continue  # what cannot be read is measured again
            self.rows[row.side, row.task] = row
        if len(whole) != len(data):
            os.truncate(self.path, len(whole))
