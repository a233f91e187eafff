"""One turn: the model decides, a tool works or the person is asked, the model goes on, until it answers."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from warmline.errors import PromptError
from warmline.host.wire import ChatRequest, ChatTurn, Outcome, Started, VariantStatus
from warmline.variant import ResolvedVariant

from ..lsp.status import LastReport
from . import updates
from .blocks import understood
from .formats import format_of
from .live import Live
from .modes import Effect
from .permissions import Withdrawn
from .plans import PLAN_TOOL, Answer, BadPlan, ToolCall
from .shortening import make_room
from .stalling import Stalling
from .steps import Decoding, Step
from .telling import left_out, offered, told
from .tool_calls import refuse_again, show_plan, use_tool
from .tools.tool import Tool
from .transcript import Answered, Asked, Noted, Planned, Used

Json = dict[str, Any]
_REPAIR: Final = "That was no valid reply: {what}. Reply with {how}."
_ANSWER_NOW: Final = "Answer the user now, with what you know; no more tools can be used."
_GIVEN_UP: Final = "The model's reply could not be understood, twice in a row. Nothing was done with it."
_CUT: Final = "The model's reply was cut off before it was whole. Nothing was done with it."
_LEFT_OUT: Final = (
    "The context of {n_ctx} tokens has no room for all tools of servers: the model is not told of {count} ({names}). "
    "A larger context (option Context) or fewer servers leave more room."
)
_MOST_NAMED: Final = 5
_CIRCLES: Final = "The answer only repeated itself and was stopped."


@dataclass(frozen=True, slots=True)
class Limits:
    """What one turn may take. `step_tokens` is at most a quarter of the context; `tokens` count over all steps.

    The last step that they leave is an answer in any case, and so is that of a turn which gets nowhere.
    """

    steps: int = 25
    step_tokens: int = 1024
    tokens: int = 8192


class Turn:
    """A turn of one session; `run` once. Cancelling the task that runs it stops the decode within a token."""

    def __init__(self, live: Live, limits: Limits) -> None:
        self._live = live
        self._limits = limits
        self._variant: ResolvedVariant
        self._status: VariantStatus
        self._loaded = False
        self._started: Started | None = None
        self._repair: tuple[ChatTurn, ...] = ()
        self._stalling = Stalling()
        self._answer_now = False

    @property
    def meta(self) -> Json:
        """Provenance of what answered last."""
        return updates.provenance(self._status, self._started)

    @property
    def known_meta(self) -> Json:
        """The same as a response's field; nothing before it is known what answers here."""
        return {"_meta": self.meta} if self._loaded else {}

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
        self._loaded = True
        self._format = format_of(self._variant.profile)
        await live.tell_options()
        await self._tell_left_out()
        given = await understood(blocks, live.place)
        entries = live.record.entries
        before, hidden = list(entries), live.record.head.hidden
        live.record.add(Asked(blocks=[_as_json(block) for block in blocks], text=given.text))
        try:
            for note in given.notes:
                await live.note(note)
            reason = await self._steps()
        except Withdrawn:
            reason = "cancelled"
        except Exception:
            if all(isinstance(entry, (Asked, Noted)) for entry in entries[len(before) :]):
                entries[:] = before
                live.record.change(hidden=hidden)  # room was made for nothing
            raise
        return {"stopReason": reason, "_meta": self.meta}

    @property
    def _tools(self) -> Sequence[Tool]:
        return offered(self._live, self._format, self._status.context.n_ctx)

    async def _tell_left_out(self) -> None:
        """Say which tools there is no room for, once; and again when they are others."""
        live, n_ctx = self._live, self._status.context.n_ctx
        names = left_out(live, self._format, n_ctx)
        if names != live.left_out:
            live.left_out = names
            if names:
                await live.note(_LEFT_OUT.format(n_ctx=n_ctx, count=len(names), names=_some(names)))

    async def _steps(self) -> str:
        spent, limits = 0, self._limits
        for number in itertools.count(1):
            out_of_tokens = spent >= limits.tokens - min(limits.step_tokens, limits.tokens // 4)
            last = number >= limits.steps or out_of_tokens
            self._answer_now = self._answer_now or last or self._stalling.stuck
            step = await self._decode()
            assert step.done is not None
            spent += step.done.predicted_tokens
            reason = await self._decided(step)
            if last:
                await self._live.note(_over(limits, out_of_tokens))
                return "max_tokens" if out_of_tokens else "max_turn_requests"
            if reason is not None:
                return reason
        raise AssertionError("a turn has a last step")

    async def _decided(self, step: Step) -> str | None:
        """Do what the model decided; the stop reason, or None to go on."""
        if step.cut and step.said:
            self._answered(step, step.said)
            if step.circling:
                await self._live.note(_CIRCLES)
            return "end_turn" if step.circling else "max_tokens"
        try:
            plan = self._format.parse(step.text)
            if isinstance(plan, ToolCall):
                self._check_call(plan)
        except BadPlan as error:
            return await self._misunderstood(step, str(error))
        self._repair = ()
        if isinstance(plan, Answer):
            rest = plan.text.removeprefix(step.said) if plan.text.startswith(step.said) else ""
            if rest:
                await self._decoding.say(rest)
            self._answered(step, plan.text)
            return "end_turn"
        await self._call(plan, step)
        return None

    async def _misunderstood(self, step: Step, what: str) -> str | None:
        if step.said:  # an answer whose end is missing is still what was said
            self._answered(step, step.said)
            return "end_turn"
        if self._answer_now:
            await self._live.note(_CUT if step.cut else _GIVEN_UP)
            return "max_tokens" if step.cut else "end_turn"
        if self._repair:
            self._answer_now = True
            self._repair = (*self._repair[:1], _user(_ANSWER_NOW))
            return None
        what = "it was cut off, so be brief" if step.cut else what
        repair = _user(_REPAIR.format(what=what, how=self._format.how))
        self._repair = (ChatTurn(role="assistant", content=step.text or "{}"), repair)
        return None

    def _check_call(self, plan: ToolCall) -> None:
        if self._answer_now:
            raise BadPlan("no more tools can be used")
        names = [*(tool.name for tool in self._tools), PLAN_TOOL]
        if plan.name not in names:
            raise BadPlan(f"there is no tool called {plan.name[:64]}; there are {', '.join(names)}")

    async def _call(self, plan: ToolCall, step: Step) -> None:
        decoded = {"decoded": step.text, "format": self._format.name, "thought": step.thought}
        effect: Effect = next((tool.effect for tool in self._live.tools if tool.name == plan.name), "read")
        if self._stalling.is_again(plan, effect):
            await refuse_again(self._live, plan, decoded, self._stalling.result(plan))
            return
        if plan.name == PLAN_TOOL:
            await show_plan(self._live, plan, decoded)
            worked = True
        else:
            worked = await use_tool(self._live, plan, decoded)
        last = self._live.record.entries[-1]
        result = last.result if isinstance(last, (Used, Planned)) else ""
        self._stalling.used(plan, effect, result, worked=worked)

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
        live = self._live
        self._decoding = Decoding(
            live, self._format, self._variant.profile.reasoning, begun=self._begun, meta=lambda: self.meta
        )
        try:
            step = await self._decoding.run(self._request())
        except asyncio.CancelledError:
            if self._decoding.step.said:
                self._answered(self._decoding.step, self._decoding.step.said)
            raise
        if step.started is not None and step.done is not None:
            live.used = step.started.prompt_tokens + step.done.predicted_tokens
            live.last = step.started.identity, LastReport.of(step.started, step.done.total_ms)
            await live.tell(updates.usage(live.used, self._status.context.n_ctx))
        return step

    def _request(self) -> ChatRequest:
        live = self._live
        held = self._format.held(self._tools, live.record.head.mode, only_answer=self._answer_now)
        said = told(live, self._variant.profile, self._status.context.n_ctx)
        return ChatRequest(
            client=live.client_id,
            conversation=live.id,
            variant=self._variant,
            messages=(*said, *self._repair),
            max_tokens=min(self._limits.step_tokens, max(64, self._status.context.n_ctx // 4)),
            json_schema=held.json_schema,
            form=held.form,
            tools=held.tools,
        )

    async def _begun(self, started: Started) -> None:
        self._started = started
        if started.identity != self._status.identity:  # a file changed after it was described
            self._status = await self._live.engine.describe(self._variant)
            self._live.status = (self._variant, self._status)
            await self._live.tell_options()

    def _answered(self, step: Step, text: str) -> None:
        # What was decoded, to the letter, has its KV already.
        whole = step.done is not None and step.done.outcome is Outcome.STOP
        decoded = step.text if whole else self._format.said(Answer(text), None).content
        self._live.record.add(
            Answered(
                text=text,
                decoded=decoded,
                format=self._format.name,
                thought=step.thought,
                meta=self.meta,
                message_id=step.message_id,
            )
        )


def _over(limits: Limits, out_of_tokens: bool) -> str:
    what = f"{limits.tokens} tokens" if out_of_tokens else f"{limits.steps} steps"
    return f"The turn is over: it took its {what}."


def _some(names: Sequence[str]) -> str:
    rest = len(names) - _MOST_NAMED
    return f"{', '.join(names[:_MOST_NAMED])}{f' and {rest} more' if rest > 0 else ''}"


def _user(content: str) -> ChatTurn:
    return ChatTurn(role="user", content=content)


def _as_json(block: Any) -> Json:
    data: Json = block.model_dump(mode="json", by_alias=True, exclude_none=True)
    return data
