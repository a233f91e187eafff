"""What the engine's one thread does for a request: verify, load, put the right KV in place, generate."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Generator, Hashable, Iterator, Sequence
from typing import Any, Final

from cachetools import LRUCache

from ..backends.base import Abort, Aborted, Session
from ..digests import short
from ..errors import ArtifactError, WarmlineError
from ..generation import Limits, Result, generate
from ..identity import Identity
from ..kv.pool import ContextPool
from ..prompts.layout import chat_prompt, completion_prompt
from ..prompts.window import Window
from ..variant import ResolvedVariant
from ..verified import Verified
from .board import Board
from .chat_form import grammar_of, template_message, template_variables
from .logs import note
from .metrics import Metrics
from .quarantine import CrashLedger
from .receiving import EventSink, Once, why_cold
from .resident import Residents
from .wire import ChatRequest, CompletionRequest, LastRequest, Started, State

_DOCUMENTS: Final = 1024
_log = logging.getLogger(__name__)
Steps = Generator[None, None, None]


class Work:
    """Steps of jobs, for the scheduler's thread alone. Each raises `WarmlineError`, and pauses where others may run.

    Parameters
    ----------
    residents, pool
        What is loaded, and warm KV.
    board, metrics
        Who is told of it.
    crashes
        Who crashed the engine before: quarantined content is refused.
    soon
        Has a function called in another thread, in turn: what is left to it costs the next token no time.
    log_prompts
        Whether requests and answers are logged whole, not only what they cost.
    """

    def __init__(
        self,
        residents: Residents,
        pool: ContextPool,
        board: Board,
        metrics: Metrics,
        crashes: CrashLedger | None,
        soon: Callable[[Callable[[], None]], None],
        *,
        log_prompts: bool = False,
    ) -> None:
        self._residents = residents
        self._pool = pool
        self._board = board
        self._metrics = metrics
        self._crashes = crashes
        self._soon = soon
        self._log_prompts = log_prompts
        self._at_work: object = None  # whose turn it is: another job may have moved KV and state since
        self._last_identity: LRUCache[Hashable, Identity] = LRUCache(_DOCUMENTS)

    def begins(self) -> None:
        """A job begins: a generation that goes on after it finds out."""
        self._at_work = None

    def session(self, variant: ResolvedVariant) -> tuple[Verified, Session]:
        """Verify a variant, refuse what is in quarantine, and return its context; raises `WarmlineError`."""
        verified = self._residents.verify(variant)
        if self._crashes is not None:
            self._refuse_quarantined(verified, self._crashes)
            self._crashes.note(verified.identity, [a.name for a in variant.adapters] or [variant.base.name])
        if self._residents.n_bases and not self._residents.is_live(verified.identity):
            self._board.engine(State.SWITCHING)
        return verified, self._residents.session(verified)

    def _refuse_quarantined(self, verified: Verified, crashes: CrashLedger) -> None:
        identity = verified.identity
        base = verified.variant.base
        places = [(identity.base, f"base.{base.named_by}", base.name)]
        for index, adapter in enumerate(verified.adapters):
            places.append((adapter.digest, f"adapters[{index}].{adapter.spec.named_by}", adapter.spec.name))
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

    def complete(self, request: CompletionRequest, once: Once, abort: Abort) -> Steps:
        """Answer a completion."""
        verified, session = self.session(request.variant)
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
        self._log_request(request, place)
        yield from self._generate(verified, session, prompt, limits, place, abort, once)

    def prewarm(self, request: CompletionRequest, abort: Abort) -> Steps:
        """Put a prompt into the KV."""
        verified, session = self.session(request.variant)
        prompt = self._prompt(request, verified, session, request.max_tokens or request.variant.profile.max_tokens)
        self._pool.warm(verified.identity, prompt, ("complete", request.client, request.document))
        with contextlib.suppress(Aborted):
            for _ in session.prefill(prompt, abort).batches:
                yield
        self._board.engine(State.READY)

    def chat(self, request: ChatRequest, once: Once, abort: Abort) -> Steps:
        """Answer a turn of a chat."""
        verified, session = self.session(request.variant)
        model = self._residents.model(verified)
        with blamed_on(verified.variant.file):
            prompt = chat_prompt(
                self._residents.template(verified),
                [template_message(turn) for turn in request.messages],
                tokenize_special=model.tokenize_special,
                special_texts=verified.facts.special_texts,
                bos=verified.bos,
                bos_text=verified.facts.bos_text,
                eos_text=verified.facts.eos_text,
                n_ctx=session.n_ctx,
                variables=template_variables(request),
            )
        limits = Limits(
            max_tokens=request.max_tokens,
            stop_ids=verified.facts.end_of_generation,
            stop_texts=request.stop,
            max_prefill_ms=request.max_prefill_ms,
            max_predict_ms=request.max_predict_ms,
            grammar=grammar_of(request),
        )
        place = ("chat", request.client, request.conversation)
        self._log_request(request, place)
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
        model = self._residents.model(verified)
        self._pool.warm(identity, prompt, place)
        if self._pool.refused is not None:
            why = f"rejected:{self._pool.refused}"
        sink = EventSink(once, self._soon, verified, len(prompt), why, estimated=session.estimates_reuse)
        self._pool.pin(identity, place)
        active = self._residents.describe(verified)
        steps = generate(session, model.piece, prompt, limits, verified.variant.profile.sampling, abort, sink)
        client = place[1]
        self._board.begins(client, active)
        self._at_work = sink
        with contextlib.ExitStack() as settled:
            try:
                while (result := _step(steps)) is None:
                    yield
                    # It ends at its next step if it was given up, for which nobody's KV need be moved.
                    if self._at_work is sink or abort.is_set():
                        continue
                    lost = self._pool.retake(identity, place)
                    if lost is not None:
                        with contextlib.suppress(Aborted):  # the next step notices the abort itself
                            session.prefill(lost, abort).run()
                    if self._board.state is not State.BUSY:
                        self._board.begins(client, active)
                    self._at_work = sink
                # The answer first: what has to be noted of it holds up only who asks for that.
                settled.enter_context(self._board.settling())
                sink.done(result)
            finally:
                self._pool.unpin(identity, place)
                self._board.engine(State.READY)
            self._note(place[0], client, verified, result, sink, once.elapsed_ms)

    def _log_request(self, request: CompletionRequest | ChatRequest, place: tuple[str, str, str]) -> None:
        if self._log_prompts:
            said = request.model_dump(mode="json", exclude={"variant"}, exclude_defaults=True)
            note(_log, "asked", kind=place[0], variant=request.variant.name, request=said)

    def _log_answer(
        self, kind: str, client: str, verified: Verified, result: Result, start: Started | None, total_ms: float
    ) -> None:
        fields: dict[str, Any] = {
            "kind": kind,
            "client": client,
            "variant": verified.variant.name,
            "identity": short(verified.identity.digest),
            "outcome": result.outcome,
            "predicted_tokens": result.predicted_tokens,
            "total_ms": round(total_ms, 1),
        }
        if start is not None:
            fields |= {
                "prompt_tokens": start.prompt_tokens,
                "reused_tokens": start.reused_tokens,
                "reason": start.reason,
                "first_token_ms": round(start.ttft_ms, 1),
            }
        if self._log_prompts:
            fields["text"] = result.text
        note(_log, "answered", **fields)

    def _note(
        self, kind: str, client: str, verified: Verified, result: Result, sink: EventSink, total_ms: float
    ) -> None:
        """Count a generation that ended, log it, and tell whoever watches."""
        self._soon(lambda: self._log_answer(kind, client, verified, result, sink.start, total_ms))
        variant, seconds = verified.variant.name, total_ms / 1000
        self._metrics.ended(kind, variant, seconds=seconds, predicted=result.predicted_tokens, outcome=result.outcome)
        start = sink.start
        if start is None:
            return
        self._metrics.started(
            kind,
            variant,
            seconds=start.ttft_ms / 1000,
            prompt=start.prompt_tokens,
            reused=start.reused_tokens,
            reason=start.reason,
        )
        self._board.last(
            client,
            LastRequest(
                reused_tokens=start.reused_tokens,
                reused_estimated=start.reused_estimated,
                prompt_tokens=start.prompt_tokens,
                reason=start.reason,
                ttft_ms=start.ttft_ms,
                total_ms=total_ms,
                outcome=result.outcome,
            ),
        )


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
