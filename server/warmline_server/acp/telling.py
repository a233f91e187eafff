"""All that the model is told in a step: how to speak, an outline of what it no longer sees, and what it still sees."""

from __future__ import annotations

from warmline.host.wire import ChatTurn
from warmline.variant import Profile

from .formats import format_of
from .live import Live
from .shortening import outline
from .transcript import messages


def told(live: Live, profile: Profile, n_ctx: int) -> tuple[ChatTurn, ...]:
    """Give the messages of a session as a variant with this profile, in a context of `n_ctx` tokens, is told them."""
    format_ = format_of(profile)
    parts = (format_.system_prompt(live.cwd, live.tools), outline(live.record, n_ctx))
    system = "\n\n".join(part for part in parts if part)
    return messages(system, live.record.seen(), format_, profile.reasoning)
