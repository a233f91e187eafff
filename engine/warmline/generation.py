"""One generation: prompt in, text out, with its limits, its stops and its report."""

from __future__ import annotations

import codecs
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Protocol

from .backends.base import Abort, Aborted, Session
from .variant import Sampling

DEADLINE: Final = "deadline"


@dataclass(frozen=True, slots=True)
class Limits:
    """What ends a generation besides the model's own end tokens; times in milliseconds, None for no limit.

    `probabilities` has the sink told how probable each token was, which costs a pass over the vocabulary for each.
    `grammar` holds the text to it (`Session.new_sampler`). With `first_rank` the text begins with the token that so
    many are more probable than, those that end it left out: it is another one than with any other rank.
    """

    max_tokens: int
    stop_ids: frozenset[int]
    stop_texts: tuple[str, ...] = ()
    max_prefill_ms: int | None = None
    max_predict_ms: int | None = None
    probabilities: bool = False
    grammar: str | None = None
    first_rank: int = 0


@dataclass(frozen=True, slots=True)
class Result:
    """How a generation ended: `outcome` is ``stop``, ``length`` or the abort's reason (``deadline``, ...)."""

    outcome: str
    text: str
    predicted_tokens: int


class Sink(Protocol):
    """Receives a generation while it runs: one call at a time, but `picked` and `text` from any thread."""

    def started(self, reused: int) -> None:
        """The prompt is in the KV, `reused` tokens of it were there before, and the first token is known."""

    def picked(self, probability: float) -> None:
        """A token of the text was picked (`Sampler.probability`); told only if the limits ask for it."""

    def text(self, piece: str) -> None:
        """More text that no stop can take back."""

    def soon(self, catch_up: Callable[[], object]) -> None:
        """The next token is computed now. Have `catch_up` called meanwhile, and pass on what was told then.

        What was picked so far is told by that, or by the generation itself when it ends before.
        """


def generate(
    session: Session,
    piece: Callable[[int], bytes],
    prompt: Sequence[int],
    limits: Limits,
    sampling: Sampling,
    abort: Abort,
    sink: Sink,
) -> Generator[None, None, Result]:
    """Run one generation to its end; it yields where it may be interrupted and its value is the result.

    Whoever interrupts it sees to it that the session holds the same KV again before it goes on. Everything that was
    decoded stays in the session's KV. Errors of the session pass through; being stopped is a result, not an error.
    """
    told = _Told(limits.stop_texts, piece, sink)
    predicted = 0
    sampler = session.new_sampler(sampling, limits.grammar)
    try:
        with _timer(limits.max_prefill_ms, abort):
            prefill = session.prefill(prompt, abort)
            for _ in prefill.batches:
                yield
            token = (
                _ranked(session, limits) if limits.first_rank else sampler.pick()
            )  # some backends compute the last of the prompt here
        if abort.is_set():
            raise Aborted(abort.reason)
        sink.started(prefill.reused)
        most = min(limits.max_tokens, session.n_ctx - len(prompt))
        began = time.monotonic()
        while True:
            # Each token waits for what is done here: all else is done while the next one is computed.
            if token in limits.stop_ids:
                return Result("stop", told.whole(), predicted)
            predicted += 1
            told.picked(token, sampler.probability(token) if limits.probabilities else None)
            if limits.stop_texts and told.catch_up():
                return Result("stop", told.whole(), predicted)
            if predicted >= most:
                return Result("length", told.whole(), predicted)
            if limits.max_predict_ms is not None and (time.monotonic() - began) * 1000 >= limits.max_predict_ms:
                return Result(DEADLINE, told.whole(), predicted)
            sink.soon(told.catch_up)
            # The token is chosen and not yet decoded: restored KV gives no logits, and none are needed here.
            yield
            session.decode(token, abort)
            token = sampler.pick()
    except Aborted:
        return Result(abort.reason or DEADLINE, told.whole(), predicted)
    finally:
        sampler.close()


def _ranked(session: Session, limits: Limits) -> int:
    """Return the token of the limits' rank by the latest logits, the last one beyond; the lower id first of equals."""
    order = (-session.logits()).argsort(kind="stable")
    most = limits.first_rank + len(limits.stop_ids) + 1
    ranked = [token for token in order[:most] if int(token) not in limits.stop_ids]
    return int(ranked[min(limits.first_rank, len(ranked) - 1)])


@contextmanager
def _timer(milliseconds: int | None, abort: Abort) -> Iterator[None]:
    if milliseconds is None:
        yield
        return
    timer = threading.Timer(milliseconds / 1000, abort.set, (DEADLINE,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


class _Told:
    """Tells of tokens in the order in which they were picked, apart from picking them; safe from any thread."""

    def __init__(self, stops: tuple[str, ...], piece: Callable[[int], bytes], sink: Sink) -> None:
        self._output = _Output(stops, sink)
        self._piece = piece
        self._sink = sink
        self._untold: deque[tuple[int, float | None]] = deque()
        self._lock = threading.Lock()
        self._failure: Exception | None = None
        self._stopped = False

    def picked(self, token: int, probability: float | None) -> None:
        """Take a token, to be told of later."""
        self._untold.append((token, probability))

    def catch_up(self) -> bool:
        """Tell of all tokens that were not told of; give whether a stop text is complete (it is cut off)."""
        with self._lock:
            if self._failure is not None:
                raise self._failure
            try:
                return self._tell()
            except Exception as error:
                self._failure = error  # a token is missing: whoever asks for the whole text must hear of it
                raise

    def whole(self) -> str:
        """Tell of the rest, and return the whole text; raises what telling raised, whichever thread that was in."""
        self.catch_up()
        with self._lock:
            return self._output.finish()

    def _tell(self) -> bool:
        # Whoever gets to the token that completes a stop text, the generation has to hear of it: so it is kept.
        while self._untold and not self._stopped:
            token, probability = self._untold.popleft()
            if probability is not None:
                self._sink.picked(probability)
            self._stopped = self._output.add(self._piece(token))
        return self._stopped


class _Output:
    """Turns token bytes into text and holds back what may be the beginning of a stop text."""

    def __init__(self, stops: tuple[str, ...], sink: Sink) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._stops = tuple(stop for stop in stops if stop)
        self._hold = max((len(stop) for stop in self._stops), default=1) - 1
        self._sink = sink
        self._text = ""
        self._sent = 0

    def add(self, data: bytes) -> bool:
        """Take a token's bytes; tell whether a stop text is complete (it is cut off)."""
        before = len(self._text)
        self._text += self._decoder.decode(data)
        found = [at for stop in self._stops if (at := self._text.find(stop, max(0, before - len(stop) + 1))) >= 0]
        if found:
            self._text = self._text[: min(found)]
            return True
        self._send(len(self._text) - self._hold)
        return False

    def finish(self) -> str:
        """Send what was held back and return the whole text."""
        # Bytes of an unfinished character are dropped: half a character is no suggestion.
        self._send(len(self._text))
        return self._text

    def _send(self, end: int) -> None:
        if end > self._sent:
            self._sink.text(self._text[self._sent : end])
            self._sent = end
