"""What is loaded: bases, their live contexts, and what each adapter was measured to change."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final

from cachetools import LRUCache

from ..backends.base import Backend, BaseModelHandle, Session
from ..digests import DigestCache, short
from ..errors import ArtifactError, VariantError
from ..identity import Identity
from ..kv.pool import ContextPool
from ..memory import available_bytes
from ..prompts.chat import ChatTemplate
from ..variant import ResolvedVariant
from ..verified import Verified, VerifiedAdapter, Verifier
from .effects import Effects
from .logs import note
from .wire import VariantStatus

# A base needs its file's size in memory, and some more for contexts and compute buffers.
_HEADROOM: Final = 1.5
_log = logging.getLogger(__name__)


class Residents:
    """Bases and contexts in memory; used from the engine's thread, but for `verify` and `describe`.

    Parameters
    ----------
    backend, openvino
        The libraries that run variants of llama.cpp and of OpenVINO, if the latter is there.
    loading
        Called with a base's name before its weights are loaded, and with the share that is loaded meanwhile.
    max_bases
        Bases that stay; the least recently used leaves first, unless an unfinished generation stands on it.
    effects
        What adapters were measured to change; None to begin with none.
    """

    def __init__(
        self,
        backend: Backend,
        digests: DigestCache,
        approved: Callable[[str], bool],
        pool: ContextPool,
        loading: Callable[[str, float], None],
        *,
        openvino: Backend | None = None,
        max_bases: int = 2,
        effects: Effects | None = None,
    ) -> None:
        self._backends = {"llama": backend} | ({"openvino": openvino} if openvino is not None else {})
        self._verifier = Verifier(backend, digests, approved, openvino=openvino)
        self._verifying = threading.Lock()
        self._pool = pool
        self._loading = loading
        self._max_bases = max_bases
        self._sizes: dict[str, int] = {}
        self._models: OrderedDict[str, BaseModelHandle] = OrderedDict()
        self._templates: LRUCache[str, ChatTemplate] = LRUCache(16)
        self._effects = Effects() if effects is None else effects
        self._described: LRUCache[Hashable, VariantStatus] = LRUCache(64)

    def verify(self, variant: ResolvedVariant) -> Verified:
        """See `Verifier.verify`; may be called from any thread."""
        with self._verifying:
            return self._verifier.verify(variant)

    def is_quick(self, variant: ResolvedVariant) -> bool:
        """See `Verifier.is_quick`; may be called from any thread."""
        return self._verifier.is_quick(variant)

    def hash_files(self, variant: ResolvedVariant) -> None:
        """See `Verifier.hash_files`; may be called from any thread, and holds up nobody else."""
        self._verifier.hash_files(variant)

    def describe(self, verified: Verified) -> VariantStatus:
        """Describe a variant, with the effects that were measured so far; may be called from any thread."""
        effects = {
            adapter.digest: effect
            for index, adapter in enumerate(verified.identity.adapters)
            if (effect := self._effects.get(verified.identity, index)) is not None
        }
        key = (verified.variant, verified.identity, tuple(effects.items()))
        with self._verifying:
            known = self._described.get(key)
            if known is None:
                known = self._described[key] = verified.status(effects)
        return known

    def template(self, verified: Verified) -> ChatTemplate:
        """Return the variant's chat template, compiled once; raises PromptError ``prompt.template_*``."""
        digest = verified.identity.template
        known = self._templates.get(digest)
        if known is None:
            own = verified.variant.profile.chat_template
            known = self._templates[digest] = ChatTemplate.choose(own, verified.facts.chat_template)
        return known

    def is_live(self, identity: Identity) -> bool:
        """Tell whether the identity has a context."""
        return self._pool.get(identity) is not None

    def model(self, verified: Verified) -> BaseModelHandle:
        """Return the variant's base, loaded."""
        digest = verified.identity.base
        model = self._models.get(digest)
        if model is None:
            name = verified.variant.base.name
            self._loading(name, 0.0)
            began = time.monotonic()
            size = verified.base_bytes
            self._make_room(size)
            model = self._models[digest] = self._backends[verified.variant.backend].load(
                verified.variant.base.path, digest, lambda share: self._loading(name, share)
            )
            self._sizes[digest] = size
            note(
                _log, "loaded", base=name, digest=short(digest), seconds=round(time.monotonic() - began, 3), bytes=size
            )
        self._models.move_to_end(digest)
        return model

    def session(self, verified: Verified) -> Session:
        """Return the identity's own context, made if need be: adapters loaded, their effect proven.

        Raises
        ------
        WarmlineError
            Typed; an adapter that changes nothing is ``variant.no_effect``.
        """
        model = self.model(verified)
        session = self._pool.get(verified.identity)
        if session is None:
            for index, adapter in enumerate(verified.adapters):
                self._check_effect(verified, model, index, adapter)
            adapters = [adapter.on_disk for adapter in verified.adapters]
            session = self._pool.put(verified.identity, lambda: model.open_session(adapters, verified.context))
        elif not session.resident:
            self._loading(verified.variant.base.name, 0.0)
            session.resume()
            self._pool.mark_evicted(verified.identity)
        return session

    def close(self) -> None:
        """Free contexts, then bases, then the library's rest."""
        self._pool.close()
        for model in self._models.values():
            model.close()
        self._models.clear()
        for backend in self._backends.values():
            backend.close()

    @property
    def n_bases(self) -> int:
        """Bases in memory."""
        return len(self._models)

    @property
    def base_bytes(self) -> int:
        """Bytes of their files."""
        return sum(self._sizes[digest] for digest in self._models)

    def _make_room(self, size: int) -> None:
        busy = self._pool.pinned_bases
        for digest in [digest for digest in self._models if digest not in busy]:
            free = available_bytes()
            if len(self._models) < self._max_bases and (free is None or free > size * _HEADROOM):
                return
            self._pool.drop(digest)
            self._models.pop(digest).close()

    def _check_effect(self, verified: Verified, model: BaseModelHandle, index: int, adapter: VerifiedAdapter) -> None:
        effect = self._effects.get(verified.identity, index)
        if effect is None:
            try:
                effect = model.probe_effect(adapter.on_disk)
                self._effects.put(verified.identity, index, effect)
            except ArtifactError as error:
                error.message = f"{error.file}: {error.message}" if error.file else error.message
                error.file, error.field = verified.variant.file, f"adapters[{index}].path"
                raise
        if effect == 0 or math.isnan(effect):
            what = "changes nothing" if effect == 0 else "makes the model's output undefined (NaN)"
            raise VariantError(
                f"adapter `{adapter.spec.name}` {what} on this base",
                code="variant.no_effect" if effect == 0 else "variant.nan_effect",
                file=verified.variant.file,
                field=f"adapters[{index}]",
                remedy="Train or convert the adapter again, or leave it out of the variant",
            )
