"""Programs as a Hypothesis state machine, and as a seeded loop for long runs."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from .oracle import Oracle
from .run import Run, program
from .world import LIMITS, Op, World, operations, random_program


def machine(
    world: World, oracle: Oracle, folder: Path, tally: Counter[str], *, strict: bool = True
) -> type[RuleBasedStateMachine]:
    """Return a machine whose runs are programs on this world."""

    class Programs(RuleBasedStateMachine):
        run: Run | None = None

        def _start(self, **limits: Any) -> None:
            self.run = Run(world, oracle, folder, tally, strict=strict, **limits)

        start = _decorated(initialize, LIMITS, _start)

        def teardown(self) -> None:
            if self.run is not None:
                with program(self.run):
                    pass

    for op in operations(world):
        for copy in range(op.weight):
            setattr(Programs, f"{op.name}_{copy}" if copy else op.name, _rule(op))
    return Programs


def _rule(op: Op) -> Any:
    def step(self: Any, **arguments: object) -> None:
        self.run.do(op.name, arguments)

    step.__name__ = op.name
    return _decorated(rule, op.arguments, step)


def _decorated(decorator: Any, arguments: Mapping[str, Sequence[object]], function: Callable[..., None]) -> Any:
    return decorator(**{name: st.sampled_from(values) for name, values in arguments.items()})(function)


def run_seeded(
    world: World, oracle: Oracle, folder: Path, tally: Counter[str], seed: str, *, steps: int, strict: bool = True
) -> None:
    """Run one program that a seed draws; raises AssertionError with the program when something does not hold."""
    limits, drawn = random_program(world, random.Random(seed), steps)
    with program(Run(world, oracle, folder, tally, strict=strict, **limits)) as run:
        for at, (name, arguments) in enumerate(drawn):
            try:
                run.do(name, arguments)
            except AssertionError as error:
                error.add_note(f"program {seed}, step {at}: {limits} {drawn[: at + 1]}")
                raise
