"""One variant, checked or measured once, in this very process, through the backends as the engine uses them."""

from __future__ import annotations

import time
from typing import Final

from ..backends.base import Abort, Backend, BaseModelHandle, Sampler, Session
from ..digests import DigestCache
from ..errors import PromptError, WarmlineError
from ..host.effects import Effects
from ..host.resident import Residents
from ..kv.pool import ContextPool
from ..memory import resident_bytes
from ..trust import TrustStore
from ..variant import Sampling
from ..verified import Verified, Verifier
from .job import Job
from .machine import peak_bytes
from .prompt import TYPED, prompt
from .report import AdapterLabel, Kind, Label, Memory, Run

_GREEDY: Final = Sampling()


class Bench:
    """The libraries and the store that a job needs; native code is loaded with the first use."""

    def __init__(self, job: Job) -> None:
        from ..backends.llama import LlamaBackend

        self._job = job
        self._digests = DigestCache(job.home / "cache" / "digests.json")
        self._llama = LlamaBackend(self._digests)
        self._openvino: Backend | None = None
        if job.variant.backend == "openvino":
            from ..backends.openvino import OpenVinoBackend
            from ..backends.openvino_native import installed

            self._openvino = OpenVinoBackend(self._digests) if installed() else None

    def check(self) -> Label:
        """Verify the variant, load it, prove what its adapters change, and say what it is.

        Its files are in the system's cache from here on, so that no later load waits for a disk.

        Raises
        ------
        WarmlineError
            What the engine itself would say of the variant; ``prompt.room`` where its context is too small.
        """
        trust = TrustStore(self._job.home / "trust.json")
        effects = Effects(self._job.home / "cache" / "effects.json")
        residents = Residents(
            self._llama,
            self._digests,
            trust.approved,
            ContextPool(1),
            lambda name, share: None,
            openvino=self._openvino,
            effects=effects,
        )
        try:
            verified = residents.verify(self._job.variant)
            self._check_room(verified)
            residents.session(verified)
        finally:
            residents.close()
        return _label(verified)

    def measure(self) -> Run:
        """Load the variant, read a prompt that nobody has read, write behind it, then read what was typed on.

        Raises
        ------
        WarmlineError
            As the engine; ``bench.warm`` where something of the prompt was there already.
        """
        trust = TrustStore(self._job.home / "trust.json")
        verified = Verifier(self._llama, self._digests, trust.approved, openvino=self._openvino).verify(
            self._job.variant
        )
        backend: Backend = self._openvino or self._llama
        before = resident_bytes()
        began = time.perf_counter()
        model = backend.load(verified.variant.base.path, verified.identity.base)
        session = model.open_session([adapter.on_disk for adapter in verified.adapters], verified.context)
        if not session.resident:
            session.resume()
        load_ms = _since(began)
        try:
            return self._timed(verified, model, session, load_ms, before)
        finally:
            session.close()
            backend.close()

    def _timed(self, verified: Verified, model: BaseModelHandle, session: Session, load_ms: float, before: int) -> Run:
        job = self._job
        text, typed = prompt(model, verified.bos, job.prompt_tokens, job.round)
        sampler, token, cold_ms, cold_reused = _first_token(session, text)
        if cold_reused:
            raise WarmlineError(
                f"{cold_reused} tokens of a prompt that is new to this process were there",
                code="bench.warm",
                remedy="Report this: it is our fault",
            )
        began = time.perf_counter()
        for _ in range(job.decode_tokens):
            session.decode(token, Abort())
            token = sampler.pick()
        decode_ms = _since(began)
        sampler.close()
        session.prefill(text, Abort()).run()  # or what it wrote might be what is typed, and be there already
        sampler, _, warm_ms, warm_reused = _first_token(session, text + typed)
        sampler.close()
        after, peak = resident_bytes(), peak_bytes()
        return Run(
            round=job.round,
            load_ms=load_ms,
            cold_first_ms=cold_ms,
            prefill_tokens_per_s=1000 * len(text) / cold_ms,
            warm_first_ms=warm_ms,
            decode_tokens_per_s=1000 * job.decode_tokens / decode_ms,
            cold_reused=cold_reused,
            warm_prompt=len(text) + len(typed),
            warm_reused=warm_reused,
            memory=Memory(
                base=verified.base_bytes,
                adapters=sum(adapter.known.nbytes for adapter in verified.adapters),
                kv=verified.capacity.kv_bytes if verified.capacity else None,
                snapshot=len(session.save()) if session.can_save else None,
                resident_before=before or None,
                resident_after=after or None,
                resident_peak=peak,
            ),
        )

    def _check_room(self, verified: Verified) -> None:
        needed, n_ctx = self._job.prompt_tokens + TYPED + self._job.decode_tokens, verified.context.n_ctx
        if needed > n_ctx:
            raise PromptError(
                f"the context of `{verified.variant.name}` has {n_ctx} tokens, this bench needs {needed}",
                code="prompt.room",
                file=verified.variant.file,
                field="profile.n_ctx",
                remedy="Lower --prompt-tokens or --decode-tokens, or raise n_ctx in the variant",
            )


def _first_token(session: Session, tokens: list[int]) -> tuple[Sampler, int, float, int]:
    """Return the sampler, the first token it picks, the milliseconds until then, and the tokens that were there."""
    began = time.perf_counter()
    sampler = session.new_sampler(_GREEDY)
    reused = session.prefill(tokens, Abort()).run()
    token = sampler.pick()
    return sampler, token, _since(began), reused


def _since(began: float) -> float:
    return (time.perf_counter() - began) * 1000


def _label(verified: Verified) -> Label:
    variant, identity = verified.variant, verified.identity
    merged = variant.base.merged_from
    kind: Kind = "dynamic" if verified.adapters else "merged" if merged else "base"
    return Label(
        name=variant.name,
        kind=kind,
        identity=identity.digest,
        base=variant.base.name,
        base_digest=identity.base,
        merged_from=merged,
        adapters=tuple(
            AdapterLabel(
                name=adapter.spec.name,
                digest=known.digest,
                scale=known.scale,
                effective_scale=known.effective_scale,
            )
            for adapter, known in zip(verified.adapters, identity.adapters, strict=True)
        ),
        backend=identity.backend,
        backend_version=identity.backend_version,
        threads=verified.context.threads,
        n_ctx=verified.context.n_ctx,
    )
