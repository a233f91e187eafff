"""One llama.cpp context: its KV, the adapters set on it once, prefill and decode that can be stopped."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ..errors import BackendError
from ..kv.prefix import common_prefix
from .base import Abort, Aborted, ContextConfig, Prefill, Step, check_prompt, default_threads, libc
from .llama_sampler import LlamaSampler
from .native import captured_log, forget_log, last_words, llama, recent_log

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..variant import Sampling

# enum ggml_type in ggml.h
_KV_TYPES: Final = {"f32": 0, "f16": 1, "q4_0": 2, "q4_1": 3, "q5_0": 6, "q5_1": 7, "q8_0": 8, "bf16": 30}
# Return values of llama_decode in llama.h.
_ABORTED: Final = 2
_NO_SLOT: Final = 1
_SEQUENCE: Final = 0


class LlamaSession:
    """A context (`Session`). The adapter set is given to the native library in one call, when the context is made."""

    can_save: Final = True
    estimates_reuse: Final = False
    resident: Final = True  # until it is closed

    def __init__(self, model: Any, adapters: Sequence[tuple[int, float]], config: ContextConfig, *, n_vocab: int):
        self._lib = llama()
        self._row: Any = ctypes.c_float * n_vocab
        self._one: Any = (self._lib.llama_token * 1)()
        self._one_batch: Any = self._lib.llama_batch_get_one(self._one, 1)
        self._tokens: list[int] = []
        self._lineage: list[Step] | None = [] if config.record else None
        params = self._lib.llama_context_default_params()
        params.n_ctx = config.n_ctx
        params.n_batch = params.n_ubatch = min(config.n_batch, config.n_ctx)
        params.n_threads = params.n_threads_batch = config.threads
        params.type_k = _KV_TYPES[config.type_k]
        params.type_v = _KV_TYPES[config.type_v]
        params.no_perf = True
        self._n_batch: int = params.n_batch
        with captured_log() as log:
            self._context: int | None = self._lib.llama_init_from_model(model, params)
        if not self._context:
            raise BackendError(
                f"llama.cpp cannot make a context of {config.n_ctx} tokens: {last_words(log)}",
                code="backend.context",
                field="profile.n_ctx",
                remedy="Lower n_ctx, or use KV type f16",
            )
        self._memory = self._lib.llama_get_memory(self._context)
        self._vocab = self._lib.llama_model_get_vocab(model)
        self._window: int = self._lib.llama_model_n_swa(model)  # tokens that a sliding layer sees; 0: none slides
        self._poll = ctypes.cast(libc().strlen, self._lib.ggml_abort_callback)
        self._abort: Abort | None = None
        self._set_adapters(adapters)

    def _set_adapters(self, adapters: Sequence[tuple[int, float]]) -> None:
        if not adapters:
            return
        count = len(adapters)
        pointers = (self._lib.llama_adapter_lora_p_ctypes * count)(*(pointer for pointer, _ in adapters))
        scales = (ctypes.c_float * count)(*(scale for _, scale in adapters))
        if self._lib.llama_set_adapters_lora(self._context, pointers, count, scales) != 0:
            self.close()
            raise BackendError(
                "llama.cpp refuses the set of adapters", code="backend.adapters", remedy="Check the variant's adapters"
            )

    @property
    def pointer(self) -> Any:
        """The native context."""
        if self._context is None:
            raise BackendError("the context was closed", code="backend.closed", remedy="Ask again")
        return self._context

    @property
    def closed(self) -> bool:
        """Whether the context was freed."""
        return self._context is None

    def resume(self) -> None:
        """Nothing: a context stays until it is closed."""

    @property
    def n_ctx(self) -> int:
        """Most tokens that fit."""
        return int(self._lib.llama_n_ctx(self._context))

    @property
    def tokens(self) -> Sequence[int]:
        """The tokens whose KV is held."""
        return self._tokens

    @property
    def lineage(self) -> Sequence[Step]:
        """See `Session.lineage`."""
        return self._lineage or ()

    def prefill(self, prompt: Sequence[int], abort: Abort) -> Prefill:
        """See `Session.prefill`."""
        check_prompt(prompt, self.n_ctx)
        # The last token is always decoded again: its logits are what is asked for.
        reused = self._keep(min(common_prefix(self._tokens, prompt), len(prompt) - 1))
        return Prefill(reused, self._batches(prompt, reused, abort))

    def _batches(self, prompt: Sequence[int], start: int, abort: Abort) -> Iterator[None]:
        for at in range(start, len(prompt), self._n_batch):
            self._decode(prompt[at : at + self._n_batch], abort)
            # No pause after the last one: whoever ran in it would leave other logits to pick the first token from,
            # and KV that is restored brings none.
            if at + self._n_batch < len(prompt):
                yield

    def _keep(self, count: int) -> int:
        """Trim the KV to its first `count` tokens and return how many really stayed."""
        if count < len(self._tokens):
            whole = count > 0 and self._lib.llama_memory_seq_rm(self._memory, _SEQUENCE, count, -1)
            # Recurrent memories refuse, sliding-window ones may have lost early cells: believe what is there.
            if not whole or not self._holds(count):
                self._lib.llama_memory_clear(self._memory, True)
                count = 0
            del self._tokens[count:]
            self._record(("keep", count))
        return count

    def _holds(self, count: int) -> bool:
        """Tell whether the KV has exactly `count` tokens, and of them all that the next one can see.

        A context puts new tokens into cells that its window has passed (after a restore also where others are free),
        the oldest first: what is left has no gaps (llama_kv_cache::apply_ubatch).
        """
        first = self._lib.llama_memory_seq_pos_min(self._memory, _SEQUENCE)
        last = self._lib.llama_memory_seq_pos_max(self._memory, _SEQUENCE)
        seen_from = max(0, count + 1 - self._window) if self._window else 0
        return bool(last == count - 1 and 0 <= first <= seen_from)

    def replay(self, lineage: Sequence[Step]) -> None:
        """Do again what another session recorded, call for call: its KV and logits come out bit-identical."""
        for step in lineage:
            if step[0] == "keep":
                self._keep(step[1])
            else:
                self._decode(step[1], Abort())

    def save(self) -> bytes:
        """See `Session.save`."""
        # The state of a sequence leaves out what a sliding window has passed, although the context holds it: nothing
        # could be trimmed after it came back. The state of the context, which is that of its one sequence, has all.
        lib, context = self._lib, self._context
        size = lib.llama_state_get_size(context) if self._window else lib.llama_state_seq_get_size(context, _SEQUENCE)
        buffer = (ctypes.c_uint8 * size)()
        if self._window:
            written = lib.llama_state_get_data(context, buffer, size)
        else:
            written = lib.llama_state_seq_get_data(context, buffer, size, _SEQUENCE)
        return bytes(memoryview(buffer)[:written])

    def restore(self, tokens: Sequence[int], data: bytes, lineage: Sequence[Step] = ()) -> bool:
        """See `Session.restore`."""
        self._lib.llama_memory_clear(self._memory, True)
        self._tokens.clear()
        self._record(("keep", 0))
        buffer = ctypes.cast(ctypes.c_char_p(data), ctypes.POINTER(ctypes.c_uint8))
        with captured_log():
            if self._window:
                taken = self._lib.llama_state_set_data(self._context, buffer, len(data))
            else:
                taken = self._lib.llama_state_seq_set_data(self._context, buffer, len(data), _SEQUENCE)
        if taken != len(data) or not self._holds(len(tokens)):
            self._lib.llama_memory_clear(self._memory, True)
            return False
        self._tokens.extend(tokens)
        if self._lineage is not None:
            self._lineage.extend(lineage)
        return True

    def _record(self, step: Step) -> None:
        if self._lineage is None:
            return
        if step == ("keep", 0):
            self._lineage.clear()
        else:
            self._lineage.append(step)

    def decode(self, token: int, abort: Abort) -> None:
        """See `Session.decode`."""
        self._decode((token,), abort)

    def _decode(self, tokens: Sequence[int], abort: Abort) -> None:
        if abort.is_set():
            raise Aborted(abort.reason)
        context = self.pointer
        if abort is not self._abort:
            self._lib.llama_set_abort_callback(context, self._poll, abort.address)
            self._abort = abort  # keeps the flag alive while native code may read it
        if len(tokens) == 1:
            self._one[0] = tokens[0]
            batch = self._one_batch
        else:
            array = (self._lib.llama_token * len(tokens))(*tokens)  # the batch only points at it
            batch = self._lib.llama_batch_get_one(array, len(tokens))
        forget_log()
        result = self._lib.llama_decode(context, batch)
        if result == 0:
            self._tokens.extend(tokens)
            self._record(("decode", tuple(tokens)))
            return
        said = recent_log()
        # Part of the batch may be in the KV: take back everything beyond the batches that were completed.
        held = len(self._tokens)
        if not self._lib.llama_memory_seq_rm(self._memory, _SEQUENCE, held, -1) or not self._holds(held):
            self._lib.llama_memory_clear(self._memory, True)
            self._tokens.clear()
            self._record(("keep", 0))
        if result == _ABORTED:
            raise Aborted(abort.reason)
        raise BackendError(
            "the context is full" if result == _NO_SLOT else f"llama.cpp cannot decode: {last_words(said)}",
            code="backend.decode",
            remedy="Raise profile.n_ctx" if result == _NO_SLOT else "Run `warmline status`, then try again",
        )

    def new_sampler(self, sampling: Sampling, grammar: str | None = None) -> LlamaSampler:
        """See `Session.new_sampler`."""
        return LlamaSampler(self, self._vocab, sampling, grammar)

    def logits(self) -> NDArray[np.float32]:
        """Copy the latest logits, shape (n_vocab,), float32."""
        return self.view_logits().copy()

    def view_logits(self) -> NDArray[np.float32]:
        """Return the latest logits where they lie: valid until the next decode."""
        pointer = self._lib.llama_get_logits_ith(self.pointer, -1)
        return np.frombuffer(self._row.from_address(ctypes.addressof(pointer.contents)), np.float32)

    def close(self) -> None:
        """Free the context. Idempotent."""
        if self._context is not None:
            self._lib.llama_free(self._context)
            self._context = None
            self._tokens.clear()


def embed_tokens(model: Any, tokens: Sequence[int]) -> list[float]:
    """Return the mean-pooled embedding of some tokens, scaled to length 1, from a context of its own."""
    lib = llama()
    params = lib.llama_context_default_params()
    params.n_ctx = params.n_batch = params.n_ubatch = len(tokens)
    params.n_threads = params.n_threads_batch = default_threads()
    params.embeddings = True
    params.pooling_type = lib.LLAMA_POOLING_TYPE_MEAN
    with captured_log() as log:
        context = lib.llama_init_from_model(model, params)
    if not context:
        raise BackendError(
            f"llama.cpp cannot make a context to embed with: {last_words(log)}",
            code="backend.context",
            remedy="Send less text",
        )
    try:
        array = (lib.llama_token * len(tokens))(*tokens)
        if lib.llama_decode(context, lib.llama_batch_get_one(array, len(tokens))) != 0:
            raise BackendError("llama.cpp cannot embed this text", code="backend.decode", remedy="Send other text")
        values = lib.llama_get_embeddings_seq(context, _SEQUENCE)[: lib.llama_model_n_embd(model)]
    finally:
        lib.llama_free(context)
    length = sum(value * value for value in values) ** 0.5 or 1.0
    return [value / length for value in values]
