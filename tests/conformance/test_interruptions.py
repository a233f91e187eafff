"""A generation that is interrupted anywhere by another of the same identity gives the text it would have given."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from harness.llama_world import LlamaWorld
from harness.world import PromptSpec
from warmline.backends.base import Abort
from warmline.backends.llama_session import LlamaSession
from warmline.generation import Limits, generate
from warmline.kv.pool import ContextPool
from warmline.variant import Sampling

pytestmark = pytest.mark.model

CHAT, COMPLETION = PromptSpec(1, 90, 0, 12), PromptSpec(0, 64, 1, 12)
LIMITS = Limits(max_tokens=6, stop_ids=frozenset())


class Silent:
    def started(self, reused: int) -> None: ...

    def soon(self, catch_up: object) -> None: ...

    def text(self, piece: str) -> None: ...


def chat(world: LlamaWorld, pool: ContextPool, session: LlamaSession) -> Iterator[str]:
    """Yield "" at each pause, the text at the end; the pool gives the KV back after each pause."""
    identity = world.identity("A")
    prompt = world.prompt(CHAT)
    pool.warm(identity, prompt, "chat")
    pool.pin(identity, "chat")
    steps = generate(session, world.model.piece, prompt, LIMITS, Sampling(), Abort(), Silent())
    while True:
        try:
            next(steps)
        except StopIteration as end:
            yield end.value.text
            return
        yield ""
        assert pool.retake(identity, "chat") is None


def opened(world: LlamaWorld) -> tuple[ContextPool, LlamaSession]:
    pool = ContextPool()
    session = pool.put(world.identity("A"), lambda: world.open("A"))
    assert isinstance(session, LlamaSession)
    return pool, session


def test_every_pause_can_be_filled(llama_world: LlamaWorld) -> None:
    pool, session = opened(llama_world)
    pauses = list(chat(llama_world, pool, session))
    text = pauses[-1]
    assert text
    assert len(pauses) > 8, "several batches, then a pause between any two tokens"
    pool.close()
    for at in range(len(pauses) - 1):
        pool, session = opened(llama_world)
        steps = chat(llama_world, pool, session)
        for _ in range(at + 1):
            assert next(steps) == ""
        prompt = llama_world.prompt(COMPLETION)
        pool.warm(llama_world.identity("A"), prompt, "document")
        session.prefill(prompt, Abort()).run()
        session.decode(7, Abort())
        assert list(steps)[-1] == text, f"interrupted at pause {at}"
        assert pool.counters["resumed"] == 1
        pool.close()
