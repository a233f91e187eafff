"""The host's end of the streams over which clients' generations go, each with its number."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import struct
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Protocol, cast

from ..errors import WarmlineError
from .frames import Frames, FrameTooLarge, framed, number_of
from .numbered import KnownVariants
from .outlet import Outlet
from .receiving import Receiver, in_loop, unexpected
from .rpc import decoder, encode, stopping, too_large
from .wire import Ask, ChatRequest, CompletionRequest, Done, ErrorInfo, Event, Tell

_CLOSE_SECONDS: Final = 1.0
_read_ask = decoder(Ask)
_log = logging.getLogger(__name__)


class Generator(Protocol):
    """What runs the generations."""

    def begin(self, request: CompletionRequest | ChatRequest, receiver: Receiver) -> Callable[[], None]:
        """Begin a generation, whose events go to `receiver`, from whatever thread; return what cancels it."""
        ...


class HostCall(asyncio.Protocol):
    """One client's connection.

    Parameters
    ----------
    engine
        What runs the generations.
    soon
        Has a function called in another thread than the caller's, in turn.
    open_calls
        The connections that there are: this one is among them as long as it lasts.
    begun, ended
        Called when a generation begins, and when it is over.
    leaving
        Tells whether the host is about to leave: then nothing is begun.
    """

    def __init__(
        self,
        engine: Generator,
        soon: Callable[[Callable[[], None]], None],
        open_calls: set[HostCall],
        begun: Callable[[], None],
        ended: Callable[[], None],
        leaving: Callable[[], bool],
    ) -> None:
        self._engine = engine
        self._soon = soon
        self._open_calls = open_calls
        self._begun = begun
        self._ended = ended
        self._loop = asyncio.get_running_loop()
        self._frames = Frames()
        self._variants = KnownVariants()
        self._running: dict[int, _Answer] = {}
        self._telling = threading.Lock()
        self._untold: deque[tuple[_Answer, Sequence[Event]]] = deque()
        self._leaving = leaving
        self._hanging_up = False
        self._closing = False
        self._over = asyncio.Event()

    def hang_up(self, seconds: float = 0.0) -> None:
        """Begin nothing more, and end the connection with the last generation, or after so many seconds."""
        if not self._hanging_up and self._running:
            self._loop.call_later(seconds, self._give_up)
        self._hanging_up = True
        if not self._running and not self._closing:
            self._tell_error(0, stopping())  # whoever still waits then has not been read, let alone begun
            self._close()

    @property
    def busy(self) -> bool:
        """Whether generations run."""
        return bool(self._running)

    async def over(self) -> None:
        """Wait until the connection has ended."""
        await self._over.wait()

    def tell(self, tell: Tell) -> None:
        """Send what is told, after what was told before; from any thread."""
        with self._telling:
            self._catch_up()
            self._send(tell)

    def tell_soon(self, answer: _Answer, events: Sequence[Event]) -> None:
        """Send events of a generation that goes on, while it goes on; from any thread."""
        self._untold.append((answer, events))
        self._soon(self.catch_up)

    def catch_up(self) -> None:
        """Send what was to be sent soon."""
        with self._telling:
            self._catch_up()

    def answered(self, number: int) -> None:
        """Hear, in any thread, that a generation is over."""
        in_loop(self._loop, self._end, number)

    def _catch_up(self) -> None:
        while self._untold:
            answer, events = self._untold.popleft()
            if answer.wanted:
                self._send(Tell(number=answer.number, events=tuple(events)))

    def _send(self, tell: Tell) -> None:
        try:
            data = encode(tell)
        except WarmlineError as error:
            in_loop(self._loop, self._cancel, tell.number)
            data = encode(Tell(number=tell.number, error=ErrorInfo(**error.to_dict())))
        self._outlet.send(framed(data))

    # -- asyncio.Protocol ----------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See `asyncio.Protocol`."""
        self._transport = cast(asyncio.Transport, transport)
        connection = transport.get_extra_info("socket")
        self._outlet = Outlet(self._loop, connection.dup(), self._transport.abort)
        self._open_calls.add(self)
        if self._leaving():
            self.hang_up()
        if connection.family != getattr(socket, "AF_UNIX", None):
            return  # it has proven that it read the host's file (`ways`)
        if peer_user(connection) not in (None, os.getuid()):
            _log.warning("a connection of another user was refused")
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        try:
            for message in self._frames.feed(data):
                self._take(message)
        except FrameTooLarge:
            self._tell_error(0, too_large())
            self._close()

    def connection_lost(self, _error: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        for number in list(self._running):
            self._cancel(number)
        self._outlet.close()
        self._open_calls.discard(self)
        self._over.set()

    def _close(self) -> None:
        """End the connection when all is written, or soon after; nothing more is read."""
        if not self._closing:
            self._closing = True
            self._transport.pause_reading()
            self._loop.call_later(_CLOSE_SECONDS, self._transport.abort)
            self._outlet.when_empty(self._transport.close)

    # -- messages ------------------------------------------------------------------------------------------------

    def _take(self, message: bytes) -> None:
        if self._closing:
            return
        try:
            ask = _read_ask(message, self._variants)
        except WarmlineError as error:
            number = number_of(message)
            self._cancel(number)  # it was to be ended, or its successor would never hear of the error
            self._tell_error(number, error)
            return
        request = ask.complete or ask.chat
        if request is None:
            self._cancel(ask.number)
            return
        if ask.variant:
            self._variants.keep(ask.variant, request.variant)
        if self._hanging_up:
            self._tell_error(ask.number, stopping())
        elif ask.number not in self._running:
            self._begin(ask.number, request)

    def _begin(self, number: int, request: CompletionRequest | ChatRequest) -> None:
        answer = self._running[number] = _Answer(self, number)
        self._begun()
        try:
            answer.cancel = self._engine.begin(request, answer)
        except WarmlineError as error:
            answer.error(error)
        except Exception as error:  # whatever it is, the client must not wait for ever
            answer.error(unexpected(error))

    def _cancel(self, number: int) -> None:
        answer = self._running.get(number)
        if answer is not None:
            answer.wanted = False
            answer.cancel()
            self._end(number)

    def _end(self, number: int) -> None:
        if self._running.pop(number, None) is not None:
            self._ended()
            if self._hanging_up:
                self.hang_up()

    def _give_up(self) -> None:
        for number in list(self._running):
            self._tell_error(number, stopping())
            self._cancel(number)

    def _tell_error(self, number: int, error: WarmlineError) -> None:
        self.tell(Tell(number=number, error=ErrorInfo(**error.to_dict())))


class _Answer:
    """Passes on one generation's events (`Receiver`): what ends it at once, in the very thread that tells it."""

    def __init__(self, call: HostCall, number: int) -> None:
        self._call = call
        self.number = number
        self.wanted = True
        self.cancel: Callable[[], object] = lambda: None

    def receive(self, events: Sequence[Event]) -> None:
        if not isinstance(events[-1], Done):
            self._call.tell_soon(self, events)
        elif self.wanted:
            self._call.tell(Tell(number=self.number, events=tuple(events)))
            self._call.answered(self.number)

    def error(self, error: WarmlineError) -> None:
        if self.wanted:
            self._call.tell(Tell(number=self.number, error=ErrorInfo(**error.to_dict())))
            self._call.answered(self.number)


def peer_user(connection: socket.socket) -> int | None:
    """Return the user id of who is at the other end of a Unix socket; None where the system does not tell.

    macOS tells it in C alone (getpeereid): there the folder, which nobody else may enter, has to do.
    """
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return None
    credentials = struct.Struct("3i")  # struct ucred in sys/socket.h: process, user, group
    return int(credentials.unpack(connection.getsockopt(socket.SOL_SOCKET, option, credentials.size))[1])
