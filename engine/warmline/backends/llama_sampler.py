"""How llama.cpp picks tokens: greedy, drawn, and either of them under a grammar."""

from __future__ import annotations

import ctypes
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from .json_schema import refused
from .native import captured_log, last_words, llama

if TYPE_CHECKING:
    from ..variant import Sampling
    from .llama_session import LlamaSession


class LlamaSampler:
    """A chain of native samplers with its own random state (`Sampler`)."""

    def __init__(self, session: LlamaSession, vocab: Any, sampling: Sampling, grammar: str | None = None) -> None:
        self._lib = llama()
        self._session = session
        self._greedy = sampling.temperature == 0
        self._grammar = None if grammar is None else _grammar(vocab, grammar)
        self._chain: int | None = None
        if self._greedy and self._grammar is None:
            return  # the largest logit needs no chain, which would copy and sort all of them
        self._chain = self._lib.llama_sampler_chain_init(self._lib.llama_sampler_chain_default_params())
        parts = [] if self._grammar is None else [self._grammar]
        if self._greedy:
            parts.append(self._lib.llama_sampler_init_greedy())
        else:
            parts += [
                self._lib.llama_sampler_init_top_k(sampling.top_k),
                self._lib.llama_sampler_init_top_p(sampling.top_p, 1),
                self._lib.llama_sampler_init_temp(sampling.temperature),
                self._lib.llama_sampler_init_dist(sampling.seed),
            ]
        for part in parts:
            self._lib.llama_sampler_chain_add(self._chain, part)

    def pick(self) -> int:
        """See `Sampler.pick`."""
        if self._greedy:
            best = int(self._session.view_logits().argmax())
            # Nearly always the grammar allows it, and to ask for one token costs little.
            if self._grammar is None or self._allowed(best):
                return best
        return int(self._lib.llama_sampler_sample(self._chain, self._session.pointer, -1))

    def _allowed(self, token: int) -> bool:
        """Tell whether the grammar allows a token, and if so go on behind it."""
        one = (self._lib.llama_token_data * 1)((token, 0.0, 0.0))
        candidates = self._lib.llama_token_data_array(one, 1, -1, False)
        self._lib.llama_sampler_apply(self._grammar, ctypes.byref(candidates))
        allowed = bool(one[0].logit > -math.inf)
        if allowed:
            self._lib.llama_sampler_accept(self._grammar, token)
        return allowed

    def probability(self, token: int) -> float:
        """See `Sampler.probability`."""
        logits = self._session.view_logits()
        # Above the largest logit each exponential would overflow; relative to it all are at most 1.
        return float(np.exp(logits[token] - (top := logits.max())) / np.exp(logits - top).sum())

    def close(self) -> None:
        """Free the chain. Idempotent."""
        if self._chain is not None:
            self._lib.llama_sampler_free(self._chain)
            self._chain = None


def _grammar(vocab: Any, grammar: str) -> Any:
    """Make the native sampler that lets through what fits a grammar; raises BackendError ``backend.schema``."""
    rules = grammar.encode()
    with captured_log() as log:
        made = llama().llama_sampler_init_grammar(vocab, rules, b"root")
    if not made:
        raise refused(f"llama.cpp says {last_words(log)}")
    return made
