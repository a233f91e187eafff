"""What watchers are told: the engine's state, and of each client its own variant, last request and error."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from cachetools import LRUCache

from ..errors import WarmlineError
from .wire import EngineStatus, ErrorInfo, LastRequest, State, VariantStatus

_CLIENTS: Final = 256
ANYONE: Final = ""

Watcher = Callable[[EngineStatus], None]


@dataclass(slots=True)
class _View:
    active: VariantStatus | None = None
    last: LastRequest | None = None
    error: ErrorInfo | None = None


class Board:
    """Keeps the status and passes changes on; safe from any thread.

    The engine serves many clients, and one client's broken variant is no other's failure: state ``failed`` is shown to
    the client whose latest request failed. The client `ANYONE` sees the engine's own state, and which variant and
    request were latest.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._state = State.EMPTY
        self._loading: str | None = None
        self._percent: int | None = None
        self._revision = 1
        self._views: LRUCache[str, _View] = LRUCache(_CLIENTS)
        self._views[ANYONE] = _View()
        self._watchers: list[tuple[str, Watcher]] = []

    @property
    def state(self) -> State:
        """The engine's own state."""
        return self._state

    def settling(self) -> contextlib.AbstractContextManager[object]:
        """Hold off whoever asks for the status, or comes to watch, until all that belongs together is told."""
        return self._lock

    def status(self, client: str = ANYONE) -> EngineStatus:
        """Return what a client is told now."""
        with self._lock:
            return self._status(client)

    def engine(self, state: State, *, loading: str | None = None, percent: int | None = None) -> None:
        """Tell the engine's own state."""
        with self._lock:
            if (state, loading, percent) == (self._state, self._loading, self._percent):
                return
            self._state, self._loading, self._percent = state, loading, percent
            self._tell(None)

    def begins(self, client: str, active: VariantStatus) -> None:
        """A client's variant is at work: the engine is busy, and an error of before is over."""
        with self._lock:
            changed = self._state is not State.BUSY
            self._state, self._loading, self._percent = State.BUSY, None, None
            changed |= self._update(client, active=active, error=None)
            if changed:
                self._tell(None)

    def loaded(self, client: str, active: VariantStatus) -> None:
        """A client's variant is ready to answer."""
        with self._lock:
            self._state, self._loading, self._percent = State.READY, None, None
            self._update(client, active=active, error=None)
            self._tell(None)

    def last(self, client: str, last: LastRequest) -> None:
        """A client's request reached its first token and ended."""
        with self._lock:
            if self._update(client, last=last):
                self._tell(client)

    def failed(self, client: str, error: WarmlineError, *, resting: State) -> None:
        """A client's request failed; `resting` is the engine's own state after that."""
        with self._lock:
            self._state, self._loading, self._percent = resting, None, None
            self._update(client, error=ErrorInfo(**error.to_dict()))
            self._tell(None)

    def watch(self, watcher: Watcher, client: str = ANYONE) -> Callable[[], None]:
        """Call `watcher` now and at every change, from whatever thread made it; return what ends that."""
        entry = (client, watcher)
        with self._lock:
            self._watchers.append(entry)
            watcher(self._status(client))

        def stop() -> None:
            with self._lock, contextlib.suppress(ValueError):
                self._watchers.remove(entry)

        return stop

    def _status(self, client: str) -> EngineStatus:
        view = self._views.get(client) or _View()
        resting = self._state in (State.EMPTY, State.READY)
        return EngineStatus(
            state=State.FAILED if view.error is not None and resting else self._state,
            loading=self._loading,
            percent=self._percent,
            active=view.active,
            last=view.last,
            error=view.error,
            revision=self._revision,
        )

    def _update(self, client: str, **changes: Any) -> bool:
        changed = False
        for name in {client, ANYONE}:
            view = self._views.setdefault(name, _View())
            for field, value in changes.items():
                if field == "error" and name == ANYONE:
                    continue
                changed |= getattr(view, field) != value
                setattr(view, field, value)
        return changed

    def _tell(self, client: str | None) -> None:
        self._revision += 1
        for watching, watcher in self._watchers:
            if client is None or watching in (client, ANYONE):
                watcher(self._status(watching))
