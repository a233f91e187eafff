"""The latest answers of this session, for whoever draws how it went: numbers and variants' names, in memory only."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from warmline.host.wire import Done, Started

if TYPE_CHECKING:
    from ..completion import Completion

#: Answers that are kept: some hours of typing, some 100 KB as JSON.
MOST_ANSWERS: Final = 512


@dataclass(frozen=True, slots=True)
class RecentAnswer:
    """One answer that reached a first token; `at` in seconds since the epoch, times in milliseconds."""

    at: float
    kind: Literal["completion", "chat"]
    variant: str
    ttft_ms: float
    total_ms: float
    prompt_tokens: int
    reused_tokens: int


class Recent:
    """The latest answers, oldest first."""

    def __init__(self) -> None:
        self._answers: deque[RecentAnswer] = deque(maxlen=MOST_ANSWERS)
        self._latest: Completion | None = None

    def completed(self, variant: str, result: Completion) -> None:
        """Take a completion; one that is shown again is no further answer."""
        if result.started is not None and result is not self._latest:
            self._latest = result
            self._add("completion", variant, result.started, result.total_ms)

    def chatted(self, variant: str, started: Started, done: Done) -> None:
        """Take an answer of a conversation, or a text that `edit` or `fix` wrote."""
        self._add("chat", variant, started, done.total_ms)

    def as_json(self) -> list[dict[str, Any]]:
        """Give them as JSON data."""
        return [asdict(answer) for answer in self._answers]

    def _add(self, kind: Literal["completion", "chat"], variant: str, started: Started, total_ms: float) -> None:
        answer = RecentAnswer(
            at=time.time(),
            kind=kind,
            variant=variant,
            ttft_ms=started.ttft_ms,
            total_ms=total_ms,
            prompt_tokens=started.prompt_tokens,
            reused_tokens=started.reused_tokens,
        )
        self._answers.append(answer)
