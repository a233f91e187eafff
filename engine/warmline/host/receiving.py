"""How a request hears of its generation: events in order, one end, the reason for what was not reused."""

from __future__ import annotations

import threading
import time
from typing import Protocol

from ..errors import WarmlineError
from ..identity import Identity
from ..verified import Verified
from .wire import Delta, Done, Event, Outcome, Started


class Receiver(Protocol):
    """Where one request's events go; called from the engine's thread or from a caller's."""

    def event(self, event: Event) -> None:
        """Take an event; `Done` is the last."""

    def error(self, error: WarmlineError) -> None:
        """Take the error that ended the request."""


class Once:
    """Passes a request's events on until it is over; whoever ends it first, wins."""

    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._lock = threading.Lock()
        self._over = False
        self.arrived = time.monotonic()

    @property
    def elapsed_ms(self) -> float:
        """Milliseconds since the request arrived."""
        return (time.monotonic() - self.arrived) * 1000

    def event(self, event: Event) -> None:
        """Pass an event on that is not the last."""
        with self._lock:
            if not self._over:
                self._receiver.event(event)

    def done(self, reason: str, text: str = "", predicted: int = 0) -> None:
        """End the request with a result."""
        with self._lock:
            if not self._over:
                self._over = True
                self._receiver.event(
                    Done(outcome=outcome(reason), text=text, predicted_tokens=predicted, total_ms=self.elapsed_ms)
                )

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
    why
        The reason to give should nothing be reused; None leaves it to the prefix.
    """

    def __init__(self, receiver: Once, verified: Verified, prompt_tokens: int, why: str | None) -> None:
        self._receiver = receiver
        self._verified = verified
        self._prompt_tokens = prompt_tokens
        self._why = why
        self.start: Started | None = None

    def started(self, reused: int) -> None:
        """See `generation.Sink`."""
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
            ttft_ms=self._receiver.elapsed_ms,
        )
        self._receiver.event(self.start)

    def text(self, piece: str) -> None:
        """See `generation.Sink`."""
        self._receiver.event(Delta(text=piece))


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
