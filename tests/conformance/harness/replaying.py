"""Does again, on a llama.cpp session, what another one recorded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from warmline.backends.llama_session import LlamaSession


def replay(session: LlamaSession, lineage: Iterable[Any]) -> Iterator[None]:
    """Do the calls one by one; pauses after each decode, when its logits are there."""
    for kind, what in lineage:
        if kind == "moved":
            session.restore(list(session.tokens), session.save())
        else:
            session.replay([(kind, what)])
        if kind == "decode":
            yield
