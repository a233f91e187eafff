"""What happened in a session, entry by entry: kept on disk, replayed to clients, and told to the model."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field
from warmline.host.wire import ChatTurn
from warmline.variant import Reasoning

from . import updates
from .formats import FORMATS, NEUTRAL, Format
from .plans import Answer, BadPlan

Json = dict[str, Any]
_MOST_SHOWN: Final = 4_000  # characters
_UNANSWERED: Final = "[no answer was given]"
_TOO_LARGE: Final = "[too large to be kept with the session]"


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Asked(_Entry):
    """What a person said: as it came, and as text for the model."""

    kind: Literal["asked"] = "asked"
    blocks: list[Json]
    text: str


class _Decoded(_Entry):
    """What the model decoded: in which format, to the letter and without its thought, and what it thought before."""

    decoded: str
    format: str = NEUTRAL.name
    thought: str = ""


class Answered(_Decoded):
    """What the agent said, and who it was."""

    kind: Literal["answered"] = "answered"
    text: str
    meta: Json
    message_id: str


class Used(_Decoded):
    """A tool at work: what the model was told, and the finished tool call."""

    kind: Literal["used"] = "used"
    result: str
    call: Json


class Planned(_Decoded):
    """A plan; it is a tool to the model and something of its own to clients."""

    kind: Literal["planned"] = "planned"
    result: str
    entries: list[Json]


class Noted(_Entry):
    """What Warmline itself said: notices, and answers of commands. The model is not told."""

    kind: Literal["noted"] = "noted"
    text: str


Entry = Annotated[Asked | Answered | Used | Planned | Noted, Field(discriminator="kind")]


def replay(entries: Iterable[Entry]) -> list[Json]:
    """Give the updates that tell a client the whole history."""
    told: list[Json] = []
    for entry in entries:
        if isinstance(entry, Asked):
            told += [{"sessionUpdate": "user_message_chunk", "content": block} for block in entry.blocks]
        elif isinstance(entry, Answered):
            told += _thought(entry)
            told.append(updates.chunk("agent_message", entry.text, entry.message_id, entry.meta))
        elif isinstance(entry, Used):
            told += _thought(entry)
            told.append({"sessionUpdate": "tool_call", **entry.call})
        elif isinstance(entry, Planned):
            told += _thought(entry)
            told.append(updates.plan(entry.entries))
        else:
            told.append(updates.chunk("agent_message", entry.text))
    return told


def _thought(entry: Answered | Used | Planned) -> list[Json]:
    return [updates.chunk("agent_thought", entry.thought)] if entry.thought else []


def messages(
    system: str, entries: Sequence[Entry], format_: Format = NEUTRAL, reasoning: Reasoning | None = None
) -> tuple[ChatTurn, ...]:
    """Give what the model is told, roles in turn: what follows only appends, so that its KV stays warm.

    What was decoded in another format is written in this one. Thoughts are told only where they are to be kept.
    """
    turns = [ChatTurn(role="system", content=system)]
    for entry in entries:
        if isinstance(entry, Asked):
            if turns[-1].role in ("user", "tool"):  # a turn that was cancelled: what it asked for is not asked again
                turns.append(format_.said(Answer(_UNANSWERED), None))
            turns.append(ChatTurn(role="user", content=entry.text))
        elif not isinstance(entry, Noted):
            turns.append(_said(entry, format_, reasoning))
            if not isinstance(entry, Answered):
                turns.append(format_.result(entry.result))
    joined: list[ChatTurn] = []
    for turn in turns:
        last = joined[-1] if joined else None
        # A cancelled answer's pieces, and steps of two formats: templates want roles in turn.
        if last is not None and last.role == turn.role != "tool" and last.call is None and turn.call is None:
            joined[-1] = ChatTurn(role=turn.role, content=f"{last.content}\n\n{turn.content}")
        else:
            joined.append(turn)
    return tuple(joined)


def _said(entry: Answered | Used | Planned, format_: Format, reasoning: Reasoning | None) -> ChatTurn:
    own = FORMATS.get(entry.format, NEUTRAL)
    try:
        plan = own.parse(entry.decoded)
    except BadPlan:
        plan = Answer(entry.decoded)
    turn = format_.said(plan, entry.decoded if own is format_ else None)
    if reasoning is None or not reasoning.keep or not entry.thought:
        return turn
    return turn.model_copy(update={"content": f"{reasoning.open}{entry.thought}{reasoning.close}{turn.content}"})


def slimmed(entry: Entry) -> Entry:
    """Give an entry without what is kept only to be shown to people again, where that is large."""
    if isinstance(entry, Asked) and len(json.dumps(entry.blocks)) > _MOST_SHOWN:
        text = f"{entry.text[:_MOST_SHOWN]}\n{_TOO_LARGE}"
        return entry.model_copy(update={"blocks": [{"type": "text", "text": text}]})
    if isinstance(entry, Used) and len(json.dumps(entry.call)) > _MOST_SHOWN:
        call = {key: value for key, value in entry.call.items() if key != "rawInput"}
        return entry.model_copy(update={"call": {**call, "content": [updates.text_content(_TOO_LARGE)]}})
    return entry


def size(entry: Entry) -> int:
    """Give about how many bytes an entry takes on disk."""
    return len(json.dumps(entry.model_dump(mode="json")))
