"""A variant that answers a suite's tasks by the ways that an editor and the agent use."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from warmline.errors import BackendError
from warmline.evaluation.run import Reply
from warmline.evaluation.tasks import AnyTask, Header, Hole, Reason, Smoke, Style, ToolSpec, ToolUse
from warmline.host.client import EngineClient
from warmline.host.wire import ChatRequest, ChatTurn, Done, Outcome, Started
from warmline.prompts.window import WindowLimits
from warmline.variant import Reasoning, ResolvedVariant

from .acp.formats import Held, format_of
from .acp.plans import Answer, BadPlan, ToolCall
from .acp.tools.tool import Action, Place
from .cli.document import opened
from .completion import complete
from .thoughts import parted

_CLIENT: Final = "evaluation"
_FOLDER: Final = "/project"
_FREE: Final = Held(None)


class Answerer:
    """`warmline.evaluation.run.Side` over an engine.

    Parameters
    ----------
    engine
        One with a `ColdPool`: what was asked before must not matter.
    identity
        What the variant is as the evaluation begins.
    header
        How much the model gets and may write.
    """

    def __init__(self, engine: EngineClient, variant: ResolvedVariant, identity: str, header: Header) -> None:
        self._engine = engine
        self._variant = variant
        self._identity = identity
        self._header = header

    @property
    def identity(self) -> str:
        """Digest of the exact variant, as it was when the evaluation began."""
        return self._identity

    async def ask(self, task: AnyTask) -> Reply:
        """Answer a task; raises what the engine raises."""
        if isinstance(task, Hole):
            return await self._complete(task)
        if isinstance(task, Style):
            return await self._complete(task.hole)
        if isinstance(task, Smoke):
            if task.complete:
                return await self._complete(Hole(id=task.id, path=task.path, before=task.complete, wanted=" "))
            reply = _plain(await self._chat(task, task.say))
            return replace(reply, text=parted(reply.text or "", self._variant.profile.reasoning)[1])
        if isinstance(task, Reason):
            return thought_apart(_plain(await self._chat(task, task.say)), self._variant.profile.reasoning)
        assert isinstance(task, ToolUse)
        return await self._use_tools(task)

    async def _complete(self, hole: Hole) -> Reply:
        before, after = self._header.lines_before, self._header.lines_after
        limits = WindowLimits(prefix_lines=before, suffix_lines=after, step=max(1, min(before, after)))
        line = hole.before.count("\n")
        column = len(hole.before) - hole.before.rfind("\n") - 1
        document = opened(Path(_FOLDER, hole.path), hole.before + hole.after)
        found = await complete(
            self._engine,
            self._variant,
            document.snapshot,
            line,
            column,
            limits=limits,
            client=_CLIENT,
            document=hole.id,
            language=document.snapshot.language_id,
            path=hole.path,
            max_tokens=self._header.max_tokens,
        )
        if found.started is None:
            raise _unanswered(found.reason)
        return Reply(found.text, found.started.identity, found.total_ms, note=found.reason)

    async def _use_tools(self, task: ToolUse) -> Reply:
        tools = [_Offered(tool) for tool in task.tools]
        profile = self._variant.profile
        format_ = format_of(profile)
        held = format_.held(tools, "ask", only_answer=False)
        system = format_.system_prompt(Path(_FOLDER), tools)
        started, done, ms = await self._chat(task, task.say, system=system, held=held)
        if done.outcome is Outcome.LENGTH:
            return Reply(None, started.identity, ms, well_formed=False, note="cut off before it was whole")
        try:
            plan = format_.parse(parted(done.text, profile.reasoning)[1])
        except BadPlan as error:
            return Reply(None, started.identity, ms, well_formed=False, note=str(error))
        if isinstance(plan, ToolCall):
            return Reply(None, started.identity, ms, tool=plan.name, arguments=plan.arguments, note=done.text)
        assert isinstance(plan, Answer)
        return Reply(plan.text, started.identity, ms)

    async def _chat(
        self, task: AnyTask, say: str, *, system: str = "", held: Held = _FREE
    ) -> tuple[Started, Done, float]:
        turns = [ChatTurn(role="system", content=system)] if system else []
        request = ChatRequest(
            client=_CLIENT,
            conversation=task.id,
            variant=self._variant,
            messages=(*turns, ChatTurn(role="user", content=say)),
            max_tokens=self._header.max_tokens,
            json_schema=held.json_schema,
            form=held.form,
            tools=held.tools,
        )
        begun = time.perf_counter()
        started = done = None
        async for event in self._engine.chat(request):
            if isinstance(event, Started):
                started = event
            elif isinstance(event, Done):
                done = event
        if started is None or done is None:
            raise _unanswered("no answer")
        return started, done, (time.perf_counter() - begun) * 1000


def thought_apart(reply: Reply, marks: Reasoning | None) -> Reply:
    """Part a thought from the answer: well formed is one thought, whole, with an answer behind it and no mark in that.

    Where the profile says nothing of thoughts, no thought is apart from anything, and no reply is well formed.
    """
    text = reply.text or ""
    if marks is None:
        return replace(reply, well_formed=False, note="the profile says nothing of thoughts")
    head, closed, answer = text.partition(marks.close)
    opened_once = marks.prompted or (head.lstrip().startswith(marks.open) and head.count(marks.open) == 1)
    stray = marks.open in answer or marks.close in answer
    whole = bool(closed) and opened_once and not stray and bool(answer.strip())
    shown = answer.strip() if closed else None
    note = reply.note if whole else "the thought is not apart from the answer"
    return Reply(shown, reply.identity, reply.ms, well_formed=whole, note=note)


def _plain(answered: tuple[Started, Done, float]) -> Reply:
    started, done, ms = answered
    return Reply(done.text, started.identity, ms, note=str(done.outcome))


def _unanswered(why: str) -> BackendError:
    return BackendError(
        f"the engine did not answer: {why}", code="backend.protocol", remedy="Run the same command again"
    )


class _Offered:
    """A tool that is only offered: what counts is whether it is called, and nothing is done."""

    effect: Final = "read"

    def __init__(self, spec: ToolSpec) -> None:
        self.name = spec.name
        self.schema = spec.parameters
        names: Sequence[str] = list(spec.parameters.get("properties", {}))
        self.usage = f"{spec.name}({', '.join(names)}): {spec.description}"

    async def prepare(self, arguments: dict[str, Any], place: Place) -> Action:
        raise NotImplementedError("no tool of a suite is ever used")
