"""OpenVINO under random programs: whatever ran before, an identity answers as a fresh pipeline of its own does.

KV cannot leave a pipeline, so there is nothing to save, restore or damage here: what is left to go wrong is the prefix
cache, identities that meet, cancelled requests, a file that was replaced, and pipelines that had to make room.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest
import smollm2
from openvino_variants import PEFT, Engine, Heard, variant
from safetensors_writer import lora_tensors, peft_config, peft_folder
from warmline.variant import ResolvedVariant

pytestmark = [pytest.mark.model, pytest.mark.slow]

SEED = 20261130
STEPS = 14
TEXT = (smollm2.ROOT / "examples/ledger.py").read_text()


class World:
    """The bare base and an adapter whose file changes, on prompts that share beginnings."""

    def __init__(self, folder: Path, base: Path) -> None:
        self._folder = folder
        self._base = base
        self._versions = [PEFT["acme"], peft_folder(folder / "other", _tensors(), peft_config())]
        self._at = 0
        self._own = folder / "own"
        self.replace()

    def replace(self) -> None:
        """Put other bytes in place of the adapter's."""
        self._at = 1 - self._at
        shutil.rmtree(self._own, ignore_errors=True)
        shutil.copytree(self._versions[self._at], self._own)

    def variant(self, number: int) -> ResolvedVariant:
        return (variant(self._base), variant(self._base, self._own))[number]

    def prompt(self, rng: random.Random) -> str:
        lines = TEXT.splitlines(keepends=True)
        return "".join(lines[: rng.choice((6, 12, 20))]) + rng.choice(("", "x = ", "def add(a, b):\n    return "))


def _tensors() -> dict[str, object]:
    return lora_tensors({f"model.layers.{n}.self_attn.v_proj": (576, 192) for n in range(30)}, seed=3)


def test_every_answer_is_a_fresh_pipelines(openvino_base: Path, tmp_path: Path) -> None:
    rng = random.Random(SEED)
    world = World(tmp_path, openvino_base)
    engine = Engine(warm_pipelines=2)
    answers: dict[tuple[str, str], str] = {}
    asked: dict[str, ResolvedVariant] = {}
    reused = 0
    try:
        for number in range(STEPS):
            if number == STEPS // 2:
                world.replace()
            of, prompt = world.variant(rng.randrange(2)), world.prompt(rng)
            if rng.random() < 0.2:
                heard = engine.ask(of, prompt, document=f"{rng.randrange(3)}", max_tokens=50)
                heard.first.wait(rng.choice((0, 0.1, 60)))
                heard.cancel()
                assert heard.over.wait(60)
                continue
            heard = engine.complete(of, prompt, document=f"{rng.randrange(3)}", max_tokens=8)
            _check(answers, heard, prompt)
            reused += heard.started.reused_tokens
            if number >= STEPS // 2:
                asked[heard.started.identity] = of
    finally:
        engine.close()
    assert reused > 0
    fresh = Engine(effects=engine.effects)
    try:
        for identity, of in asked.items():
            for prompt in [prompt for known, prompt in answers if known == identity]:
                heard = fresh.complete(of, prompt, document=prompt, max_tokens=8)
                assert heard.started.identity == identity
                _check(answers, heard, prompt)
    finally:
        fresh.close()
    assert len({identity for identity, _ in answers}) == 3  # the replaced file made one more


def _check(answers: dict[tuple[str, str], str], heard: Heard, prompt: str) -> None:
    text = heard.done.text
    assert answers.setdefault((heard.started.identity, prompt), text) == text
