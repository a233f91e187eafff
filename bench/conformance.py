"""Random programs against the warm pool on llama.cpp, seeded: every answer's logits are those of a replay, bit for bit.

    python bench/conformance.py [--programs 20000] [--first 0] [--seed 0] [--base cut|whole|gemma3] [--json]

The programs, the oracle and what counts as an error are those of tests/conformance (its state machine runs 500 of them
in CI). ``cut`` is SmolLM2-135M with its two example adapters, all cut to 2 of 30 layers and a twelfth of the tokens:
the same native code in a fraction of the time. ``whole`` is all of it, ``gemma3`` is Gemma 3 270M with 6 of 18 layers
and a window of 32 tokens. A program that fails is printed with its seed, and the run goes on; any failure makes the
exit status 1. Over an hour on one core: with ``--first`` a run goes on where another one ended, or a part of it runs on
another core.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.llama_world import LlamaWorld

_TESTS = Path(__file__).resolve().parents[1] / "tests"
# Behind all else: this folder holds a typing.py, and the standard library's must win.
sys.path = [entry for entry in sys.path if Path(entry or ".").resolve() != Path(__file__).resolve().parent]
sys.path += [str(_TESTS / "support"), str(_TESTS / "conformance")]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the programs; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=20_000)
    parser.add_argument("--first", type=int, default=0, help="number of the first program (0)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=8, help="of each program")
    parser.add_argument("--samples", type=int, default=10, help="answers that a fresh process replays at the end")
    parser.add_argument("--base", choices=("cut", "whole", "gemma3"), default="cut")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)

    from harness.machine import run_seeded
    from harness.oracle import Oracle

    tally, failed, began = Counter[str](), list[str](), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="warmline-conformance-") as folder:
        world = _worlds()[options.base](Path(folder))
        oracle = Oracle(world.replay, samples=options.samples)
        for number in range(options.first, options.first + options.programs):
            seed = f"{options.seed}:{number}"
            try:
                run_seeded(world, oracle, Path(folder, "kv"), tally, seed, steps=options.steps)
            except AssertionError as error:
                failed.append(seed)
                print(f"{error}\n{' '.join(getattr(error, '__notes__', ()))}", file=sys.stderr)
            if (number + 1) % 100 == 0:
                done = f"{number + 1 - options.first} programs, {time.monotonic() - began:.0f} s, {len(failed)} failed"
                print(done, file=sys.stderr, flush=True)
        elsewhere = Counter(world.elsewhere(identity, lineage) == found for identity, lineage, found in oracle.samples)
        world.close()
    report = {
        "base": options.base,
        "seed": options.seed,
        "first": options.first,
        "seconds": round(time.monotonic() - began, 1),
        "programs failed": failed,
        "replayed in a fresh context": oracle.replayed,
        "equal in a fresh process": elsewhere[True],
        "other in a fresh process": elsewhere[False],
        "mismatches": tally.pop("mismatches", 0),
        **dict(sorted(tally.items())),
    }
    if options.json:
        print(json.dumps(report))
    else:
        for name, value in report.items():
            print(f"{name:<30} {value}")
    return 1 if failed or elsewhere[False] else 0


def _worlds() -> dict[str, Callable[[Path], LlamaWorld]]:
    from harness.smollm2_world import cut_world, whole_world

    def gemma3(folder: Path) -> LlamaWorld:
        from harness.gemma3_world import cut_world as sliding

        return sliding(folder)

    return {"cut": cut_world, "whole": whole_world, "gemma3": gemma3}


if __name__ == "__main__":
    sys.exit(main())
