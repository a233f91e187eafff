"""OpenVINO GenAI pipelines: how one is built for an exact identity, and what its prefix cache must hold.

The native prefix cache knows tokens alone: KV of one adapter would be taken for another's. So a pipeline has the
adapters that it was built with, at the strength that it was built with, for as long as it lives.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from ..capacity import row_bytes
from ..digests import DigestCache, open_regular, short
from ..errors import ArtifactError, BackendError
from ..kv.prefix import common_prefix
from ..store.folders import digest_folder
from .base import AdapterOnDisk, ContextConfig
from .openvino_native import OURS, core, genai
from .signal_stack import kept_signal_stack

WEIGHTS: Final = "openvino_model.bin"
# Tokens in a block of KV (openvino.genai, cache manager of the CPU plugin).
BLOCK: Final = 32
# KV for this many whole contexts: what another document has left there is still there when one comes back to it.
_CONTEXTS: Final = 2
_SPARE_BLOCKS: Final = 4
_LAST_WORDS: Final = 300
# Prompt lookup: how long a run of tokens has to be found in the prompt, and how many after it are drafted.
_NGRAM: Final = 3
_DRAFTED: Final = 5


@dataclass(frozen=True, slots=True)
class Recipe:
    """All that a pipeline is made of."""

    folder: Path
    digest: str
    adapters: tuple[AdapterOnDisk, ...]
    config: ContextConfig
    prefix_caching: bool = True

    @property
    def device(self) -> str:
        """Where it runs."""
        return dict(self.config.properties).get("DEVICE", "CPU")

    @property
    def lookup(self) -> bool:
        """Whether it drafts tokens from the prompt."""
        return "PROMPT_LOOKUP" in dict(self.config.properties)

    @property
    def kv_tokens(self) -> int:
        """Tokens whose KV the pipeline has room for."""
        return kv_tokens(self.config.n_ctx)


def kv_tokens(n_ctx: int) -> int:
    """Return the tokens whose KV a pipeline of this context size has room for."""
    return -(-n_ctx // BLOCK) * BLOCK * _CONTEXTS


def least_bytes(recipe: Recipe, kv_rows: Sequence[int]) -> int:
    """Return the bytes that a pipeline's weights and KV take at least: the files, and the blocks it has room for.

    Parameters
    ----------
    kv_rows
        Elements that K and V of each layer take in a token (`FolderConfig.kv_rows`); nothing where that is not known.

    Raises
    ------
    ArtifactError
        ``artifact.missing``, ``artifact.unreadable``.
    """
    files = (recipe.folder / WEIGHTS, *(adapter.path for adapter in recipe.adapters))
    kv = sum(row_bytes(each, recipe.config.type_k) for each in kv_rows) * recipe.kv_tokens
    return sum(map(_size, files)) + kv


def _size(path: Path) -> int:
    with open_regular(path) as fd:
        return os.fstat(fd).st_size


def build(recipe: Recipe, digests: DigestCache) -> Any:
    """Make a pipeline and put its adapters in force.

    Raises
    ------
    ArtifactError
        ``artifact.digest``, ``artifact.changing``, ``artifact.adapter.load``.
    BackendError
        ``backend.device``: there is no such device here; ``backend.context``: anything else, in the library's words.
    """
    with checked(recipe, digests):
        return construct(recipe, [(load_adapter(one), one.scale) for one in recipe.adapters])


@contextmanager
def checked(recipe: Recipe, digests: DigestCache) -> Iterator[None]:
    """Device, folder and adapters are what the recipe says, before and after the library reads them by their names."""
    check_device(recipe.device)
    _check_files(recipe, digests)
    yield
    _check_files(recipe, digests)


def construct(recipe: Recipe, adapters: Sequence[tuple[Any, float]]) -> Any:
    """Make a pipeline with native adapters and their strengths, in force; raises BackendError ``backend.context``."""
    properties: dict[str, Any] = {name: value for name, value in recipe.config.properties if name not in OURS}
    # Read, never mapped: a mapped file that somebody truncates ends the process.
    properties |= {"ENABLE_MMAP": False, "INFERENCE_NUM_THREADS": recipe.config.threads}
    if adapters:
        # Added to the products as they are computed: fused into the weights they would be rounded with them.
        mode = genai().AdapterConfig.Mode.MODE_DYNAMIC
        properties["adapters"] = genai().AdapterConfig(list(adapters), mode)
    if recipe.lookup:
        properties["prompt_lookup"] = True
    try:
        with kept_signal_stack():
            pipeline = genai().ContinuousBatchingPipeline(
                str(recipe.folder), _scheduler(recipe), recipe.device, properties
            )
            # `generate` alone puts adapters in force: a request that is added before runs on the bare base, and its KV
            # would stay in the cache.
            pipeline.generate([as_tensor([0])], [plain_config(1, lookup=recipe.lookup)])
    except RuntimeError as error:
        raise _cannot(recipe, error) from None
    return pipeline


def check_device(device: str) -> None:
    """Check that a device is there: ``CPU``, ``GPU``, ``NPU``, or one of several by number (``GPU.1``)."""
    known: list[str] = core().Core().available_devices
    if device not in known and device not in {name.partition(".")[0] for name in known}:
        raise BackendError(
            f"OpenVINO finds no device `{device}` here, only {', '.join(known) or 'none at all'}",
            code="backend.device",
            field="profile.openvino.device",
            remedy="Set it to one of those, or install the device's driver",
        )


def plain_config(max_new_tokens: int, *, lookup: bool = False) -> Any:
    """Return a request's settings: greedy, no end but its length, nothing put around the prompt.

    On a pipeline that drafts tokens from the prompt (`lookup`) each request has to say how.
    """
    config = genai().GenerationConfig()
    config.max_new_tokens = max_new_tokens
    config.ignore_eos = True
    config.apply_chat_template = False
    config.do_sample = False
    if lookup:
        config.num_assistant_tokens, config.max_ngram_size = _DRAFTED, _NGRAM
    return config


def as_tensor(tokens: Sequence[int]) -> Any:
    """Return token ids as a tensor of shape (1, n)."""
    return core().Tensor(np.asarray(tokens, np.int64).reshape(1, -1))


def _scheduler(recipe: Recipe) -> Any:
    scheduler = genai().SchedulerConfig()
    scheduler.num_kv_blocks = recipe.kv_tokens // BLOCK + _SPARE_BLOCKS
    scheduler.max_num_batched_tokens = min(recipe.config.n_batch, recipe.config.n_ctx)
    scheduler.enable_prefix_caching = recipe.prefix_caching
    return scheduler


def load_adapter(adapter: AdapterOnDisk) -> Any:
    """Read an adapter's file; a pipeline knows it by this very object.

    Raises
    ------
    ArtifactError
        ``artifact.adapter.load``, in the library's words.
    """
    try:
        return genai().Adapter(str(adapter.path))
    except RuntimeError as error:
        raise ArtifactError(
            f"OpenVINO refuses adapter `{adapter.name}`: {_last_words(error)}",
            code="artifact.adapter.load",
            file=str(adapter.path),
            remedy="Use a PEFT adapter that was made for this base",
        ) from None


def _check_files(recipe: Recipe, digests: DigestCache) -> None:
    check_folder(recipe.folder, recipe.digest, digests)
    for adapter in recipe.adapters:
        with open_regular(adapter.path) as fd:
            _check(digests.digest_descriptor(fd), adapter.digest, adapter.path)


def check_folder(folder: Path, digest: str, digests: DigestCache) -> None:
    """Check that a folder holds what its digest says; raises ArtifactError ``artifact.digest``."""
    found, _files = digest_folder(folder, digests.digest_descriptor)
    _check(found, digest, folder)


def _check(found: str, digest: str, path: Path) -> None:
    if found != digest:
        raise ArtifactError(
            f"the content changed: it has digest {short(found)}, not {short(digest)}",
            code="artifact.digest",
            file=str(path),
            remedy="Ask again to use the new content, or put the old one back",
        )


def _cannot(recipe: Recipe, error: RuntimeError) -> BackendError:
    return BackendError(
        f"OpenVINO cannot run this model with a context of {recipe.config.n_ctx} tokens: {_last_words(error)}",
        code="backend.context",
        file=str(recipe.folder),
        remedy="Check that memory suffices and lower profile.n_ctx, or export the model again",
    )


def _last_words(error: RuntimeError) -> str:
    return " ".join(str(error).split())[-_LAST_WORDS:]


class CachedPrefixes:
    """What the prefix cache of one pipeline must hold by now: a lower bound, since the library itself tells nothing.

    Whole blocks of the sequences that ran last are there as long as all of them fit together: the library lets go of
    those that were used longest ago. What it keeps of a block that is not full is not counted.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._known: list[tuple[int, ...]] = []

    def add(self, tokens: Sequence[int]) -> None:
        """Note a sequence whose KV was computed just now."""
        new = tuple(tokens)
        self._known = [one for one in self._known if one != new[: len(one)]]
        self._known.append(new)
        while len(self._known) > 1 and sum(map(_rounded, self._known)) > self._capacity:
            del self._known[0]

    def reused(self, prompt: Sequence[int]) -> int:
        """Return how many tokens of a prompt will be reused at least; the last one is always computed."""
        shared = max((common_prefix(one, prompt) for one in self._known), default=0) // BLOCK * BLOCK
        return min(shared, len(prompt) - 1)

    def clear(self) -> None:
        """Forget all: the pipeline is gone."""
        self._known.clear()


def _rounded(tokens: Sequence[int]) -> int:
    return -(-len(tokens) // BLOCK) * BLOCK
