"""One step of a turn: one reply decoded, its thoughts and its answer shown while they come, a call's text never."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from warmline.errors import BackendError
from warmline.host.wire import ChatRequest, Delta, Done, Outcome, Started
from warmline.variant import Reasoning

from ..repetition import circles
from ..thoughts import Part, Thoughts
from . import updates
from .formats import Format
from .live import Live

Json = dict[str, Any]


@dataclass(slots=True)
class Step:
    """One reply.

    Attributes
    ----------
    text
        What was decoded, the thought before it left out.
    said
        What of an answer was shown to the person already.
    circling
        Whether it was ended because it only repeated itself.
    """

    started: Started | None = None
    done: Done | None = None
    thought: str = ""
    text: str = ""
    said: str = ""
    circling: bool = False
    message_id: str = field(default_factory=lambda: str(uuid.uuid4()))

    @property
    def cut(self) -> bool:
        """Whether it ended before its own end."""
        return self.circling or (self.done is not None and self.done.outcome is Outcome.LENGTH)


class Decoding:
    """Decodes one step. `begun` is called when its prompt is in the KV; `meta` gives the record of what answers."""

    def __init__(
        self,
        live: Live,
        format_: Format,
        reasoning: Reasoning | None,
        *,
        begun: Callable[[Started], Awaitable[None]],
        meta: Callable[[], Json],
    ) -> None:
        self._live = live
        self._reader = format_.reader()
        self._thoughts = Thoughts(reasoning)
        self._begun, self._meta = begun, meta
        self._pieces = 0
        self._thought_id = str(uuid.uuid4())
        self.step = Step()

    async def run(self, request: ChatRequest) -> Step:
        """Decode; what was shown when it is cancelled stays in `step`.

        Raises
        ------
        WarmlineError
            The engine cannot answer, or gave the answer up.
        """
        step = self.step
        async with contextlib.aclosing(self._live.engine.chat(request)) as events:  # type: ignore[type-var]
            async for event in events:
                if isinstance(event, Started):
                    step.started = event
                    await self._begun(event)
                elif isinstance(event, Done):
                    step.done = _ended(event)
                elif await self._circles(event):
                    break
        await self._take(self._thoughts.finish())
        if step.done is None:
            if not step.circling:
                raise BackendError(
                    "the engine ended an answer without saying how", code="backend.protocol", remedy="Ask again"
                )
            step.done = Done(outcome=Outcome.LENGTH, text=step.text, predicted_tokens=self._pieces, total_ms=0.0)
        return step

    async def _circles(self, delta: Delta) -> bool:
        """Take a piece and tell whether the reply goes round in circles; what a call writes into a file may."""
        self._pieces += 1
        await self._take(self._thoughts.feed(delta.text))
        self.step.circling = circles(self.step.said if self.step.text else self.step.thought)
        return self.step.circling

    async def _take(self, parts: list[Part]) -> None:
        for part in parts:
            if part.thought:
                await self._think(part.text)
            else:
                self.step.text += part.text
                if text := self._reader.feed(part.text):
                    await self.say(text)

    async def say(self, text: str) -> None:
        """Show more of the answer; the whole record goes with its first piece."""
        meta = self._short() if self.step.said else self._meta()
        self.step.said += text
        await self._live.tell(updates.chunk("agent_message", text, self.step.message_id, meta))

    async def _think(self, text: str) -> None:
        self.step.thought += text
        await self._live.tell(updates.chunk("agent_thought", text, self._thought_id, self._short()))

    def _short(self) -> Json:
        record = self._meta()["warmline"]
        return updates.short_provenance(record["variant"], record["identity"])


def _ended(done: Done) -> Done:
    if done.outcome in (Outcome.STOP, Outcome.LENGTH):
        return done
    raise BackendError(
        f"the answer was given up: {done.outcome}",
        code="backend.superseded" if done.outcome is Outcome.SUPERSEDED else "backend.cancelled",
        remedy="Ask again",
    )
