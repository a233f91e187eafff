"""`warmline.chat` and `warmline.explain`: a conversation with the variant, streamed, bounded, with KV of its own."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from pydantic import Field
from warmline.errors import BackendError, PromptError
from warmline.host.wire import ChatRequest, ChatTurn, Delta, Done, Outcome, Started
from warmline.identity import exact_decimal
from warmline.variant import ResolvedVariant

from ...repetition import circles
from ...thoughts import Part, Thoughts, parted
from ..context_text import about, selection
from ..conversations import bounded
from ..progress import Stream, Token
from .call import AboutDocument, Arguments, Call, Span

if TYPE_CHECKING:
    from ..session import Session

MAX_MESSAGE: Final = 1 << 20  # characters: far more than any context holds, far less than a request may be
# What a token is at least, in characters: a first guess at what fits, the engine says whether it does.
_CHARACTERS_PER_TOKEN: Final = 3
_EXPLAIN: Final = "Explain what this code does, briefly."


class Said(Arguments):
    """A message of before."""

    role: Literal["user", "assistant"]
    content: str = Field(min_length=1, max_length=MAX_MESSAGE)


class Attached(Arguments):
    """A part of an open document."""

    uri: str = Field(max_length=8192)
    range: Span


class ChatArguments(AboutDocument):
    """What `warmline.chat` takes. `conversation` is the client's own name for it; a new one where it is absent.

    With a `uri` of an open document its text around `range` goes along; with `attached`, exactly these parts. `history`
    is what was said before, questions and answers in turn, for a server that does not know the conversation (any more).
    The text streams to `partialResultToken`.
    """

    message: str = Field(min_length=1, max_length=MAX_MESSAGE)
    conversation: str | None = Field(default=None, min_length=1, max_length=200)
    range: Span | None = None
    variant: str | None = Field(default=None, max_length=80)
    attached: tuple[Attached, ...] = Field(default=(), max_length=16)
    history: tuple[Said, ...] = Field(default=(), max_length=1000)
    restart: bool = Field(default=False, description="Forget what was said before.")
    partial_result_token: Token | None = Field(default=None, alias="partialResultToken")


class ExplainArguments(ChatArguments):
    """What `warmline.explain` takes: the same, but it asks by itself."""

    message: str = Field(default=_EXPLAIN, min_length=1, max_length=MAX_MESSAGE)
    uri: str = Field(max_length=8192)
    range: Span


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer, and how it came about; `started` is None where it ended before it began.

    The text of `done` is without the thought. `repeats`: it went round in circles and was stopped.
    """

    started: Started | None
    done: Done
    thought: str = ""
    repeats: bool = False

    @property
    def outcome(self) -> str:
        """How it ended."""
        return "repeats" if self.repeats else str(self.done.outcome)


async def chat(call: Call) -> dict[str, Any]:
    """Say something and answer with the whole answer; it streams meanwhile. Nothing is kept of a cancelled turn."""
    return await _turn(call, call.arguments(ChatArguments))


async def explain(call: Call) -> dict[str, Any]:
    """Ask what the selected code does; otherwise as `chat`."""
    return await _turn(call, call.arguments(ExplainArguments))


async def _turn(call: Call, given: ChatArguments) -> dict[str, Any]:
    session = call.session
    place = call.place(given.uri)
    variant = call.variant(place, given.variant)
    name = given.conversation or uuid.uuid4().hex
    if given.restart:
        session.conversations.forget(name)
    conversation = session.conversations.get(name)
    parts = [await about(session, place, given.uri, given.range)]
    for part in given.attached:
        parts.append(await selection(session, call.document(part.uri), part.range))
    question = ChatTurn(role="user", content=given.message + "".join(parts))
    known = conversation.turns or tuple(ChatTurn(role=said.role, content=said.content) for said in given.history)
    before = (*known, question)
    kept = _bounded(session, variant, before)
    stream = call.stream(given.partial_result_token)
    stream.begin(f"{variant.name} answers")
    try:
        kept, answer = await _answer(session, variant, name, kept, stream)
    finally:
        stream.end()
    dropped = len(before) - len(kept)
    if answer.done.outcome not in (Outcome.CANCELLED, Outcome.SUPERSEDED):
        conversation.turns = (*kept, ChatTurn(role="assistant", content=_told(variant, answer)))
        conversation.dropped += dropped
    return {
        "conversation": name,
        "variant": variant.name,
        "adapters": _adapters(variant),
        "identity": answer.started.identity if answer.started else None,
        "text": answer.done.text,
        "thought": answer.thought,
        "outcome": answer.outcome,
        "reason": answer.started.reason if answer.started else None,
        "prompt_tokens": answer.started.prompt_tokens if answer.started else 0,
        "reused_tokens": answer.started.reused_tokens if answer.started else 0,
        "predicted_tokens": answer.done.predicted_tokens,
        "total_ms": answer.done.total_ms,
        "dropped_messages": conversation.dropped,
        "notice": _notice(dropped),
    }


async def _answer(
    session: Session, variant: ResolvedVariant, name: str, turns: tuple[ChatTurn, ...], stream: Stream
) -> tuple[tuple[ChatTurn, ...], Answer]:
    """Ask, with less and less of the conversation while it does not fit; return what was sent in the end."""
    while True:
        request = ChatRequest(
            client=session.client_id,
            conversation=name,
            variant=variant,
            messages=turns,
            max_tokens=session.settings.chat.max_tokens,
        )
        try:
            return turns, await ask(session, request, stream)
        except PromptError as error:
            if error.code != "prompt.room" or len(turns) < 3:
                raise
            turns = turns[max(2, len(turns) // 4 * 2) :]


async def ask(session: Session, request: ChatRequest, stream: Stream) -> Answer:
    """Run one turn; its text goes to the stream as it comes, thoughts apart (``kind`` is ``thought``).

    One that goes round in circles is stopped. Cancelling the task stops the decode within a token.

    Raises
    ------
    WarmlineError
        What the engine raises; ``backend.protocol`` when it ends without saying how.
    """
    started: Started | None = None
    thoughts = Thoughts(request.variant.profile.reasoning)
    said = {True: "", False: ""}

    def take(parts: Sequence[Part]) -> None:
        for part in parts:
            said[part.thought] += part.text
            stream.piece({"kind": "thought" if part.thought else "text", "text": part.text})

    begun, pieces = time.perf_counter(), 0
    events = (await session.engine()).chat(request)
    try:
        async for event in events:
            if isinstance(event, Started):
                started = event
                about_it = {"variant": request.variant.name, "adapters": _adapters(request.variant)}
                stream.piece({"kind": "started", **about_it, "identity": event.identity})
            elif isinstance(event, Delta):
                take(thoughts.feed(event.text))
                pieces += 1
                if circles(said[False] or said[True]):
                    ms = (time.perf_counter() - begun) * 1000
                    done = Done(outcome=Outcome.LENGTH, text=said[False], predicted_tokens=pieces, total_ms=ms)
                    return Answer(started, done, said[True], repeats=True)
            elif isinstance(event, Done):
                take(thoughts.finish())
                if started is not None:
                    session.recent.chatted(request.variant.name, started, event)
                thought, text = parted(event.text, request.variant.profile.reasoning)
                return Answer(started, event.model_copy(update={"text": text}), thought)
    finally:
        close = getattr(events, "aclose", None)
        if close is not None:
            await close()
    raise BackendError("the engine ended an answer without saying how", code="backend.protocol", remedy="Ask again")


def _told(variant: ResolvedVariant, answer: Answer) -> str:
    """Write an answer as the model is told of it in the next turn."""
    reasoning = variant.profile.reasoning
    if reasoning is None or not reasoning.keep or not answer.thought:
        return answer.done.text
    return f"{reasoning.open}{answer.thought}{reasoning.close}{answer.done.text}"


def _adapters(variant: ResolvedVariant) -> list[str]:
    """Name what is on top of the base, as ``name@scale``."""
    return [f"{adapter.name}@{exact_decimal(adapter.scale)}" for adapter in variant.adapters]


def _bounded(session: Session, variant: ResolvedVariant, turns: Sequence[ChatTurn]) -> tuple[ChatTurn, ...]:
    chat = session.settings.chat
    room = max(variant.profile.n_ctx - chat.max_tokens, variant.profile.n_ctx // 2) * _CHARACTERS_PER_TOKEN
    return bounded(turns, chat.history_messages, min(chat.history_characters, room))


def _notice(dropped: int) -> str | None:
    if not dropped:
        return None
    messages = f"The oldest {dropped} messages are" if dropped > 1 else "The oldest message is"
    return f"{messages} no longer part of this conversation: it is longer than what the model can be given."
