"""The client's end of the stream over which all its generations go, each with its number."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Final, cast

from ..errors import WarmlineError
from .frames import Frames, FrameTooLarge, framed, number_of
from .numbered import SentVariants
from .paths import HostPaths
from .rpc import MAX_MESSAGE, decoder, encode, stopping, too_large
from .ways import connected
from .wire import Ask, ChatRequest, CompletionRequest, Done, ErrorInfo, Event, Tell

#: Seconds of silence after which a host that has something to answer is asked whether it is there.
LISTEN_SECONDS: Final = 10.0
_read_tell = decoder(Tell)


class CallEnded(Exception):
    """The connection ended before the generation did."""


class ClientCall(asyncio.Protocol):
    """The client's end: `events` may run many times at once. Made by `connect`.

    Parameters
    ----------
    ended
        Called once when the connection has ended, whoever ended it.
    check
        Raises `WarmlineError` if the host answers nobody. Asked when generations wait and nothing was heard for
        `LISTEN_SECONDS`: a long prefill is quiet too.
    """

    def __init__(self, ended: Callable[[], None], check: Callable[[], Awaitable[None]]) -> None:
        self._ended = ended
        self._check = check
        self._loop = asyncio.get_running_loop()
        self._heard = 0.0
        self._listening: asyncio.Task[None] | None = None
        self._frames = Frames()
        self._variants = SentVariants()
        self._numbers = itertools.count(1)
        self._answers: dict[int, asyncio.Queue[Tell | WarmlineError | CallEnded]] = {}
        # While the host does not read, requests wait here: one that is given up meanwhile is not sent at all.
        self._paused = False
        self._unsent: dict[int, CompletionRequest | ChatRequest] = {}
        self._quiet: asyncio.Future[None] | None = None

    @classmethod
    async def connect(
        cls, paths: HostPaths, ended: Callable[[], None], check: Callable[[], Awaitable[None]]
    ) -> ClientCall:
        """Connect to a host; raises OSError where nobody listens."""
        return await connected(paths, lambda: cls(ended, check))

    async def events(self, request: CompletionRequest | ChatRequest) -> AsyncGenerator[Event, None]:
        """Run a generation; closing the iterator cancels it.

        Raises
        ------
        WarmlineError
            What the engine answered; ``backend.message_size``; ``backend.stopping`` if the host has gone already; what
            `check` raised, if the host stands still.
        CallEnded
            The host went away meanwhile.
        """
        if self._transport.is_closing():
            raise stopping()
        number = next(self._numbers)
        self._listen()
        answers = self._answers[number] = asyncio.Queue()
        running = True
        try:
            if self._paused:
                self._unsent[number] = request
            else:
                self._begin(number, request)
            while running:
                tell = await answers.get()
                if not isinstance(tell, Tell):
                    running = False
                    raise tell
                if tell.error is not None:
                    running = tell.number != number  # else it may still run: what was told of it could not be read
                    self._variants.forget(request.variant)
                    raise WarmlineError.from_dict(tell.error.model_dump())
                running = not isinstance(tell.events[-1], Done)
                for event in tell.events:
                    yield event
        finally:
            del self._answers[number]
            unsent = self._unsent.pop(number, None) is not None
            if running and not unsent and not self._transport.is_closing():
                self._transport.write(framed(encode(Ask(number=number))))
            if self._quiet is not None and not self._answers and not self._quiet.done():
                self._quiet.set_result(None)

    async def close(self, seconds: float = 0.0) -> None:
        """End the connection when nothing runs over it any more, or after so many seconds."""
        try:
            if seconds and self._answers:
                self._quiet = asyncio.get_running_loop().create_future()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._quiet, seconds)
        finally:
            self._transport.abort()

    def _listen(self) -> None:
        """See to it that somebody notices if the host stands still."""
        if not self._answers:
            self._heard = self._loop.time()
        if self._listening is None or self._listening.done():
            self._listening = self._loop.create_task(self._until_silent())

    async def _until_silent(self) -> None:
        while self._answers:
            await asyncio.sleep(LISTEN_SECONDS)
            if self._loop.time() - self._heard < LISTEN_SECONDS:
                continue
            try:
                await self._check()
            except WarmlineError as error:
                for answers in self._answers.values():
                    answers.put_nowait(error)
                self._transport.abort()
                return

    def _begin(self, number: int, request: CompletionRequest | ChatRequest) -> None:
        """Send a request; what stands against that is its answer."""
        known = self._variants.number(request.variant)
        new = 0 if known else self._variants.next_number
        if isinstance(request, ChatRequest):
            ask = Ask(number=number, variant=new, chat=request)
        else:
            ask = Ask(number=number, variant=new, complete=request)
        try:
            data = encode(ask, known)
            if len(data) > MAX_MESSAGE:
                raise too_large()
        except WarmlineError as error:
            self._answers[number].put_nowait(error)
            return
        if new:
            self._variants.sent(request.variant)
        self._transport.write(framed(data))
        if self._transport.is_closing():  # nobody was there to take it
            self._answers[number].put_nowait(stopping())

    # -- asyncio.Protocol ----------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See `asyncio.Protocol`."""
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=0)  # told to pause as soon as the host is slower than we are

    def pause_writing(self) -> None:
        """See `asyncio.Protocol`."""
        self._paused = True

    def resume_writing(self) -> None:
        """See `asyncio.Protocol`."""
        self._paused = False
        while self._unsent and not self._paused:
            number = next(iter(self._unsent))
            self._begin(number, self._unsent.pop(number))

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        self._heard = self._loop.time()
        try:
            for message in self._frames.feed(data):
                self._pass_on(message)
        except FrameTooLarge:
            self._transport.abort()

    def connection_lost(self, _error: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        if self._listening is not None:
            self._listening.cancel()
        for answers in self._answers.values():
            answers.put_nowait(CallEnded())
        self._ended()

    def _pass_on(self, message: bytes) -> None:
        """Give a message to whom it is for; an error of which nobody can say whose it is, to all who wait."""
        try:
            tell = _read_tell(message)
            number = tell.number
        except WarmlineError as error:
            number = number_of(message)
            tell = Tell(number=0, error=ErrorInfo(**error.to_dict()))
        if number:
            answers = self._answers.get(number)
            if answers is not None:
                answers.put_nowait(tell)
        elif tell.error is not None:
            for answers in self._answers.values():
                answers.put_nowait(tell)
            if tell.error.code == "backend.stopping":
                self._transport.close()
