"""The engine itself, free of transport: takes requests from any thread, runs them on one, tells watchers its state."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Hashable, Iterator, Sequence
from typing import Final

from cachetools import LRUCache

from ..backends.base import Abort, Aborted, Backend, Session
from ..digests import DigestCache, short
from ..errors import ArtifactError, BackendError, WarmlineError
from ..generation import Limits, Result, generate
from ..identity import Identity
from ..kv.pool import ContextPool
from ..prompts.layout import chat_prompt, completion_prompt
from ..prompts.window import Window
from ..scheduler import Job, Priority, Scheduler
from ..variant import ResolvedVariant
from ..verified import Verified
from .board import ANYONE, Board
from .effects import Effects
from .metrics import Metrics
from .quarantine import CrashLedger
from .receiving import EventSink, Once, Receiver, why_cold
from .resident import Residents
from .wire import ChatRequest, CompletionRequest, EngineStatus, LastRequest, State, VariantStatus

_DOCUMENTS: Final = 1024
Steps = Generator[None, None, None]


class EngineService:
    """Runs requests; every method may be called from any thread and returns at once unless it says otherwise.

    Parameters
    ----------
    backend, openvino
        The inference libraries; without the second one its variants are refused.
    digests
        Content digests.
    approved
        Tells whether the user approved a digest that a workspace brings.
    pool
        Warm KV; None for one of the default size.
    max_bases
        Resident bases at most; memory may allow fewer. The least recently used leaves first.
    crashes
        Who crashed the engine before: quarantined content is refused.
    effects
        What adapters were measured to change before; None for nothing.
    """

    def __init__(
        self,
        backend: Backend,
        digests: DigestCache,
        approved: Callable[[str], bool],
        *,
        openvino: Backend | None = None,
        pool: ContextPool | None = None,
        max_bases: int = 2,
        crashes: CrashLedger | None = None,
        effects: Effects | None = None,
    ) -> None:
        self.metrics = Metrics()
        self._crashes = crashes
        self._pool = ContextPool() if pool is None else pool
        self._residents = Residents(
            backend,
            digests,
            approved,
            self._pool,
            self._loading,
            openvino=openvino,
            max_bases=max_bases,
            effects=effects,
        )
        self._last_identity: LRUCache[Hashable, Identity] = LRUCache(_DOCUMENTS)
        self._scheduler = Scheduler()
        self._board = Board()

    # -- requests ------------------------------------------------------------------------------------------------

    def complete(self, request: CompletionRequest, receiver: Receiver) -> Callable[[], None]:
        """Queue a completion and return what cancels it. An idle one takes the place of a pre-warming."""
        once = Once(receiver)
        client = None if request.idle else request.client
        job = Job(
            lambda abort: self._guarded(self._complete(request, once, abort), once.error, request.variant, client),
            once.done,
            key=("prewarm" if request.idle else "complete", request.client, request.document, request.candidate),
            client=request.client,
            priority=Priority.PREWARM if request.idle else Priority.COMPLETION,
            prompt=_grows(request),
        )
        self._scheduler.submit(job)
        return lambda: self._scheduler.cancel(job)

    def chat(self, request: ChatRequest, receiver: Receiver) -> Callable[[], None]:
        """Queue a chat turn and return what cancels it. A completion interrupts it between two tokens."""
        once = Once(receiver)
        job = Job(
            lambda abort: self._guarded(self._chat(request, once, abort), once.error, request.variant, request.client),
            once.done,
            key=("chat", request.client, request.conversation),
            client=request.client,
            priority=Priority.CHAT,
        )
        self._scheduler.submit(job)
        return lambda: self._scheduler.cancel(job)

    def prewarm(self, request: CompletionRequest) -> None:
        """Prefill a prompt that is likely to be asked for; whatever else comes, ends it at once."""
        job = Job(
            lambda abort: self._guarded(self._prewarm(request, abort), lambda _error: None, request.variant, None),
            lambda _reason: None,
            key=("prewarm", request.client, request.document, request.candidate),
            client=request.client,
            priority=Priority.PREWARM,
            prompt=_grows(request),
        )
        self._scheduler.submit(job)

    def load(
        self,
        variant: ResolvedVariant,
        client: str,
        loaded: Callable[[VariantStatus], None],
        failed: Callable[[WarmlineError], None],
    ) -> Callable[[], None]:
        """Queue the loading of a variant and return what cancels it; `loaded` or `failed` is called once."""

        def work(_abort: Abort) -> Steps:
            verified, _session = self._session(variant)
            status = self._residents.describe(verified)
            self._board.loaded(client, status)
            loaded(status)
            yield

        def dropped(reason: str) -> None:
            failed(
                BackendError(f"loading was given up: {reason}", code=f"backend.{reason}", remedy="Ask again if needed")
            )

        job = Job(lambda abort: self._guarded(work(abort), failed, variant, client), dropped)
        self._scheduler.submit(job)
        return lambda: self._scheduler.cancel(job)

    def is_quick(self, variant: ResolvedVariant) -> bool:
        """Tell whether a request for this variant has nothing to hash first."""
        return self._residents.is_quick(variant)

    def hash_files(self, variant: ResolvedVariant) -> None:
        """Hash what a variant names, outside of the engine's thread: a huge file holds up nobody else. Blocks."""
        self._residents.hash_files(variant)

    def describe(self, variant: ResolvedVariant) -> VariantStatus:
        """Verify a variant and say what would answer. Blocks while files are hashed; raises `WarmlineError`."""
        return self._residents.describe(self._residents.verify(variant))

    def embed(
        self,
        variant: ResolvedVariant,
        client: str,
        text: str,
        done: Callable[[list[float]], None],
        failed: Callable[[WarmlineError], None],
    ) -> Callable[[], None]:
        """Queue an embedding of `text` by a variant's base; a variant with adapters is refused as unsupported."""

        def work(_abort: Abort) -> Steps:
            if variant.adapters:
                raise BackendError(
                    "embeddings are served by bases alone",
                    code="backend.unsupported",
                    file=variant.file,
                    field="adapters",
                    remedy="Ask a variant without adapters",
                )
            verified, _session = self._session(variant)
            done(self._residents.model(verified).embed(text))
            yield

        job = Job(
            lambda abort: self._guarded(work(abort), failed, variant, client),
            lambda reason: failed(BackendError(f"given up: {reason}", code=f"backend.{reason}", remedy="Ask again")),
            priority=Priority.CHAT,
        )
        self._scheduler.submit(job)
        return lambda: self._scheduler.cancel(job)

    def save(self) -> None:
        """Write the hottest KV to disk when nothing else is to do."""

        def work(_abort: Abort) -> Steps:
            self._pool.to_disk()
            yield

        self._scheduler.submit(Job(work, lambda _reason: None, key="save", priority=Priority.PREWARM))

    def serve_metrics(self, port: int) -> Callable[[], None]:
        """Serve the metrics over HTTP on 127.0.0.1; see `Metrics.serve`."""
        return self.metrics.serve(port, self.metrics_text)

    def metrics_text(self) -> str:
        """Return all metrics in Prometheus' text format."""
        values = {
            "queued": self._scheduler.queued,
            "preemptions": self._scheduler.preemptions,
            "contexts": len(self._pool),
            "snapshots": len(self._pool.snapshots),
            "snapshot_bytes": self._pool.snapshots.nbytes,
            "bases": self._residents.n_bases,
            "base_bytes": self._residents.base_bytes,
        }
        self.metrics.gauges(values, dict(self._pool.counters))
        return self.metrics.text()

    # -- status --------------------------------------------------------------------------------------------------

    def status(self, client: str = ANYONE) -> EngineStatus:
        """Return the engine's state, and of a client its own variant, last request and error."""
        return self._board.status(client)

    def watch(self, watcher: Callable[[EngineStatus], None], client: str = ANYONE) -> Callable[[], None]:
        """Call `watcher` now and at every change, from whatever thread made it; return what ends that."""
        return self._board.watch(watcher, client)

    def close(self) -> None:
        """Stop everything and free the models. Blocks until the running job has stopped. Idempotent."""
        self._board.engine(State.STOPPING)
        self._scheduler.close()
        self._pool.to_disk()
        self._residents.close()

    def _loading(self, base: str, share: float) -> None:
        self._board.engine(State.LOADING, loading=base, percent=min(100, int(100 * share)))

    def _resting(self) -> State:
        return State.READY if self._residents.n_bases else State.EMPTY

    # -- work, on the engine's thread ----------------------------------------------------------------------------

    def _guarded(
        self, steps: Steps, failed: Callable[[WarmlineError], None], variant: ResolvedVariant, client: str | None
    ) -> Steps:
        try:
            yield from steps
        except WarmlineError as error:
            self._fail(error, failed, client)
        except Exception as cause:  # the engine's thread must outlive any fault of one request
            fault = BackendError(
                f"internal error while running `{variant.name}`: {type(cause).__name__}: {cause}",
                code="backend.internal",
                file=variant.file,
                remedy="Report this with the log; other requests go on",
            )
            fault.__cause__ = cause
            self._fail(fault, failed, client)

    def _fail(self, error: WarmlineError, failed: Callable[[WarmlineError], None], client: str | None) -> None:
        self.metrics.failed(error.code)
        if client is None:
            self._board.engine(self._resting())
        else:
            self._board.failed(client, error, resting=self._resting())
        failed(error)

    def _session(self, variant: ResolvedVariant) -> tuple[Verified, Session]:
        verified = self._residents.verify(variant)
        if self._crashes is not None:
            self._refuse_quarantined(verified, self._crashes)
            self._crashes.note(verified.identity, [a.name for a in variant.adapters] or [variant.base.name])
        if self._residents.n_bases and not self._residents.is_live(verified.identity):
            self._board.engine(State.SWITCHING)
        return verified, self._residents.session(verified)

    def _refuse_quarantined(self, verified: Verified, crashes: CrashLedger) -> None:
        identity = verified.identity
        places = [(identity.base, "base.path", verified.variant.base.name)]
        for index, adapter in enumerate(verified.adapters):
            places.append((adapter.digest, f"adapters[{index}].path", adapter.spec.name))
        for digest, field, name in places:
            if crashes.quarantined(digest):
                raise ArtifactError(
                    f"`{name}` ({short(digest)}) crashed the engine twice and is not loaded again",
                    code="artifact.quarantined",
                    file=verified.variant.file,
                    field=field,
                    remedy=f"Replace the file, or try once more: warmline engine release {short(digest)}",
                )

    def _prompt(self, request: CompletionRequest, verified: Verified, session: Session, max_tokens: int) -> list[int]:
        view = Window(
            prefix=request.prefix,
            suffix=request.suffix,
            first_line=request.first_line,
            last_line=request.first_line,
            clipped_start=False,
            clipped_end=False,
        )
        with blamed_on(verified.variant.file):
            return completion_prompt(
                view,
                verified.fim,
                tokenize=self._residents.model(verified).tokenize,
                bos=verified.bos,
                path=request.path,
                context=request.context,
                header=request.header,
                n_ctx=session.n_ctx,
                max_tokens=max_tokens,
            )

    def _complete(self, request: CompletionRequest, once: Once, abort: Abort) -> Steps:
        verified, session = self._session(request.variant)
        max_tokens = request.max_tokens or request.variant.profile.max_tokens
        prompt = self._prompt(request, verified, session, max_tokens)
        limits = Limits(
            max_tokens=max_tokens,
            stop_ids=frozenset(verified.fim.stops) | verified.facts.end_of_generation,
            stop_texts=request.stop,
            max_prefill_ms=request.max_prefill_ms,
            max_predict_ms=request.max_predict_ms,
            probabilities=request.probability,
            first_rank=request.candidate,
        )
        place = ("complete", request.client, request.document)
        yield from self._generate(verified, session, prompt, limits, place, abort, once)

    def _prewarm(self, request: CompletionRequest, abort: Abort) -> Steps:
        verified, session = self._session(request.variant)
        prompt = self._prompt(request, verified, session, request.max_tokens or request.variant.profile.max_tokens)
        self._pool.warm(verified.identity, prompt, ("complete", request.client, request.document))
        with contextlib.suppress(Aborted):
            for _ in session.prefill(prompt, abort).batches:
                yield
        self._board.engine(State.READY)

    def _chat(self, request: ChatRequest, once: Once, abort: Abort) -> Steps:
        verified, session = self._session(request.variant)
        model = self._residents.model(verified)
        with blamed_on(verified.variant.file):
            prompt = chat_prompt(
                self._residents.template(verified),
                [turn.model_dump() for turn in request.messages],
                tokenize_special=model.tokenize_special,
                special_texts=verified.facts.special_texts,
                bos=verified.bos,
                bos_text=verified.facts.bos_text,
                eos_text=verified.facts.eos_text,
                n_ctx=session.n_ctx,
            )
        limits = Limits(
            max_tokens=request.max_tokens,
            stop_ids=verified.facts.end_of_generation,
            stop_texts=request.stop,
            max_prefill_ms=request.max_prefill_ms,
            max_predict_ms=request.max_predict_ms,
            json_schema=request.json_schema,
        )
        place = ("chat", request.client, request.conversation)
        yield from self._generate(verified, session, prompt, limits, place, abort, once)

    def _generate(
        self,
        verified: Verified,
        session: Session,
        prompt: Sequence[int],
        limits: Limits,
        place: tuple[str, str, str],
        abort: Abort,
        once: Once,
    ) -> Steps:
        """Run a generation with the identity's own KV in place, also after whatever ran in between."""
        identity = verified.identity
        before = self._last_identity.get(place)
        self._last_identity[place] = identity
        evicted = self._pool.was_evicted(identity)
        why = why_cold(identity, before, empty=not session.tokens, evicted=evicted)
        sink = EventSink(once, verified, len(prompt), why, estimated=session.estimates_reuse)
        model = self._residents.model(verified)
        self._pool.warm(identity, prompt, place)
        self._pool.pin(identity, place)
        active = self._residents.describe(verified)
        steps = generate(session, model.piece, prompt, limits, verified.variant.profile.sampling, abort, sink)
        client = place[1]
        self._board.begins(client, active)
        try:
            while (result := _step(steps)) is None:
                yield
                if abort.is_set():
                    continue  # it ends at its next step, for which nobody's KV need be moved
                lost = self._pool.retake(identity, place)
                if lost is not None:
                    with contextlib.suppress(Aborted):  # the next step notices the abort itself
                        session.prefill(lost, abort).run()
                if self._board.state is not State.BUSY:
                    self._board.begins(client, active)
        finally:
            self._pool.unpin(identity, place)
            self._board.engine(State.READY)
        kind, name = str(place[0]), verified.variant.name
        seconds = once.elapsed_ms / 1000
        self.metrics.ended(kind, name, seconds=seconds, predicted=result.predicted_tokens, outcome=result.outcome)
        if sink.start is not None:
            self.metrics.started(
                kind,
                name,
                seconds=sink.start.ttft_ms / 1000,
                prompt=sink.start.prompt_tokens,
                reused=sink.start.reused_tokens,
                reason=sink.start.reason,
            )
            self._board.last(
                client,
                LastRequest(
                    reused_tokens=sink.start.reused_tokens,
                    reused_estimated=sink.start.reused_estimated,
                    prompt_tokens=sink.start.prompt_tokens,
                    reason=sink.start.reason,
                    ttft_ms=sink.start.ttft_ms,
                    total_ms=once.elapsed_ms,
                    outcome=result.outcome,
                ),
            )
        once.done(result.outcome, result.text, result.predicted_tokens, sink.mean_probability)


def _grows(request: CompletionRequest) -> tuple[Hashable, str]:
    """Tell a prompt's parts for `Job.prompt`: typing appends to the prefix."""
    fixed = (request.variant, request.suffix, request.context, request.header, request.path, request.first_line)
    return fixed, request.prefix


def _step(steps: Generator[None, None, Result]) -> Result | None:
    try:
        next(steps)
    except StopIteration as end:
        result: Result = end.value
        return result
    return None


@contextlib.contextmanager
def blamed_on(file: str) -> Iterator[None]:
    """Point errors about a prompt at the variant's file."""
    try:
        yield
    except WarmlineError as error:
        error.file = error.file or file
        raise
