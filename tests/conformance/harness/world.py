"""What a backend must offer to be held to the suite: variants whose files may change, sessions, and replays."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

from warmline.backends.base import Session, Step
from warmline.identity import Identity

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Lineage = tuple[Step | tuple[Literal["moved"], int], ...]


@dataclass(frozen=True)
class PromptSpec:
    """A prompt as (stem, tokens of it, tail, tokens of it), so that many prompts share beginnings of many lengths."""

    stem: int
    stem_tokens: int
    tail: int
    tail_tokens: int


class World(Protocol):
    """A base with its variants, as one backend runs them. All sessions record their lineage."""

    variants: Sequence[str]
    adapters: Sequence[str]
    # Whether any end of the KV can be taken off, so that what is shared is always reused.
    trims: bool
    # Whether KV that is restored lies elsewhere than where it was computed: sums are then taken in another order, and
    # a replay has to move it too.
    moves: bool
    # How much of a stem prompts take, and how long a prompt may get.
    stem_tokens: Sequence[int]
    longest: int
    # About, in a snapshot.
    bytes_per_token: int

    def prompt(self, spec: PromptSpec) -> tuple[int, ...]:
        """Return the tokens; never empty."""

    def tail(self, number: int, tokens: int) -> tuple[int, ...]:
        """Return the first tokens of a tail."""

    def identity(self, variant: str) -> Identity:
        """Verify the variant's files as they are now."""

    def open(self, variant: str) -> Session:
        """Make a session for the variant as it was last verified."""

    def replay(self, identity: Identity, lineage: Lineage) -> Iterator[NDArray[np.float32]]:
        """Do the calls in a fresh context under the identity's adapters; yield the logits after each decode."""

    def elsewhere(self, identity: Identity, lineage: Lineage) -> str:
        """Do the calls in a fresh process; return the `fingerprint` of the last logits."""

    def stop_inside(self, session: Session, polls: int) -> AbstractContextManager[None]:
        """Stop a decode of the session, in the middle of native work, at the poll of that number."""

    def reset(self) -> None:
        """Put the first bytes of every adapter in place."""

    def replace(self, adapter: str) -> None:
        """Put other bytes in place of the adapter's file; the next time, the first ones again."""

    def reload(self) -> None:
        """Let go of the model and load it anew. All sessions were closed before."""

    def close(self) -> None:
        """Free everything."""


@dataclass(frozen=True)
class Op:
    """One kind of step, how often it comes, and the values that its arguments may have."""

    name: str
    weight: int
    arguments: dict[str, Sequence[object]]


def operations(world: World) -> tuple[Op, ...]:
    """Return what programs on this world consist of."""
    prompts = [
        PromptSpec(stem, stem_tokens, tail, tail_tokens)
        for stem in (0, 1)
        for stem_tokens in world.stem_tokens
        for tail in (0, 1, 2)
        for tail_tokens in (1, 5, 12, 24)
    ]
    asked: dict[str, Sequence[object]] = {"variant": world.variants, "prompt": prompts, "place": (0, 1, 2)}
    found = [
        Op("ask", 5, {**asked, "decodes": (0, 1, 2, 3)}),
        Op("again", 6, {"which": (1, 2, 3, 4), "place": (0, 1, 2), "tail_tokens": (0, 0, 1, 5), "decodes": (0, 1)}),
        Op("go_on", 4, {"place": (0, 1, 2), "tail": (0, 1, 2), "tail_tokens": (1, 2, 7), "decodes": (0, 1, 2)}),
        Op("switch", 3, {"variant": world.variants, "place": (0, 1, 2), "decodes": (0, 1)}),
        Op("cancel", 3, {**asked, "batches": (0, 1, 2, 3)}),
        Op("stop_inside", 1, {**asked, "polls": (0, 3, 17, 50)}),
        Op(
            "interrupt",
            3,
            {
                **asked,
                "batches": (1, 2, 3, 4),
                "other_variant": (None, *world.variants),
                "other_prompt": prompts,
                "other_place": (1, 2, 3),
            },
        ),
        Op("evict_all", 2, {}),
        Op("to_disk", 2, {"limit": (1, 8)}),
        Op("forget_ram", 2, {}),
        Op("restart", 3, {"saves": (True, True, True, False), "reloads": (*([False] * 11), True)}),
        Op("damage", 1, {"place": tuple(range(0, 1000, 90))}),
        Op("purge", 1, {}),
    ]
    if world.adapters:
        found.append(Op("replace", 2, {"adapter": world.adapters}))
    return tuple(found)


LIMITS: dict[str, Sequence[int]] = {
    "max_live": (1, 2, 4),
    # In bytes of KV of this many tokens; the run turns them into bytes.
    "ram_tokens": (0, 150, 2000, 2000),
    "disk_tokens": (0, 300, 4000, 4000),
}


def random_program(
    world: World, rng: random.Random, steps: int
) -> tuple[dict[str, Any], list[tuple[str, dict[str, object]]]]:
    """Draw the limits and the steps of one program."""
    limits = {name: rng.choice(values) for name, values in LIMITS.items()}
    known = operations(world)
    drawn = rng.choices(known, [op.weight for op in known], k=steps)
    return limits, [(op.name, {name: rng.choice(values) for name, values in op.arguments.items()}) for op in drawn]
