"""What an adapter changes, measured: the same pipeline with the adapter at its strength, and at none."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ..digests import DigestCache
from .openvino_native import genai
from .openvino_pipeline import Recipe, as_tensor, checked, construct, free_memory, load_adapter, plain_config


def measure_effect(recipe: Recipe, tokens: Sequence[int], digests: DigestCache) -> float:
    """Return the largest change of a log-probability that a recipe's one adapter causes; nan if any of them is nan.

    Parameters
    ----------
    tokens
        The text whose tokens' log-probabilities are compared, two at least.
    """
    (adapter,) = recipe.adapters
    recipe = replace(recipe, prefix_caching=False)
    with checked(recipe, digests):
        native = load_adapter(adapter)
        pipeline = construct(recipe, [(native, adapter.scale)])
    try:
        adapted = log_probabilities(pipeline, tokens, [(native, adapter.scale)])
        plain = log_probabilities(pipeline, tokens, [(native, 0.0)])
    finally:
        del pipeline, native
        free_memory()
    changes = [abs(one - other) for one, other in zip(adapted, plain, strict=True)]
    return math.nan if any(map(math.isnan, changes)) else max(changes)


def log_probabilities(
    pipeline: Any, tokens: Sequence[int], adapters: Sequence[tuple[Any, float]] | None = None
) -> list[float]:
    """Return the log-probability of each token but the first behind those before it.

    Parameters
    ----------
    adapters
        Strengths to put in force first, on a pipeline without a prefix cache; None leaves what is in force.
    """
    if adapters is not None:
        switch = plain_config(1)
        switch.adapters = genai().AdapterConfig(list(adapters))
        pipeline.generate([as_tensor(tokens[:1])], [switch])
    config = plain_config(1)
    config.echo, config.logprobs = True, 1
    handle = pipeline.add_request(0, as_tensor(tokens), config)
    found: list[float] = []
    while len(found) <= len(tokens):  # one for each token, and one for the token that follows
        pipeline.step()
        while handle.can_read():
            found += [one for output in handle.read().values() for one in output.generated_log_probs]
    return found[1 : len(tokens)]
