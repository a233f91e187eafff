"""All that the model is told in a step: how to speak, an outline of what it no longer sees, and what it still sees."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, zip_longest

from warmline.host.wire import ChatTurn
from warmline.variant import Profile

from ..characters import whole
from .formats import Format, format_of
from .live import Live
from .shortening import outline
from .tools import BUILT_IN
from .tools.tool import Tool
from .transcript import messages


def told(live: Live, profile: Profile, n_ctx: int) -> tuple[ChatTurn, ...]:
    """Give the messages of a session as a variant with this profile, in a context of `n_ctx` tokens, is told them."""
    format_ = format_of(profile)
    tools = offered(live, format_, n_ctx)
    parts = (whole(format_.system_prompt(live.cwd, tools)), outline(live.record, n_ctx))
    system = "\n\n".join(part for part in parts if part)
    return messages(system, live.record.seen(), format_, profile.reasoning)


def offered(live: Live, format_: Format, n_ctx: int) -> tuple[Tool, ...]:
    """Give the tools that the model is told of: the agent's own, and of servers' tools as many as there is room for.

    They get about a quarter of the context of `n_ctx` tokens, at some four characters a token: the first tool of each
    server first, then the second ones. What there is no room for is left out, whoever has the session open is told.
    """
    room, chosen = n_ctx, set[str]()
    for tool in _by_turns(list(live.servers.tools.values())):
        size = format_.characters(tool)
        if size <= room:
            room -= size
            chosen.add(tool.name)
    return (*BUILT_IN, *(tool for tool in live.tools if tool.name in chosen))


def left_out(live: Live, format_: Format, n_ctx: int) -> list[str]:
    """Name the tools of servers that the context has no room for."""
    known = {tool.name for tool in offered(live, format_, n_ctx)}
    return [tool.name for tool in live.tools if tool.name not in known]


def _by_turns(groups: Sequence[Sequence[Tool]]) -> list[Tool]:
    return [tool for tool in chain.from_iterable(zip_longest(*groups)) if tool is not None]
