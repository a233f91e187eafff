"""The engine itself, free of transport: resident bases, live contexts, jobs on one thread, status for watchers."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Protocol

from cachetools import LRUCache

from ..backends.base import Abort, Backend, BaseModelHandle, Session
from ..digests import DigestCache
from ..errors import ArtifactError, BackendError, VariantError, WarmlineError
from ..generation import Limits, generate
from ..identity import Identity
from ..kv.pool import ContextPool
from ..prompts.fim import assemble
from ..prompts.window import Window, fit
from ..scheduler import Job, Scheduler
from ..variant import ResolvedVariant
from ..verified import Verified, Verifier
from .wire import (
    CompletionRequest,
    Delta,
    Done,
    EngineStatus,
    ErrorInfo,
    Event,
    LastRequest,
    Outcome,
    Started,
    State,
    VariantStatus,
)

_SUFFIX_SHARE: Final = 4  # a quarter of the room at most goes to what follows the cursor
_DOCUMENTS: Final = 1024


class Receiver(Protocol):
    """Where one request's events go; called from the engine's thread or from a caller's."""

    def event(self, event: Event) -> None:
        """Take an event; `Done` is the last."""

    def error(self, error: WarmlineError) -> None:
        """Take the error that ended the request."""


class EngineService:
    """Runs requests; every method may be called from any thread and returns at once unless it says otherwise.

    Parameters
    ----------
    backend
        The inference library; used from the engine's thread alone, except to describe a variant.
    digests
        Content digests.
    approved
        Tells whether the user approved a digest that a workspace brings.
    max_bases
        Resident bases; the least recently used leaves first.
    """

    def __init__(
        self,
        backend: Backend,
        digests: DigestCache,
        approved: Callable[[str], bool],
        *,
        max_bases: int = 1,
        pool: ContextPool | None = None,
    ) -> None:
        self._backend = backend
        self._verifier = Verifier(backend, digests, approved)
        self._verifying = threading.Lock()
        self._max_bases = max_bases
        self._models: OrderedDict[str, BaseModelHandle] = OrderedDict()
        self._pool = ContextPool() if pool is None else pool
        self._effects: dict[tuple[str, str, str], float] = {}
        self._last_identity: LRUCache[tuple[str, str], Identity] = LRUCache(_DOCUMENTS)
        self._scheduler = Scheduler()
        self._status = EngineStatus(state=State.EMPTY)
        self._watchers: list[Callable[[EngineStatus], None]] = []
        self._status_lock = threading.Lock()

    # -- requests ------------------------------------------------------------------------------------------------

    def complete(self, request: CompletionRequest, receiver: Receiver) -> Callable[[], None]:
        """Queue a completion and return what cancels it."""
        request_receiver = _Once(receiver)
        arrived = time.monotonic()

        def run(abort: Abort) -> None:
            self._guarded(
                lambda: self._complete(request, request_receiver, abort, arrived),
                request_receiver.error,
                request.variant,
            )

        def dropped(reason: str) -> None:
            request_receiver.done(_outcome(reason), "", 0, arrived)

        job = Job(run, dropped, key=("complete", request.client, request.document))
        self._scheduler.submit(job)
        return lambda: self._scheduler.cancel(job)

    def load(
        self, variant: ResolvedVariant, loaded: Callable[[VariantStatus], None], failed: Callable[[WarmlineError], None]
    ) -> Callable[[], None]:
        """Queue the loading of a variant and return what cancels it; `loaded` or `failed` is called once."""

        def run(_abort: Abort) -> None:
            def work() -> None:
                verified = self._verify(variant)
                self._session(verified)
                self._set(state=State.READY, active=self._describe(verified), error=None)
                loaded(self._describe(verified))

            self._guarded(work, failed, variant)

        def dropped(reason: str) -> None:
            failed(
                BackendError(f"loading was given up: {reason}", code=f"backend.{reason}", remedy="Ask again if needed")
            )

        job = Job(run, dropped)
        self._scheduler.submit(job)
        return lambda: self._scheduler.cancel(job)

    def describe(self, variant: ResolvedVariant) -> VariantStatus:
        """Verify a variant and say what would answer. Blocks while files are hashed; raises `WarmlineError`."""
        return self._describe(self._verify(variant))

    # -- status --------------------------------------------------------------------------------------------------

    @property
    def status(self) -> EngineStatus:
        """The state now."""
        return self._status

    def watch(self, watcher: Callable[[EngineStatus], None]) -> Callable[[], None]:
        """Call `watcher` now and at every change, from whatever thread made it; return what ends that."""
        with self._status_lock:
            self._watchers.append(watcher)
            watcher(self._status)

        def stop() -> None:
            with self._status_lock, contextlib.suppress(ValueError):
                self._watchers.remove(watcher)

        return stop

    def close(self) -> None:
        """Stop everything and free the models. Blocks until the running job has stopped. Idempotent."""
        self._set(state=State.STOPPING)
        self._scheduler.close()
        self._pool.close()
        for model in self._models.values():
            model.close()
        self._models.clear()
        self._backend.close()

    def _set(self, **changes: object) -> None:
        with self._status_lock:
            status = self._status.model_copy(update=changes)
            if status == self._status:
                return
            self._status = status
            for watcher in self._watchers:
                watcher(status)

    # -- work, on the engine's thread ----------------------------------------------------------------------------

    def _guarded(
        self, work: Callable[[], None], failed: Callable[[WarmlineError], None], variant: ResolvedVariant
    ) -> None:
        try:
            work()
        except WarmlineError as error:
            self._fail(error, failed)
        except Exception as cause:  # the engine's thread must outlive any fault of one request
            fault = BackendError(
                f"internal error while running `{variant.name}`: {type(cause).__name__}: {cause}",
                code="backend.internal",
                file=variant.file,
                remedy="Report this with the log; other requests go on",
            )
            fault.__cause__ = cause
            self._fail(fault, failed)

    def _fail(self, error: WarmlineError, failed: Callable[[WarmlineError], None]) -> None:
        self._set(state=State.FAILED, error=ErrorInfo(**error.to_dict()))
        failed(error)

    def _verify(self, variant: ResolvedVariant) -> Verified:
        with self._verifying:
            return self._verifier.verify(variant)

    def _describe(self, verified: Verified) -> VariantStatus:
        scales = {
            a.digest: i.effective_scale for a, i in zip(verified.adapters, verified.identity.adapters, strict=True)
        }
        effects = {
            digest: effect
            for digest, scale in scales.items()
            if (effect := self._effects.get((verified.identity.base, digest, scale))) is not None
        }
        return verified.status(effects)

    def _model(self, verified: Verified) -> BaseModelHandle:
        digest = verified.identity.base
        model = self._models.get(digest)
        if model is None:
            self._set(state=State.LOADING, error=None)
            while len(self._models) >= self._max_bases:
                oldest, leaving = self._models.popitem(last=False)
                self._pool.drop(oldest)
                leaving.close()
            model = self._models[digest] = self._backend.load(verified.variant.base.path, digest)
        self._models.move_to_end(digest)
        return model

    def _session(self, verified: Verified) -> Session:
        session = self._pool.get(verified.identity)
        if session is not None:
            self._models.move_to_end(verified.identity.base)
            return session
        if self._models and self._status.state in (State.READY, State.BUSY):
            self._set(state=State.SWITCHING)
        model = self._model(verified)
        self._check_effect(verified, model)
        adapters = [adapter.on_disk for adapter in verified.adapters]
        return self._pool.put(verified.identity, lambda: model.open_session(adapters, verified.context))

    def _check_effect(self, verified: Verified, model: BaseModelHandle) -> None:
        known = verified.identity.adapters
        for index, adapter in enumerate(verified.adapters):
            key = (verified.identity.base, adapter.digest, known[index].effective_scale)
            effect = self._effects.get(key)
            if effect is None:
                try:
                    effect = self._effects[key] = model.probe_effect(adapter.on_disk)
                except ArtifactError as error:
                    error.message = f"{error.file}: {error.message}" if error.file else error.message
                    error.file, error.field = verified.variant.file, f"adapters[{index}].path"
                    raise
            if math.isnan(effect) or effect == 0:
                what = "changes nothing" if effect == 0 else "makes the model's output undefined (NaN)"
                raise VariantError(
                    f"adapter `{adapter.spec.name}` {what} on this base",
                    code="variant.no_effect" if effect == 0 else "variant.nan_effect",
                    file=verified.variant.file,
                    field=f"adapters[{index}]",
                    remedy="Train or convert the adapter again, or leave it out of the variant",
                )

    def _complete(self, request: CompletionRequest, receiver: _Once, abort: Abort, arrived: float) -> None:
        verified = self._verify(request.variant)
        warm = self._pool.get(verified.identity) is not None
        evicted = not warm and self._pool.was_evicted(verified.identity)
        session = self._session(verified)
        model = self._models[verified.identity.base]
        status = self._describe(verified)
        self._set(state=State.BUSY, active=status, error=None)
        max_tokens = request.max_tokens or request.variant.profile.max_tokens
        prompt = _prompt(request, verified, model, session.n_ctx, max_tokens)
        place = (request.client, request.document)
        before = self._last_identity.get(place)
        self._last_identity[place] = verified.identity
        sink = _Sink(
            receiver, verified, len(prompt), arrived, why=_why(verified.identity, before, warm=warm, evicted=evicted)
        )
        limits = Limits(
            max_tokens=max_tokens,
            stop_ids=frozenset(verified.fim.stops) | verified.facts.end_of_generation,
            stop_texts=request.stop,
            max_prefill_ms=request.max_prefill_ms,
            max_predict_ms=request.max_predict_ms,
        )
        try:
            result = generate(session, model.piece, prompt, limits, verified.variant.profile.sampling, abort, sink)
        finally:
            self._set(state=State.READY)
        total = (time.monotonic() - arrived) * 1000
        if sink.start is not None:
            self._set(
                last=LastRequest(
                    reused_tokens=sink.start.reused_tokens,
                    prompt_tokens=sink.start.prompt_tokens,
                    reason=sink.start.reason,
                    ttft_ms=sink.start.ttft_ms,
                    total_ms=total,
                    outcome=result.outcome,
                )
            )
        receiver.done(_outcome(result.outcome), result.text, result.predicted_tokens, arrived)


def _prompt(
    request: CompletionRequest, verified: Verified, model: BaseModelHandle, n_ctx: int, max_tokens: int
) -> list[int]:
    fim = verified.fim
    overhead = len(assemble(fim, (), (), tokenize=model.tokenize, bos=verified.bos, path=request.path))
    room = n_ctx - max_tokens - overhead
    if room < 16:
        raise BackendError(
            f"a context of {n_ctx} tokens leaves no room for a prompt beside {max_tokens} new tokens",
            code="backend.prompt",
            file=verified.variant.file,
            field="profile.n_ctx",
            remedy="Raise n_ctx or lower max_tokens",
        )
    suffix_room = 0 if fim.order == "prefix-only" else room // _SUFFIX_SHARE
    view = Window(
        prefix=request.prefix,
        suffix=request.suffix,
        first_line=request.first_line,
        last_line=request.first_line,
        clipped_start=False,
        clipped_end=False,
    )
    fitted = fit(view, model.tokenize, room - suffix_room, suffix_room)
    prompt = assemble(
        fim, fitted.prefix_ids, fitted.suffix_ids, tokenize=model.tokenize, bos=verified.bos, path=request.path
    )
    # An empty file under a format without sentinels gives no token to go on from: a line end says the same.
    return prompt or model.tokenize("\n")


def _why(identity: Identity, before: Identity | None, *, warm: bool, evicted: bool) -> str | None:
    """Name the reason for reusing nothing, should it come to that; None leaves it to the prefix."""
    if before is not None and before != identity:
        return f"identity:{identity.difference(before)}"
    if evicted:
        return "evicted"
    return None if warm else "cold"


def _outcome(reason: str) -> Outcome:
    try:
        return Outcome(reason)
    except ValueError:
        return Outcome.CANCELLED  # the engine is stopping


class _Once:
    """Passes events on until the request is over; whoever ends it first, wins."""

    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._lock = threading.Lock()
        self._over = False

    def event(self, event: Event) -> None:
        with self._lock:
            if not self._over:
                self._receiver.event(event)

    def done(self, outcome: Outcome, text: str, predicted: int, arrived: float) -> None:
        with self._lock:
            if not self._over:
                self._over = True
                total = (time.monotonic() - arrived) * 1000
                self._receiver.event(Done(outcome=outcome, text=text, predicted_tokens=predicted, total_ms=total))

    def error(self, error: WarmlineError) -> None:
        with self._lock:
            if not self._over:
                self._over = True
                self._receiver.error(error)


class _Sink:
    """Turns what a generation tells into events (`generation.Sink`)."""

    def __init__(self, receiver: _Once, verified: Verified, prompt_tokens: int, arrived: float, why: str | None):
        self._receiver = receiver
        self._verified = verified
        self._prompt_tokens = prompt_tokens
        self._arrived = arrived
        self._why = why
        self.start: Started | None = None

    def started(self, reused: int) -> None:
        total = self._prompt_tokens
        if reused == total - 1 and reused > 0:
            reason = "warm"
        elif reused == 0 and self._why is not None:
            reason = self._why
        else:
            reason = f"prefix:{reused}/{total}"
        self.start = Started(
            identity=self._verified.identity.digest,
            prompt_tokens=total,
            reused_tokens=reused,
            reason=reason,
            fim=self._verified.fim.describe(),
            ttft_ms=(time.monotonic() - self._arrived) * 1000,
        )
        self._receiver.event(self.start)

    def text(self, piece: str) -> None:
        self._receiver.event(Delta(text=piece))
