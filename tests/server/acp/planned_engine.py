"""An engine that decodes what a test planned, a few characters at a time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

from scripted import ScriptedEngine, describe, identity
from warmline.capacity import Capacity
from warmline.errors import PromptError
from warmline.host.wire import (
    ChatRequest,
    ContextStatus,
    Delta,
    Done,
    EngineStatus,
    Event,
    Outcome,
    Started,
    State,
    VariantStatus,
)
from warmline.variant import ResolvedVariant

TRAINED = 8192


def call(tool: str, **arguments: Any) -> str:
    """A plan that uses a tool."""
    return json.dumps({"tool": tool, "arguments": arguments})


def answer(text: str) -> str:
    """A plan that answers."""
    return json.dumps({"answer": text})


class PlannedEngine(ScriptedEngine):
    """Says `plans` one after the other, then the last one again and again; `reply`, if set, decides by the request.

    `gate`, if set, is waited for before each piece; `room` is the number of messages that fit; `cut` ends a plan after
    so many characters, as a limit of tokens would.
    """

    def __init__(self, *plans: str) -> None:
        super().__init__()
        self.plans = list(plans)
        self.reply: Callable[[ChatRequest], str] | None = None
        self.cut: int | None = None
        self.tokens = 3
        self.pieces_sent = 0
        self.running = 0
        self.now = EngineStatus(state=State.READY)

    async def chat(self, request: ChatRequest) -> AsyncIterator[Event]:
        self.chats.append(request)
        if self.error is not None:
            raise self.error
        if self.room is not None and len(request.messages) > self.room:
            raise PromptError("too long", code="prompt.room")
        text = self.reply(request) if self.reply else self.plans.pop(0) if len(self.plans) > 1 else self.plans[0]
        self.running += 1
        try:
            yield Started(
                identity=identity(request.variant),
                prompt_tokens=20 * len(request.messages),
                reused_tokens=20 * (len(request.messages) - 1),
                reason="prefix:8/20",
                fim="none",
                ttft_ms=1.0,
            )
            self.asked.set()
            said = text if self.cut is None else text[: self.cut]
            for at in range(0, len(said), 3):
                if self.gate is not None:
                    await self.gate.wait()
                await asyncio.sleep(0)
                self.pieces_sent += 1
                yield Delta(text=said[at : at + 3])
            outcome = Outcome.STOP if said == text else Outcome.LENGTH
            yield Done(outcome=outcome, text=said, predicted_tokens=self.tokens, total_ms=2.0)
        finally:
            self.running -= 1
            self.chats_ended.append(request)

    async def describe(self, variant: ResolvedVariant) -> VariantStatus:
        if self.error is not None:
            raise self.error
        n_ctx = min(variant.profile.n_ctx, TRAINED)
        clamped = variant.profile.n_ctx > TRAINED
        capacity = Capacity(1, 0, 1, n_ctx, n_ctx, variant.profile.n_ctx, TRAINED, clamped)
        context = ContextStatus(n_ctx=n_ctx, clamped=clamped)
        return describe(variant).model_copy(update={"context": context, "capacity": capacity})
