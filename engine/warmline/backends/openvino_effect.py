"""What an adapter changes, measured: the same pipeline with the adapter at its strength, and at none."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ..digests import DigestCache
from ..errors import BackendError
from .openvino_native import genai
from .openvino_pipeline import Recipe, as_tensor, checked, construct, load_adapter, plain_config
from .openvino_warm import free_memory


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
    """Return the log-probability of each token but the first behind those before it, on a pipeline without a cache.

    Parameters
    ----------
    adapters
        Strengths to put in force first; None leaves what is in force.

    Raises
    ------
    BackendError
        ``backend.decode``: the library told fewer, as it does of tokens that it had in a cache.
    """
    if adapters is not None:
        switch = plain_config(1)
        switch.adapters = genai().AdapterConfig(list(adapters))
        pipeline.generate([as_tensor(tokens[:1])], [switch])
    config = plain_config(1)
    config.echo, config.logprobs = True, 1
    handle = pipeline.add_request(0, as_tensor(tokens), config)
    found: list[float] = []
    while pipeline.has_non_finished_requests():
        pipeline.step()
        while handle.can_read():
            found += [one for output in handle.read().values() for one in output.generated_log_probs]
    if len(found) != len(tokens) + 1:  # one for each token, and one for the token that follows
        message = f"OpenVINO told the probabilities of {len(found)} tokens of {len(tokens) + 1}"
        raise BackendError(message, code="backend.decode", remedy="Report this: it is our fault")
    return found[1 : len(tokens)]
