"""One turn: the model decides, a tool works or the person is asked, the model goes on, until it answers."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from warmline.errors import BackendError, PromptError
from warmline.host.wire import ChatRequest, ChatTurn, Delta, Done, Outcome, Started, VariantStatus
from warmline.variant import ResolvedVariant

from ..labels import warmth
from ..lsp.status import LastReport
from . import updates
from .blocks import understood
from .live import Live
from .permissions import Withdrawn
from .plans import PLAN_TOOL, Answer, AnswerText, BadPlan, ToolCall, as_answer, parse_plan, plan_schema, system_prompt
from .shortening import make_room
from .tool_calls import show_plan, use_tool
from .transcript import Answered, Asked, Entry, Noted, messages

Json = dict[str, Any]
_REPAIR: Final = (
    'That was no valid reply: {what}. Reply with one JSON object: {{"tool": NAME, "arguments": {{...}}}} '
    'or {{"answer": TEXT}}.'
)
_GIVEN_UP: Final = "The model's reply could not be understood, twice in a row. Nothing was done with it."
_CUT: Final = "The model's reply was cut off before it was whole. Nothing was done with it."


@dataclass(frozen=True, slots=True)
class Limits:
    """What one turn may take. `step_tokens` is at most a quarter of the context; `tokens` count over all steps."""

    steps: int = 25
    step_tokens: int = 1024
    tokens: int = 8192


@dataclass(slots=True)
class Step:
    """One thing that the model decoded; `said` is what of it was shown to the person already."""

    started: Started | None = None
    done: Done | None = None
    said: str = ""
    message_id: str = ""


class Turn:
    """A turn of one session; `run` once. Cancelling the task that runs it stops the decode within a token."""

    def __init__(self, live: Live, limits: Limits) -> None:
        self._live = live
        self._limits = limits
        self._variant: ResolvedVariant
        self._status: VariantStatus
        self._started: Started | None = None
        self._repair: tuple[ChatTurn, ...] = ()

    @property
    def meta(self) -> Json:
        """Provenance of what answered last."""
        return updates.provenance(self._status, self._started)

    async def run(self, blocks: Sequence[Any]) -> Json:
        """Run the turn and give the prompt's response.

        Raises
        ------
        WarmlineError
            The variant cannot answer. Nothing is kept of a turn that fails before anything came of it.
        """
        live = self._live
        await live.servers.started()
        self._variant, self._status = await live.load()
        await live.tell_options()
        given = await understood(blocks, live.place)
        entries = live.record.entries
        before = len(entries)
        live.record.add(Asked(blocks=[_as_json(block) for block in blocks], text=given.text))
        try:
            for note in given.notes:
                await live.note(note)
            reason = await self._steps()
        except Withdrawn:
            reason = "cancelled"
        except Exception:
            if all(isinstance(entry, (Asked, Noted)) for entry in entries[before:]):
                del entries[before:]
            raise
        return {"stopReason": reason, "_meta": self.meta}

    async def _steps(self) -> str:
        spent = 0
        for _ in range(self._limits.steps):
            step = await self._decode()
            assert step.done is not None
            spent += step.done.predicted_tokens
            reason = await self._decided(step)
            if reason is not None:
                return reason
            if spent >= self._limits.tokens:
                await self._live.note(f"The turn is over: it took its {self._limits.tokens} tokens.")
                return "max_tokens"
        await self._live.note(f"The turn is over: it took its {self._limits.steps} steps.")
        return "max_turn_requests"

    async def _decided(self, step: Step) -> str | None:
        """Do what the model decided; the stop reason, or None to go on."""
        done = step.done
        assert done is not None
        cut = done.outcome is Outcome.LENGTH
        if cut and step.said:
            self._answered(step, step.said)
            return "max_tokens"
        try:
            plan = parse_plan(done.text)
            if isinstance(plan, ToolCall) and not self._knows(plan.name):
                raise BadPlan(f"there is no tool called {plan.name[:64]}")
        except BadPlan as error:
            if step.said:  # an answer whose end is missing is still what was said
                self._answered(step, step.said)
                return "end_turn"
            if self._repair:
                await self._live.note(_CUT if cut else _GIVEN_UP)
                return "max_tokens" if cut else "end_turn"
            what = "it was cut off, so be brief" if cut else str(error)
            self._repair = (_turn("assistant", done.text or "{}"), _turn("user", _REPAIR.format(what=what)))
            return None
        self._repair = ()
        if isinstance(plan, Answer):
            if not step.said and plan.text:
                await self._say(step, plan.text)
            self._answered(step, plan.text)
            return "end_turn"
        if plan.name == PLAN_TOOL:
            await show_plan(self._live, plan, done.text)
        else:
            await use_tool(self._live, plan, done.text)
        return None

    def _knows(self, name: str) -> bool:
        return name == PLAN_TOOL or any(tool.name == name for tool in self._live.tools)

    async def _decode(self) -> Step:
        while True:
            try:
                return await self._decode_once()
            except PromptError as error:
                dropped = make_room(self._live.record) if error.code == "prompt.room" else ""
                if not dropped:
                    raise
                await self._live.note(f"{dropped}: the context of {self._status.context.n_ctx} tokens is full.")

    async def _decode_once(self) -> Step:
        step = Step(message_id=str(uuid.uuid4()))
        found = AnswerText()
        try:
            async with contextlib.aclosing(self._live.engine.chat(self._request())) as events:  # type: ignore[type-var]
                async for event in events:
                    if isinstance(event, Started):
                        await self._begun(step, event)
                    elif isinstance(event, Delta):
                        if text := found.feed(event.text):
                            await self._say(step, text)
                    else:
                        step.done = event
        except asyncio.CancelledError:
            if step.said:
                self._answered(step, step.said)
            raise
        done = _ended(step.done)
        if step.started is not None:
            self._live.used = step.started.prompt_tokens + done.predicted_tokens
            self._live.last = _report(step.started, done)
            await self._live.tell(updates.usage(self._live.used, self._status.context.n_ctx))
        return step

    def _request(self) -> ChatRequest:
        live = self._live
        seen: Sequence[Entry] = live.record.seen()
        return ChatRequest(
            client=live.client_id,
            conversation=live.id,
            variant=self._variant,
            messages=(*messages(system_prompt(str(live.cwd), live.tools), seen), *self._repair),
            max_tokens=min(self._limits.step_tokens, max(64, self._status.context.n_ctx // 4)),
            json_schema=plan_schema(live.tools, live.record.head.mode),
        )

    async def _begun(self, step: Step, started: Started) -> None:
        step.started = self._started = started
        if started.identity != self._status.identity:  # a file changed after it was described
            self._status = await self._live.engine.describe(self._variant)
            self._live.status = (self._variant, self._status)
            await self._live.tell_options()

    async def _say(self, step: Step, text: str) -> None:
        identity = step.started.identity if step.started is not None else self._status.identity
        meta = updates.short_provenance(self._status.variant, identity) if step.said else self.meta
        step.said += text
        await self._live.tell(updates.chunk("agent_message", text, step.message_id, meta))

    def _answered(self, step: Step, text: str) -> None:
        # What was decoded, to the letter, has its KV already.
        whole = step.done is not None and step.done.outcome is Outcome.STOP
        decoded = step.done.text if step.done is not None and whole else as_answer(text)
        entry = Answered(text=text, decoded=decoded, meta=self.meta, message_id=step.message_id)
        self._live.record.add(entry)


def _ended(done: Done | None) -> Done:
    if done is None:
        raise BackendError("the engine ended an answer without saying how", code="backend.protocol", remedy="Ask again")
    if done.outcome in (Outcome.STOP, Outcome.LENGTH):
        return done
    raise BackendError(
        f"the answer was given up: {done.outcome}",
        code="backend.superseded" if done.outcome is Outcome.SUPERSEDED else "backend.cancelled",
        remedy="Ask again",
    )


def _report(started: Started, done: Done) -> LastReport:
    reused, prompt, reason = started.reused_tokens, started.prompt_tokens, started.reason
    return LastReport(
        reused_tokens=reused,
        prompt_tokens=prompt,
        reason=reason,
        ttft_ms=started.ttft_ms,
        total_ms=done.total_ms,
        warmth=warmth(reason, reused, prompt, estimated=started.reused_estimated),
    )


def _turn(role: str, content: str) -> ChatTurn:
    return ChatTurn(role=role, content=content)


def _as_json(block: Any) -> Json:
    data: Json = block.model_dump(mode="json", by_alias=True, exclude_none=True)
    return data
