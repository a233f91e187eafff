"""What happened in a session, entry by entry: kept on disk, replayed to clients, and told to the model."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from warmline.host.wire import ChatTurn

from . import updates

Json = dict[str, Any]


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Asked(_Entry):
    """What a person said: as it came, and as text for the model."""

    kind: Literal["asked"] = "asked"
    blocks: list[Json]
    text: str


class Answered(_Entry):
    """What the agent said: the text, what the model really decoded, and who it was."""

    kind: Literal["answered"] = "answered"
    text: str
    decoded: str
    meta: Json
    message_id: str


class Used(_Entry):
    """A tool at work: what the model decoded, what it was told, and the finished tool call."""

    kind: Literal["used"] = "used"
    decoded: str
    result: str
    call: Json


class Planned(_Entry):
    """A plan; it is a tool to the model and something of its own to clients."""

    kind: Literal["planned"] = "planned"
    decoded: str
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
            told.append(updates.chunk("agent_message", entry.text, entry.message_id, entry.meta))
        elif isinstance(entry, Used):
            told.append({"sessionUpdate": "tool_call", **entry.call})
        elif isinstance(entry, Planned):
            told.append(updates.plan(entry.entries))
        else:
            told.append(updates.chunk("agent_message", entry.text))
    return told


def messages(system: str, entries: Sequence[Entry]) -> tuple[ChatTurn, ...]:
    """Give what the model is told, roles in turn: what follows only appends, so that its KV stays warm."""
    turns: list[tuple[str, str]] = [("system", system)]
    for entry in entries:
        if isinstance(entry, Asked):
            turns.append(("user", entry.text))
        elif isinstance(entry, Answered):
            turns.append(("assistant", entry.decoded))
        elif isinstance(entry, (Used, Planned)):
            turns += [("assistant", entry.decoded), ("user", entry.result)]
    joined: list[tuple[str, str]] = []
    for role, text in turns:
        if joined and joined[-1][0] == role:  # a turn that was cancelled has no answer; templates want one
            joined[-1] = (role, f"{joined[-1][1]}\n\n{text}")
        else:
            joined.append((role, text))
    return tuple(ChatTurn(role=role, content=text) for role, text in joined)


def size(entry: Entry) -> int:
    """Give about how many bytes an entry takes on disk."""
    return len(json.dumps(entry.model_dump(mode="json")))
