"""What a backend is: the Protocol that generation, KV pool and host are written against.

All methods of models and sessions are called from one thread at a time (the scheduler's); only `Abort` is shared.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, Protocol

from ..errors import BackendError
from ..identity import ContextIdentity

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ..variant import Sampling

__all__ = [
    "Abort",
    "Aborted",
    "AdapterOnDisk",
    "Backend",
    "BaseFacts",
    "BaseModelHandle",
    "ContextConfig",
    "Prefill",
    "Sampler",
    "Session",
    "Step",
    "check_prompt",
    "default_threads",
]


class Abort:
    """A flag that stops a decode from outside, also while native code runs.

    Native code polls it between graph nodes, from its own threads. A Python callback there would take the GIL some
    900 times a token; instead the C library's ``strlen`` is the callback and the flag is a two-byte string: empty means
    go on (length 0, false), one character means stop (length 1, true).
    """

    def __init__(self) -> None:
        self._text = ctypes.create_string_buffer(2)
        self._lock = threading.Lock()
        self.reason: str | None = None

    def set(self, reason: str, *, after_call: bool = False) -> None:
        """Ask to stop; the first reason stays.

        With `after_call` the native call under way is finished first: what it computes is of use to somebody else.
        """
        with self._lock:
            if self.reason is None:
                self.reason = reason
            if not after_call:
                self._text[0] = b"\x01"

    def is_set(self) -> bool:
        """Tell whether somebody asked to stop."""
        return self.reason is not None

    @property
    def address(self) -> int:
        """Address of the flag string, for the native poll."""
        return ctypes.addressof(self._text)


def libc() -> ctypes.CDLL:
    """Return the C library that native backends share with us."""
    return ctypes.CDLL("msvcrt" if sys.platform == "win32" else None)


_TOPOLOGY: Final = Path("/sys/devices/system/cpu")


def default_threads() -> int:
    """Return physical cores minus one, at least 1: an editor always shares the machine, and ggml's threads spin."""
    return max(1, physical_cores() - 1)


@lru_cache(maxsize=1)
def physical_cores() -> int:
    """Return the physical cores that this process may use."""
    available = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))
    cores = set()
    for cpu in available:
        try:
            cores.add((_TOPOLOGY / f"cpu{cpu}/topology/thread_siblings_list").read_text())
        except OSError:
            cores.add(str(cpu))
    return len(cores)


# One native call: the tokens of a decode, or the number of tokens that a trim kept.
Step = tuple[Literal["decode"], tuple[int, ...]] | tuple[Literal["keep"], int]


class Aborted(Exception):
    """A prefill or decode was stopped by its `Abort`; the session keeps what was complete before."""


@dataclass(frozen=True, slots=True)
class AdapterOnDisk:
    """An adapter file, its digest as verified, and its scale as the native call wants it (times alpha / rank there)."""

    name: str
    path: Path
    digest: str
    scale: float


@dataclass(frozen=True, slots=True)
class BaseFacts:
    """What a base's vocabulary and metadata say, as the native library understands them.

    `special_texts` are the texts of control tokens, and of user-defined ones that look like markup. `lookup` gives the
    id of a text that is exactly one token of the vocabulary (specials included), else None.
    """

    architecture: str
    n_ctx_train: int
    add_bos: bool
    bos: int | None
    eos: int | None
    bos_text: str
    eos_text: str
    end_of_generation: frozenset[int]
    special_texts: frozenset[str]
    fim_tokens: Mapping[str, int]
    chat_template: str | None
    lookup: Callable[[str], int | None]


@dataclass(frozen=True, slots=True)
class ContextConfig:
    """How a context is made. Threads and batch size are not identity; the rest is (`identity`).

    `properties` are the backend's own, by name and sorted: those alone that change what is computed. Between two
    batches of a prefill whoever is more urgent gets in: `n_batch` 64 is some 4 % slower than 256 on a CPU, and lets in
    four times as often.
    """

    n_ctx: int
    type_k: str = "f16"
    type_v: str = "f16"
    n_batch: int = 64
    threads: int = field(default_factory=default_threads)
    record: bool = False
    properties: tuple[tuple[str, str], ...] = ()

    @property
    def identity(self) -> ContextIdentity:
        """The part of the configuration that belongs to the identity."""
        return ContextIdentity(self.n_ctx, self.type_k, self.type_v, properties=self.properties)


def check_prompt(prompt: Sequence[int], n_ctx: int) -> None:
    """Refuse a prompt that is empty or longer than the context: BackendError ``backend.prompt``."""
    if not prompt:
        raise BackendError("the prompt is empty", code="backend.prompt", remedy="Report this: it is our fault")
    if len(prompt) > n_ctx:
        raise BackendError(
            f"the prompt has {len(prompt)} tokens, the context {n_ctx}",
            code="backend.prompt",
            remedy="Raise profile.n_ctx",
        )


@dataclass(frozen=True, slots=True)
class Prefill:
    """A prefill that has begun: the tokens that were in the KV before and really stayed, and the batches to run.

    The batches pause between two native calls, never after the last: KV that is taken and given back there would be
    without the logits that the first token is picked from.
    """

    reused: int
    batches: Iterator[None]

    def run(self) -> int:
        """Run all batches without a pause; return `reused`."""
        for _ in self.batches:
            pass
        return self.reused


class Sampler(Protocol):
    """Picks tokens; one for each generation, so that one seed gives one text whoever else runs in between."""

    def pick(self) -> int:
        """Pick the next token from the session's latest logits."""

    def probability(self, token: int) -> float | None:
        """Return what the model's latest logits give a token: their softmax, before temperature and cut-offs.

        None where the backend does not tell.
        """

    def close(self) -> None:
        """Free it. Idempotent."""


class Session(Protocol):
    """One context under one identity: a KV cache, the adapters that filled it, and the tokens that are in it."""

    @property
    def can_save(self) -> bool:
        """Whether KV can leave the context and come back (`save`, `restore`)."""

    @property
    def estimates_reuse(self) -> bool:
        """Whether `Prefill.reused` is estimated, from below, since the library does not tell."""

    @property
    def resident(self) -> bool:
        """Whether the context is in memory: a backend may let one go when another needs the room."""

    def resume(self) -> None:
        """Bring a context back that was let go, without its KV; raises as `BaseModelHandle.open_session`."""

    @property
    def n_ctx(self) -> int:
        """Most tokens that fit, as the native library reports it."""

    @property
    def tokens(self) -> Sequence[int]:
        """The tokens whose KV is held, in order."""

    @property
    def lineage(self) -> Sequence[Step]:
        """The calls that filled the KV, in order, when `ContextConfig.record` asked for it.

        The batch size picks the CPU kernel and moves logits, so only a replay of these very calls is bit-identical.
        """

    def prefill(self, prompt: Sequence[int], abort: Abort) -> Prefill:
        """Trim the KV to what `prompt` shares with it, and return how to bring it to exactly `prompt`.

        When the batches are through, the last token's logits are there. The batches raise `Aborted` (whole batches
        done so far stay and are reused by a later prefill) and BackendError ``backend.decode``.

        Raises
        ------
        BackendError
            ``backend.prompt``: empty, or longer than the context.
        """

    def new_sampler(self, sampling: Sampling, grammar: str | None = None) -> Sampler:
        """Make a sampler over this session's latest logits, with a random state of its own.

        With a grammar (GBNF, from ``root``) it picks nothing but what fits it, and then an end token.

        Raises
        ------
        BackendError
            ``backend.schema``: the library cannot read the grammar.
        """

    def decode(self, token: int, abort: Abort) -> None:
        """Append one token and compute the next logits; raises as a prefill's batches do."""

    def logits(self) -> NDArray[np.float32]:
        """Copy the latest logits, shape (n_vocab,), float32."""

    def save(self) -> bytes:
        """Copy the KV of all `tokens` out of the context, in the backend's own format; b"" unless `can_save`."""

    def restore(self, tokens: Sequence[int], data: bytes, lineage: Sequence[Step] = ()) -> bool:
        """Put back what `save` gave for `tokens`, in place of what is there; tell whether all of it is there now.

        The caller vouches for the identity: the native library checks the structure alone. After False the context
        is empty.
        """

    def close(self) -> None:
        """Free the context. Idempotent."""


class BaseModelHandle(Protocol):
    """One resident base: weights loaded once for every identity that stands on it."""

    @property
    def digest(self) -> str:
        """Digest of the bytes that were loaded."""

    @property
    def facts(self) -> BaseFacts:
        """What its vocabulary and metadata say."""

    def tokenize(self, text: str) -> list[int]:
        """Turn plain text into tokens: no BOS, special-token texts are ordinary text."""

    def tokenize_special(self, text: str) -> list[int]:
        """Turn rendered template text into tokens: special-token texts become their tokens; no BOS is added."""

    def piece(self, token: int) -> bytes:
        """Return the bytes a token stands for; b"" for control tokens."""

    def open_session(self, adapters: Sequence[AdapterOnDisk], config: ContextConfig) -> Session:
        """Make a context with exactly these adapters.

        Raises
        ------
        ArtifactError
            ``artifact.adapter.load``, with the native library's own words; ``artifact.digest`` when a file changed.
        BackendError
            ``backend.context``: for example when memory does not suffice.
        """

    def embed(self, text: str) -> list[float]:
        """Return the mean of the last hidden states over the text's tokens, scaled to length 1.

        Raises
        ------
        BackendError
            ``backend.prompt``: no text, or more than fits the training context.
        """

    def probe_effect(self, adapter: AdapterOnDisk) -> float:
        """Return the largest change of a logit that the adapter causes on a fixed short prompt (nan if any is nan)."""

    def close(self) -> None:
        """Free sessions, adapters and weights, in this order. Idempotent."""


class Backend(Protocol):
    """An inference library."""

    name: str

    @property
    def version(self) -> str:
        """Version and build, as found in the library that runs."""

    def facts(self, path: Path, digest: str) -> BaseFacts:
        """Return what a base's vocabulary and metadata say, without loading its weights."""

    def load(self, path: Path, digest: str, progress: Callable[[float], None] | None = None) -> BaseModelHandle:
        """Load a base whose bytes must have `digest`; `progress` is called with a share from 0 to 1.

        Raises
        ------
        ArtifactError
            ``artifact.digest`` (other bytes than promised) or ``artifact.base.load``.
        """

    def close(self) -> None:
        """Let go of everything that was loaded."""
