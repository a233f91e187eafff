"""What a variant of llama.cpp names, opened, hashed and checked: GGUF files."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from cachetools import LRUCache

from .artifacts.gguf import GGUFHeader, read_header
from .artifacts.lora import read_adapter
from .backends.base import BaseFacts, ContextConfig
from .capacity import Capacity, default_budget, measure
from .digests import DigestCache, open_regular
from .validation import CheckedAdapter, check_gguf_adapter, effective_scale, read_base
from .variant import Profile, ResolvedAdapter, ResolvedBase
from .verified_files import Admit, KnownAdapter

_REMEMBERED: Final = 64


class GGUFFiles:
    """GGUF bases and adapters (`VariantFiles`)."""

    def __init__(self, digests: DigestCache) -> None:
        self._digests = digests
        self._headers: LRUCache[str, GGUFHeader] = LRUCache(_REMEMBERED)
        self._capacities: LRUCache[tuple[str, int, int, str, str], Capacity] = LRUCache(_REMEMBERED)
        self._adapters: LRUCache[tuple[str, str], CheckedAdapter] = LRUCache(_REMEMBERED)

    def paths(self, artifact: ResolvedBase | ResolvedAdapter) -> list[Path]:
        """See `VariantFiles.paths`."""
        return [artifact.path]

    def known(self, artifact: ResolvedBase | ResolvedAdapter) -> tuple[str, ...] | None:
        """See `VariantFiles.known`."""
        with open_regular(artifact.path) as fd:
            digest = self._digests.known(fd)
        return None if digest is None else (digest,)

    def base(self, base: ResolvedBase, admit: Admit) -> str:
        """See `VariantFiles.base`."""
        with open_regular(base.path) as fd:
            if not self._digests.knows(fd):
                read_header(fd, label=str(base.path))  # what is no model is not worth hashing
            digest = self._digests.digest_descriptor(fd)
            admit(digest)
            if digest not in self._headers:
                self._headers[digest] = read_base(fd, label=str(base.path))
        return digest

    def adapter(self, spec: ResolvedAdapter, base_digest: str, admit: Admit) -> KnownAdapter:
        """See `VariantFiles.adapter`."""
        with open_regular(spec.path) as fd:
            if not self._digests.knows(fd):
                read_adapter(fd, label=str(spec.path))
            digest = self._digests.digest_descriptor(fd)
            admit(digest)
            checked = self._adapters.get((base_digest, digest))
            if checked is None:
                checked = check_gguf_adapter(fd, self._headers[base_digest], label=str(spec.path))
                self._adapters[base_digest, digest] = checked
        summary = checked.summary
        return KnownAdapter(
            path=spec.path,
            digests=(digest,),
            rank=summary.rank,
            alpha=summary.alpha,
            nbytes=summary.nbytes,
            factor=effective_scale(1, summary.alpha, summary.rank),
            native_factor=1,  # the library itself multiplies by alpha / rank
            zero_pairs=checked.zero_pairs,
        )

    def claimed(self, base_digest: str) -> frozenset[str]:
        """See `VariantFiles.claimed`; a GGUF file claims nothing."""
        return frozenset()

    def context(self, profile: Profile, facts: BaseFacts) -> ContextConfig:
        """See `VariantFiles.context`."""
        n_ctx = min(profile.n_ctx, facts.n_ctx_train)
        return ContextConfig(n_ctx=n_ctx, type_k=profile.type_k, type_v=profile.type_v)

    def capacity(
        self, base_digest: str, adapter_bytes: int, profile: Profile, facts: BaseFacts, context: ContextConfig
    ) -> Capacity:
        """See `VariantFiles.capacity`."""
        key = (base_digest, adapter_bytes, profile.n_ctx, context.type_k, context.type_v)
        known = self._capacities.get(key)
        if known is None:
            known = self._capacities[key] = measure(
                self._headers[base_digest],
                n_ctx=profile.n_ctx,
                n_ctx_train=facts.n_ctx_train,
                type_k=context.type_k,
                type_v=context.type_v,
                adapter_bytes=adapter_bytes,
                budget_bytes=default_budget(),
            )
        return known

    def hash(self, path: Path) -> None:
        """See `VariantFiles.hash`."""
        with open_regular(path) as fd:
            if not self._digests.knows(fd):
                read_header(fd)
                self._digests.digest_descriptor(fd)
