"""The engine itself, free of transport: takes requests from any thread, runs them on one, tells watchers its state."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable

from ..backends.base import Abort, Backend
from ..digests import DigestCache
from ..errors import BackendError, WarmlineError
from ..kv.pool import ContextPool
from ..memory import resident_bytes
from ..scheduler import Job, Priority, Scheduler
from ..variant import ResolvedVariant
from .board import ANYONE, Board
from .effects import Effects
from .logs import note
from .metrics import Metrics
from .outlet import Aside
from .quarantine import CrashLedger
from .receiving import Once, Receiver
from .resident import Residents
from .wire import ChatRequest, CompletionRequest, EngineStatus, State, VariantStatus
from .work import Steps, Work

_log = logging.getLogger(__name__)


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
    log_prompts
        See `Work`.
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
        log_prompts: bool = False,
    ) -> None:
        self.metrics = Metrics()
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
        self._scheduler = Scheduler()
        self._board = Board()
        self._aside = Aside()
        self._work = Work(
            self._residents, self._pool, self._board, self.metrics, crashes, self.soon, log_prompts=log_prompts
        )

    def soon(self, function: Callable[[], None]) -> None:
        """Have a function called in a thread that is there for this, in turn; see `Aside`."""
        self._aside.call(function)

    # -- requests ------------------------------------------------------------------------------------------------

    def complete(self, request: CompletionRequest, receiver: Receiver) -> Callable[[], None]:
        """Queue a completion and return what cancels it. An idle one takes the place of a pre-warming."""
        once = Once(receiver)
        client = None if request.idle else request.client
        job = Job(
            lambda abort: self._guarded(self._work.complete(request, once, abort), once.error, request.variant, client),
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
            lambda abort: self._guarded(
                self._work.chat(request, once, abort), once.error, request.variant, request.client
            ),
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
            lambda abort: self._guarded(self._work.prewarm(request, abort), lambda _error: None, request.variant, None),
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
            verified, _session = self._work.session(variant)
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
            verified, _session = self._work.session(variant)
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
        with self._board.settling():
            values = {
                "queued": self._scheduler.queued,
                "preemptions": self._scheduler.preemptions,
                "contexts": len(self._pool),
                "snapshots": len(self._pool.snapshots),
                "snapshot_bytes": self._pool.snapshots.nbytes,
                "bases": self._residents.n_bases,
                "base_bytes": self._residents.base_bytes,
                "resident_bytes": resident_bytes(),
            }
            self.metrics.gauges(values, self._pool.outcomes)
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
        self._aside.close()
        self._pool.to_disk()
        self._residents.close()

    def _loading(self, base: str, share: float) -> None:
        self._board.engine(State.LOADING, loading=base, percent=min(100, int(100 * share)))

    def _resting(self) -> State:
        return State.READY if self._residents.n_bases else State.EMPTY

    def _guarded(
        self, steps: Steps, failed: Callable[[WarmlineError], None], variant: ResolvedVariant, client: str | None
    ) -> Steps:
        self._work.begins()
        try:
            yield from steps
        except WarmlineError as error:
            self._fail(error, failed, client)
        except Exception as cause:  # the engine's thread must outlive any fault of one request
            fault = BackendError(
                f"internal error while running `{variant.name}`: {type(cause).__name__}",
                code="backend.internal",
                file=variant.file,
                remedy="Report this with the log; other requests go on",
            )
            fault.__cause__ = cause
            _log.error("a job failed: %s", type(cause).__name__, exc_info=cause)
            self._fail(fault, failed, client)

    def _fail(self, error: WarmlineError, failed: Callable[[WarmlineError], None], client: str | None) -> None:
        self.metrics.failed(error.code)
        note(_log, "failed", code=error.code, field=error.field, client=client)
        if client is None:
            self._board.engine(self._resting())
        else:
            self._board.failed(client, error, resting=self._resting())
        failed(error)


def _grows(request: CompletionRequest) -> tuple[Hashable, str]:
    """Tell a prompt's parts for `Job.prompt`: typing appends to the prefix."""
    fixed = (request.variant, request.suffix, request.context, request.header, request.path, request.first_line)
    return fixed, request.prefix
