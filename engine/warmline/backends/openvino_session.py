"""One exact identity on OpenVINO: its pipeline, what is in its KV, and requests that run a token at a time.

What `prefill` and `decode` append is computed when the next token is asked for: the library samples where it computes,
so a request is begun with the sampler's own settings. Each request runs on its sampler; when its session holds other
tokens meanwhile (somebody interrupted it), it is begun anew behind what it had, whose KV the prefix cache gives back;
structured output, whose grammar cannot begin in the middle, is computed once more from its prompt and compared.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from ..errors import BackendError
from .base import Abort, Aborted, ContextConfig, Prefill, Step, check_prompt
from .openvino_native import genai
from .openvino_pipeline import BLOCK, CachedPrefixes, as_tensor, kv_tokens, plain_config

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ..variant import Sampling
    from .openvino_warm import WarmPipelines


class OpenVinoSession:
    """A pipeline of its own under one identity (`Session`).

    Parameters
    ----------
    make
        Builds the pipeline, with what it must hold checked; called again when memory was needed for another one.
    warm
        Decides which pipelines stay.
    ends
        Tokens that end a text: what structured output may end with.
    lookup
        Whether the pipeline drafts tokens from the prompt.
    least
        Bytes that its weights and its KV take.
    """

    can_save: Final = False
    estimates_reuse: Final = True

    def __init__(
        self,
        make: Callable[[], Any],
        warm: WarmPipelines,
        config: ContextConfig,
        ends: frozenset[int],
        *,
        lookup: bool = False,
        least: int = 0,
    ) -> None:
        self._make = make
        self._warm = warm
        self._config = config
        self._ends = ends
        self._lookup = lookup
        self._least = least
        self._pipeline: Any = None
        self._tokens: list[int] = []
        self._cached = CachedPrefixes(kv_tokens(config.n_ctx))
        self._running: OpenVinoSampler | None = None
        self._abort: Abort | None = None
        self._closed = False

    @property
    def n_ctx(self) -> int:
        """Most tokens that fit."""
        return self._config.n_ctx

    @property
    def tokens(self) -> Sequence[int]:
        """The tokens whose KV is there, or is computed with the next token."""
        return self._tokens

    @property
    def lineage(self) -> Sequence[Step]:
        """Nothing: the library does not tell which calls it made."""
        return ()

    @property
    def resident(self) -> bool:
        """Whether the pipeline is in memory."""
        return self._pipeline is not None

    @property
    def closed(self) -> bool:
        """Whether it was closed for good."""
        return self._closed

    def resume(self) -> None:
        """See `Session.resume`; raises as `openvino_pipeline.build`."""
        self._ready()

    def let_go(self) -> None:
        """Free the pipeline; the next call makes it anew, and its KV has to be computed again."""
        self._interrupt()
        self._cached.clear()
        self._pipeline = None

    def prefill(self, prompt: Sequence[int], abort: Abort) -> Prefill:
        """See `Session.prefill`; `reused` is an estimate from below (`CachedPrefixes`)."""
        check_prompt(prompt, self.n_ctx)
        reused = self._cached.reused(prompt)
        self._tokens = list(prompt[:reused])
        return Prefill(reused, self._batches(prompt, reused, abort))

    def _batches(self, prompt: Sequence[int], start: int, abort: Abort) -> Iterator[None]:
        """Compute all whole blocks; the rest, a block at most, comes with the first token."""
        whole = (len(prompt) - 1) // BLOCK * BLOCK
        for end in [*range(start + self._config.n_batch, whole, self._config.n_batch), whole]:
            _check(abort)
            if end > start:
                self._compute(prompt[:end])
                self._tokens = list(prompt[:end])
                yield
        _check(abort)
        self._abort = abort
        self._tokens = list(prompt)

    def new_sampler(self, sampling: Sampling, grammar: str | None = None) -> OpenVinoSampler:
        """See `Session.new_sampler`."""
        config = plain_config(1, lookup=self._lookup)
        if sampling.temperature:
            config.do_sample = True
            config.temperature = sampling.temperature
            config.top_p = sampling.top_p
            if sampling.top_k:
                config.top_k = sampling.top_k
        else:
            config.logprobs = 1
        if grammar is not None:
            # The library's own reading of a schema allows blank lines without end, and a small model writes them.
            config.structured_output_config = genai().StructuredOutputConfig(grammar=grammar)
            config.stop_token_ids = set(self._ends)
        return OpenVinoSampler(self, config, sampling.seed, structured=grammar is not None)

    def decode(self, token: int, abort: Abort) -> None:
        """See `Session.decode`."""
        _check(abort)
        self._abort = abort
        self._tokens.append(token)

    def logits(self) -> NDArray[np.float32]:
        """Not to be had: the library keeps logits to itself; raises BackendError ``backend.unsupported``."""
        raise BackendError(
            "OpenVINO GenAI does not give logits", code="backend.unsupported", remedy="Use the backend `llama`"
        )

    def save(self) -> bytes:
        """Nothing: KV cannot be taken out of a pipeline."""
        return b""

    def restore(self, tokens: Sequence[int], data: bytes, lineage: Sequence[Step] = ()) -> bool:
        """See `Session.restore`; never succeeds."""
        self._tokens = []
        return False

    def close(self) -> None:
        """Free the pipeline for good. Idempotent."""
        self._closed = True
        self.let_go()
        self._tokens = []
        self._warm.forget(self)

    # -- for samplers ----------------------------------------------------------------------------------------------

    def begin(self, sampler: OpenVinoSampler, tokens: Sequence[int], config: Any) -> Any:
        """Begin a request behind some tokens; return its handle."""
        pipeline = self._ready()
        self._interrupt()
        config.max_new_tokens = max(1, self.n_ctx - len(tokens))
        try:
            handle = pipeline.add_request(0, as_tensor(tokens), config)
        except RuntimeError as error:
            raise BackendError(
                f"OpenVINO refuses the request: {' '.join(str(error).split())[-300:]}",
                code="backend.schema" if sampler.structured else "backend.decode",
                remedy="Write the schema with types, properties, items, enums and bounds of lengths alone"
                if sampler.structured
                else "Ask again; when it happens again, report it",
            ) from None
        self._running = sampler
        return handle

    def step(self) -> None:
        """Compute the next token, or some, of what runs; raises `Aborted` where the latest abort says so."""
        if self._abort is not None:
            _check(self._abort)
        try:
            self._ready().step()
        except RuntimeError as error:
            raise BackendError(
                f"OpenVINO cannot go on: {' '.join(str(error).split())[-300:]}",
                code="backend.decode",
                remedy="Ask again; when it happens again, report it",
            ) from None

    def ended(self, sampler: OpenVinoSampler, computed: Sequence[int]) -> None:
        """Forget a request; what it computed stays in the prefix cache."""
        if sampler is self._running:
            self._running = None
            self._cached.add(computed)
            if self._pipeline is not None and self._pipeline.has_non_finished_requests():
                self._pipeline.step()  # takes out what was cancelled

    def _compute(self, tokens: Sequence[int]) -> None:
        """Bring the KV of some tokens into the prefix cache, without holding up other threads."""
        pipeline = self._ready()
        self._interrupt()  # `generate` wants a pipeline where nothing runs
        try:
            pipeline.generate([as_tensor(tokens)], [plain_config(1, lookup=self._lookup)])
        except RuntimeError as error:
            raise BackendError(
                f"OpenVINO cannot compute the prompt: {' '.join(str(error).split())[-300:]}",
                code="backend.decode",
                remedy="Lower profile.n_ctx, or free memory",
            ) from None
        self._cached.add(tokens)

    def _interrupt(self) -> None:
        """End what runs: it is begun anew later, since the library can hold nothing back."""
        if self._running is not None:
            self._running.drop()

    def _ready(self) -> Any:
        if self._closed:
            raise BackendError("the pipeline was closed", code="backend.closed", remedy="Ask again")
        if self._pipeline is None:
            self._pipeline = self._warm.make(self, self._make, self._least)
        else:
            self._warm.used(self)
        return self._pipeline


class OpenVinoSampler:
    """One request on a session's pipeline (`Sampler`)."""

    def __init__(self, session: OpenVinoSession, config: Any, seed: int, *, structured: bool) -> None:
        self.structured = structured
        self._session = session
        self._config = config
        self._seed = seed
        self._handle: Any = None
        self._prompt: tuple[int, ...] = ()  # as it was first
        self._given: list[int] = []
        self._sequence: list[int] = []  # of the request: its prompt, and what it gave
        self._pending: deque[tuple[int, float]] = deque()
        self._log_probability = math.nan

    def pick(self) -> int:
        """See `Sampler.pick`; computes whatever the session holds and has not computed yet."""
        if self._handle is None or self._sequence != self._session.tokens:
            self._begin()
        token = self._next()
        self._given.append(token)
        return token

    def probability(self, token: int) -> float | None:
        """See `Sampler.probability`; told of the latest token of a greedy text."""
        if self._config.do_sample or self.structured or self._given[-1:] != [token]:
            return None
        return math.exp(self._log_probability)

    def drop(self) -> None:
        """End the request; `pick` begins another one where the session is then."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
            self._pending.clear()
            self._session.ended(self, self._sequence[:-1])

    def close(self) -> None:
        """End the request. Idempotent."""
        self.drop()

    def _begin(self) -> None:
        self.drop()
        tokens = tuple(self._session.tokens)
        if not self._given:
            self._prompt = tokens
        if self.structured:
            self._request(self._prompt)
            self._repeat()
        else:
            self._request(tokens)

    def _request(self, tokens: Sequence[int]) -> None:
        # A drawn text that was interrupted goes on with other numbers than those that it began with.
        self._config.rng_seed = (self._seed + len(tokens) - len(self._prompt)) % 2**32
        self._handle = self._session.begin(self, tokens, self._config)
        self._sequence = list(tokens)

    def _repeat(self) -> None:
        """Bring a new request to where the old one was."""
        for token in self._given:
            if self._next() != token:
                raise BackendError(
                    "structured output was interrupted, and came out differently when it was repeated",
                    code="backend.decode",
                    remedy="Ask again",
                )

    def _next(self) -> int:
        while not self._pending:
            self._session.step()
            self._read()
        token, self._log_probability = self._pending.popleft()
        self._sequence.append(token)
        return token

    def _read(self) -> None:
        while self._handle.can_read():
            for output in self._handle.read().values():
                self._pending.extend(zip(output.generated_ids, output.generated_log_probs, strict=True))
        if not self._pending and self._handle.get_status() != genai().GenerationStatus.RUNNING:
            raise BackendError(
                "OpenVINO has no room for more tokens", code="backend.decode", remedy="Lower profile.n_ctx"
            )


def _check(abort: Abort) -> None:
    if abort.is_set():
        raise Aborted(abort.reason)
