"""Does the prefix cache of the installed OpenVINO GenAI mix adapters, and does Warmline keep them apart: measured.

One pipeline that caches prefixes answers with an adapter off, then with it on. Where it takes the first answer's KV for
the second one's, its text is neither's. Pipelines of an identity's own, as Warmline has them, must not show it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from ..digests import DigestCache
from .openvino_guarantee import Canary
from .openvino_native import genai, package_version
from .openvino_pipeline import Recipe, as_tensor, build, checked, construct, load_adapter, plain_config
from .openvino_warm import free_memory

_TOKENS: Final = 8
# Log-probabilities of the same tokens computed in batches of other sizes differ by less; another adapter's by far more.
_SAME: Final = 0.05
# Prompts, each shorter than the one before: that one of them ends alike by chance says nothing.
_PROMPTS, _SHORTER = 3, 9

Answer = list[tuple[int, float]]


def probe(recipe: Recipe, tokens: Sequence[int], digests: DigestCache) -> Canary:
    """Measure with a recipe's one adapter, on a prompt of some blocks; takes three pipelines, one after another."""
    (adapter,) = recipe.adapters
    prompts = [tokens[: len(tokens) - _SHORTER * number] for number in range(_PROMPTS)]
    with checked(recipe, digests):
        native = load_adapter(adapter)
        pipeline = construct(replace(recipe, prefix_caching=False), [(native, adapter.scale)])
        wanted = [_answer(pipeline, prompt, (native, adapter.scale)) for prompt in prompts]
        del pipeline
        free_memory()
        pipeline = construct(recipe, [(native, adapter.scale)])
        for prompt in prompts:
            _answer(pipeline, prompt, (native, 0.0))
        shared = [_answer(pipeline, prompt, (native, adapter.scale)) for prompt in prompts]
        del pipeline, native
        free_memory()
    pipeline = build(recipe, digests)
    own = [_answer(pipeline, prompt) for prompt in (*prompts, *prompts)]  # cold, then warm
    del pipeline
    free_memory()
    mixes = not all(map(_alike, shared, wanted))
    return Canary(package_version(), mixes, all(map(_alike, own, wanted * 2)))


def _answer(pipeline: Any, tokens: Sequence[int], adapter: tuple[Any, float] | None = None) -> Answer:
    config = plain_config(_TOKENS)
    config.logprobs = 1
    if adapter is not None:
        switch = plain_config(1)
        switch.adapters = genai().AdapterConfig([adapter])
        pipeline.generate([as_tensor([0])], [switch])
    handle = pipeline.add_request(0, as_tensor(tokens), config)
    found: Answer = []
    while len(found) < _TOKENS:
        pipeline.step()
        while handle.can_read():
            for output in handle.read().values():
                found += zip(output.generated_ids, output.generated_log_probs, strict=True)
    return found


def _alike(one: Answer, other: Answer) -> bool:
    """Tell whether two answers are the same but for rounding.

    Where they part, it has to be at two tokens that are equally likely, which together have one at most.
    """
    for (token, sure), (other_token, other_sure) in zip(one, other, strict=True):
        if abs(sure - other_sure) > _SAME:
            return False
        if token != other_token:
            return math.exp(sure) + math.exp(other_sure) <= 1
    return True
