"""What a bench's worker is asked, and what it answers."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from ..host.wire import ErrorInfo
from ..variant import ResolvedVariant
from .report import Label, Part, Run


class Job(Part):
    """One task for a fresh process: `check` a variant and say what it is, or `measure` it once.

    `prompt_tokens` and `decode_tokens` are read and written; `home` is the store, for approvals and digests.
    """

    task: Literal["check", "measure"]
    variant: ResolvedVariant
    home: Path
    prompt_tokens: int
    decode_tokens: int
    round: int = 0


class Answer(Part):
    """What came of it: a label, a run or an error."""

    label: Label | None = None
    run: Run | None = None
    error: ErrorInfo | None = None
