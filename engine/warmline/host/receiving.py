"""How a request hears of its generation: events in order, one end, the reason for what was not reused."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from ..errors import BackendError, WarmlineError
from ..generation import Result
from ..identity import Identity
from ..verified import Verified
from .wire import Delta, Done, Event, Outcome, Started

_log = logging.getLogger(__name__)


class Receiver(Protocol):
    """Where one request's events go; called from the engine's thread or from a caller's."""

    def receive(self, events: Sequence[Event]) -> None:
        """Take events that became known together, one at least; `Done` is the last of all."""

    def error(self, error: WarmlineError) -> None:
        """Take the error that ended the request."""


class Once:
    """Passes a request's events on until it is over; whoever ends it first, wins.

    Events wait for `flush`, or for the end: each hand-over wakes another thread and another process.
    """

    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._lock = threading.Lock()
        self._over = False
        self._pending: list[Event] = []
        self.arrived = time.monotonic()

    @property
    def elapsed_ms(self) -> float:
        """Milliseconds since the request arrived."""
        return (time.monotonic() - self.arrived) * 1000

    def event(self, event: Event) -> None:
        """Take an event that is not the last."""
        with self._lock:
            if not self._over:
                self._pending.append(event)

    def flush(self) -> None:
        """Pass on what came since the last time."""
        with self._lock:
            if self._pending and not self._over:
                pending, self._pending = self._pending, []
                self._receiver.receive(pending)

    def done(self, reason: str, text: str = "", predicted: int = 0, mean_probability: float | None = None) -> None:
        """End the request with a result."""
        with self._lock:
            if not self._over:
                self._over = True
                end = Done(
                    outcome=outcome(reason),
                    text=text,
                    predicted_tokens=predicted,
                    total_ms=self.elapsed_ms,
                    mean_probability=mean_probability,
                )
                self._receiver.receive([*self._pending, end])

    def error(self, error: WarmlineError) -> None:
        """End the request with an error."""
        with self._lock:
            if not self._over:
                self._over = True
                self._receiver.error(error)


class EventSink:
    """Turns what a generation tells into events (`generation.Sink`).

    Parameters
    ----------
    soon
        Has a function called in another thread than the caller's, in turn.
    why
        The reason to give should nothing be reused; None leaves it to the prefix.
    estimated
        Whether the reused tokens are an estimate.
    """

    def __init__(
        self,
        receiver: Once,
        soon: Callable[[Callable[[], None]], None],
        verified: Verified,
        prompt_tokens: int,
        why: str | None,
        *,
        estimated: bool = False,
    ) -> None:
        self._receiver = receiver
        self._soon = soon
        self._verified = verified
        self._prompt_tokens = prompt_tokens
        self._why = why
        self._estimated = estimated
        self._began: tuple[int, float] | None = None
        self._catch_up: Callable[[], object] = lambda: None
        self._starting = threading.Lock()
        self.start: Started | None = None
        self._picked = 0
        self._probability = 0.0

    @property
    def mean_probability(self) -> float | None:
        """Mean probability of the tokens so far, None where it was not told."""
        return self._probability / self._picked if self._picked else None

    def picked(self, probability: float) -> None:
        """See `generation.Sink`."""
        self._picked += 1
        self._probability += probability

    def started(self, reused: int) -> None:
        """See `generation.Sink`."""
        self._began = reused, self._receiver.elapsed_ms

    def text(self, piece: str) -> None:
        """See `generation.Sink`."""
        self._tell_start()
        self._receiver.event(Delta(text=piece, mean_probability=self.mean_probability))

    def soon(self, catch_up: Callable[[], object]) -> None:
        """See `generation.Sink`."""
        self._catch_up = catch_up
        self._soon(self._pass_on)

    def done(self, result: Result) -> None:
        """End the request with how its generation ended."""
        self._tell_start()
        self._receiver.done(result.outcome, result.text, result.predicted_tokens, self.mean_probability)

    def _pass_on(self) -> None:
        self._catch_up()
        self._tell_start()
        self._receiver.flush()

    def _tell_start(self) -> None:
        """Tell once how the generation began, before all else: the first token did not wait for that."""
        with self._starting:
            if self.start is None and self._began is not None:
                self.start = self._start(*self._began)
                self._receiver.event(self.start)

    def _start(self, reused: int, ttft_ms: float) -> Started:
        total = self._prompt_tokens
        if reused == total - 1 and reused > 0:
            reason = "warm"
        elif reused == 0 and self._why is not None:
            reason = self._why
        else:
            reason = f"prefix:{reused}/{total}"
        return Started(
            identity=self._verified.identity.digest,
            prompt_tokens=total,
            reused_tokens=reused,
            reused_estimated=self._estimated,
            reason=reason,
            fim=self._verified.fim.describe(),
            ttft_ms=ttft_ms,
        )


def in_loop(loop: asyncio.AbstractEventLoop, function: Callable[..., object], *arguments: object) -> None:
    """Call a function in a loop's thread, soon; from any thread. After the loop's end nobody is left to be told."""
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(function, *arguments)


def unexpected(error: Exception) -> BackendError:
    """Log an error that is nobody's typed one, and return the one to answer."""
    name = type(error).__name__
    _log.error("a generation failed: %s", name, exc_info=error)  # the log's format leaves out its words (`logs`)
    return BackendError(
        f"the engine failed with an unexpected {name}",
        code="backend.internal",
        remedy="Report this with the log; ask again",
    )


def why_cold(identity: Identity, before: Identity | None, *, empty: bool, evicted: bool) -> str | None:
    """Name the reason for reusing nothing, should it come to that; None leaves it to the prefix."""
    if before is not None and before != identity:
        return f"identity:{identity.difference(before)}"
    if evicted:
        return "evicted"
    return "cold" if empty else None


def outcome(reason: str) -> Outcome:
    """Turn a generation's end, or the reason why it was dropped, into an outcome."""
    try:
        return Outcome(reason)
    except ValueError:
        return Outcome.CANCELLED  # the engine is stopping
