"""Writing to a socket from any thread, at once where it takes what is written, and never waiting for it.

Also a thread for what need not be done before the one that has it to do goes on.
"""

from __future__ import annotations

import asyncio
import queue
import socket
import threading
from collections.abc import Callable
from typing import Final

from .receiving import in_loop, unexpected

#: Bytes that wait for a peer at most, beside the message that comes last: one that reads nothing costs no more.
MAX_UNREAD: Final = 8 << 20


class Outlet:
    """What goes out over one connection.

    A thread that has something to tell writes it itself: handing it to the loop's thread first would wake that, wait
    until it gets the interpreter's lock, and only then wake the peer.

    Parameters
    ----------
    loop
        Writes what the socket does not take at once; `when_empty` and `close` are called in its thread.
    connection
        Does not block; its own descriptor, closed with the outlet.
    overflowed
        Called in the loop's thread when more than `MAX_UNREAD` bytes wait; nothing more is taken then.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, connection: socket.socket, overflowed: Callable[[], object]
    ) -> None:
        self._loop = loop
        self._socket = connection
        self._overflowed = overflowed
        self._lock = threading.Lock()
        self._waiting = bytearray()
        self._closed = False
        self._emptied: Callable[[], object] | None = None

    def send(self, data: bytes) -> None:
        """Write, now or when the peer has read more; what comes after the end goes nowhere."""
        with self._lock:
            if self._closed:
                return
            if not self._waiting:
                sent = self._write(data)
                if sent < len(data):
                    self._waiting += memoryview(data)[sent:]
                    in_loop(self._loop, self._watch)
            elif len(self._waiting) <= MAX_UNREAD:
                self._waiting += data
            else:
                self._closed = True
                in_loop(self._loop, self._overflowed)

    def when_empty(self, function: Callable[[], object]) -> None:
        """Call a function as soon as nothing waits to be written; at once, if that is so now."""
        with self._lock:
            if self._waiting:
                self._emptied = function
                return
        function()

    def close(self) -> None:
        """Drop what waits, and close the socket."""
        with self._lock:
            self._closed = True
            self._waiting.clear()
            self._loop.remove_writer(self._socket)
            self._socket.close()

    def _write(self, data: bytes | bytearray) -> int:
        """Return how many bytes the socket took; a broken one takes all, since its reader hears of the end."""
        try:
            return self._socket.send(data)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError:
            return len(data)

    def _watch(self) -> None:
        with self._lock:
            if self._socket.fileno() >= 0:
                self._loop.add_writer(self._socket, self._go_on)

    def _go_on(self) -> None:
        with self._lock:
            del self._waiting[: self._write(self._waiting)]
            if self._waiting:
                return
            self._loop.remove_writer(self._socket)
            emptied, self._emptied = self._emptied, None
        if emptied is not None:
            emptied()


class Aside:
    """A thread that calls functions one after the other, when the others let it.

    Between two tokens the engine's thread has the interpreter's lock; what is left to this one takes its turn while
    native code computes the next token. To hand it over costs less than to wake an asyncio loop.
    """

    def __init__(self) -> None:
        self._functions: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="warmline-aside", daemon=True)
        self._thread.start()

    def call(self, function: Callable[[], None]) -> None:
        """Have a function called; from any thread. What it raises is logged."""
        self._functions.put(function)

    def close(self) -> None:
        """End the thread, after what it was given before."""
        self._functions.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (function := self._functions.get()) is not None:
            try:
                function()
            except Exception as error:  # the thread is there for others too
                unexpected(error)
