"""Many generations over one gRPC call, each with its number: setting up a call costs more than all its messages."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import traceback
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from typing import Any, Final, Protocol

import grpc
from pydantic import BaseModel, ValidationError

from ..errors import BackendError, WarmlineError
from .rpc import MAX_MESSAGE, SERVICE, decoder, encode
from .wire import Ask, ChatRequest, CompletionRequest, Done, ErrorInfo, Event, Tell

GENERATE: Final = "Generate"
_read_ask = decoder(Ask)
_read_tell = decoder(Tell)
_log = logging.getLogger(__name__)


class _Numbered(BaseModel):
    number: int = 0


class CallEnded(Exception):
    """The call ended before the generation did; `cause` is gRPC's error, if it gave one."""

    def __init__(self, cause: grpc.aio.AioRpcError | None) -> None:
        super().__init__("the call ended")
        self.cause = cause


class Generator(Protocol):
    """What runs the generations, on the host's side."""

    def generate(self, request: CompletionRequest | ChatRequest) -> AsyncGenerator[Sequence[Event], None]:
        """Yield a generation's events, those together that became known together."""
        ...


class ClientCall:
    """The client's end: `events` may run many times at once.

    Parameters
    ----------
    channel
        Where the host is.
    ended
        Called once when the call has ended, whoever ended it.
    """

    def __init__(self, channel: grpc.aio.Channel, ended: Callable[[], None]) -> None:
        self._call: Any = channel.stream_stream(f"/{SERVICE}/{GENERATE}")()
        self._ended = ended
        self._over = False
        self._cause: grpc.aio.AioRpcError | None = None
        self._numbers = itertools.count(1)
        self._answers: dict[int, asyncio.Queue[Tell | None]] = {}
        # Requests go by number, so that one which is given up before it was sent is not sent at all.
        self._outgoing: asyncio.Queue[int | bytes] = asyncio.Queue()
        self._unsent: dict[int, bytes] = {}
        self._writer = asyncio.create_task(self._write())
        self._reader = asyncio.create_task(self._read())

    async def events(self, request: CompletionRequest | ChatRequest) -> AsyncGenerator[Event, None]:
        """Run a generation; closing the iterator cancels it.

        Raises
        ------
        WarmlineError
            What the engine answered, or ``backend.message_size``.
        CallEnded
            The host went away.
        """
        number = next(self._numbers)
        if isinstance(request, ChatRequest):
            data = encode(Ask(number=number, chat=request))
        else:
            data = encode(Ask(number=number, complete=request))
        if len(data) > MAX_MESSAGE:
            raise too_large()
        if self._over:
            raise CallEnded(self._cause)
        answers = self._answers[number] = asyncio.Queue()
        self._unsent[number] = data
        self._outgoing.put_nowait(number)
        running = True
        try:
            while running:
                tell = await answers.get()
                if tell is None:
                    running = False
                    raise CallEnded(self._cause)
                if tell.error is not None:
                    running = tell.number != number  # else it may still run: what was told of it could not be read
                    raise WarmlineError.from_dict(tell.error.model_dump())
                running = not isinstance(tell.events[-1], Done)
                for event in tell.events:
                    yield event
        finally:
            del self._answers[number]
            unsent = self._unsent.pop(number, None) is not None
            if running and not unsent and not self._over:
                self._outgoing.put_nowait(encode(Ask(number=number)))

    async def close(self) -> None:
        """End the call and whatever runs over it."""
        self._reader.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._reader

    async def _write(self) -> None:
        # In a task of its own: whoever is cancelled while gRPC writes for him would take the whole call along.
        with contextlib.suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):  # the reader hears why it ended
            while True:
                next_one = await self._outgoing.get()
                data = self._unsent.pop(next_one, b"") if isinstance(next_one, int) else next_one
                if data:
                    await self._call.write(data)

    async def _read(self) -> None:
        try:
            async for data in self._call:
                self._pass_on(data)
        except grpc.aio.AioRpcError as error:
            self._cause = error
        finally:
            self._over = True
            self._writer.cancel()
            self._call.cancel()
            for queue in self._answers.values():
                queue.put_nowait(None)
            self._ended()

    def _pass_on(self, data: bytes) -> None:
        """Give a message to whom it is for; an error of which nobody can say whose it is, to all who wait."""
        number = 0
        try:
            tell = _read_tell(data)
            number = tell.number
        except WarmlineError as error:
            number = _number_of(data)
            tell = Tell(number=0, error=ErrorInfo(**error.to_dict()))
        if number:
            queue = self._answers.get(number)
            if queue is not None:
                queue.put_nowait(tell)
        elif tell.error is not None:
            for queue in self._answers.values():
                queue.put_nowait(tell)


class HostCall:
    """The host's end of one client's call.

    Parameters
    ----------
    engine
        What runs the generations.
    in_use
        Entered for as long as a generation runs.
    """

    def __init__(self, engine: Generator, in_use: Callable[[], contextlib.AbstractContextManager[None]]) -> None:
        self._engine = engine
        self._in_use = in_use
        self._running: dict[int, asyncio.Task[None]] = {}
        self._tells: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._hanging_up = False

    def hang_up(self, seconds: float = 0.0) -> None:
        """Take nothing more, and end the call when the last generation has ended, or after so many seconds."""
        if not self._hanging_up and self._running:
            asyncio.get_running_loop().call_later(seconds, self._give_up)
        self._hanging_up = True
        if not self._running:
            self._tells.put_nowait(None)

    def _give_up(self) -> None:
        for number, task in self._running.items():
            self._tell(Tell(number=number, error=ErrorInfo(**stopping().to_dict())))
            task.cancel()

    async def serve(self, asks: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
        """Run what is asked for, and yield what is told, until the client hangs up; what still runs then, ends."""
        reader = asyncio.create_task(self._read(asks))
        try:
            while (data := await self._tells.get()) is not None:
                yield data
        finally:
            for task in (reader, *self._running.values()):
                task.cancel()

    async def _read(self, asks: AsyncIterator[bytes]) -> None:
        try:
            async for data in asks:
                self._take(data)
        finally:
            self._tells.put_nowait(None)

    def _take(self, data: bytes) -> None:
        try:
            ask = _read_ask(data)
        except WarmlineError as error:
            number = _number_of(data)
            if number in self._running:  # it was to be ended, or its successor would never hear of the error
                self._running[number].cancel()
            self._tell(Tell(number=number, error=ErrorInfo(**error.to_dict())))
            return
        request = ask.complete or ask.chat
        running = self._running.get(ask.number)
        if request is None:
            if running is not None:
                running.cancel()
        elif self._hanging_up:
            self._tell(Tell(number=ask.number, error=ErrorInfo(**stopping().to_dict())))
        elif running is None:
            task = self._running[ask.number] = asyncio.create_task(self._answer(ask.number, request))
            task.add_done_callback(lambda _done: self._answered(ask.number))

    def _answered(self, number: int) -> None:
        del self._running[number]
        if self._hanging_up:
            self.hang_up()

    async def _answer(self, number: int, request: CompletionRequest | ChatRequest) -> None:
        with self._in_use():
            try:
                ended = False
                async with contextlib.aclosing(self._engine.generate(request)) as batches:
                    async for events in batches:
                        self._tell(Tell(number=number, events=tuple(events)))
                        ended = isinstance(events[-1], Done)
                if not ended:  # else the client would wait for ever
                    raise _internal("the engine stopped telling about a generation before its end")
            except WarmlineError as error:
                self._tell(Tell(number=number, error=ErrorInfo(**error.to_dict())))
            except Exception as error:  # whatever it is, the client must not wait for ever
                name = type(error).__name__
                # Where, not what: an exception's text may hold document text.
                _log.error("a generation failed: %s\n%s", name, "".join(traceback.format_tb(error.__traceback__)))
                fault = _internal(f"the engine failed with an unexpected {name}")
                self._tell(Tell(number=number, error=ErrorInfo(**fault.to_dict())))

    def _tell(self, tell: Tell) -> None:
        self._tells.put_nowait(encode(tell))


def too_large() -> BackendError:
    """Return the error for a request beyond `MAX_MESSAGE`."""
    return BackendError(
        "the request is larger than the engine takes",
        code="backend.message_size",
        remedy="Send less text",
    )


def stopping() -> BackendError:
    """Return the error for what the engine did not begin, or could not end, because it is about to leave."""
    return BackendError(
        "the engine is about to leave",
        code="backend.stopping",
        remedy="Ask again: it is started anew when it is needed",
    )


def _internal(message: str) -> BackendError:
    return BackendError(message, code="backend.internal", remedy="Report this with the log; ask again")


def _number_of(data: bytes) -> int:
    """Read the number out of a message that is otherwise malformed; 0 where it has none."""
    try:
        return max(_Numbered.model_validate_json(data).number, 0)
    except ValidationError:
        return 0
