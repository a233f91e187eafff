"""Messages of the LSP base protocol on a byte stream: headers, a blank line, a body of Content-Length bytes."""

from __future__ import annotations

from typing import BinaryIO, Final

MAX_BODY: Final = 256 << 20
_MAX_HEADERS: Final = 1 << 16
_CHUNK: Final = 1 << 16
# More than any size that is taken has; Python refuses to read some thousands of digits as a number.
_MAX_DIGITS: Final = 20


class FramingError(Exception):
    """The stream cannot be read as messages any more: where the next one begins is unknown."""


class Frames:
    """Reads message bodies from a raw stream.

    Parameters
    ----------
    stream
        Its `read(n)` gives at least one byte and at most `n`, or nothing at the end.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._buffer = bytearray()

    def next(self) -> bytes | None:
        """Give the next body, or None when the stream has ended (also in the middle of a message).

        Raises
        ------
        FramingError
            No usable Content-Length, a body above `MAX_BODY`, or headers without an end.
        """
        while (end := self._buffer.find(b"\r\n\r\n")) < 0:
            if len(self._buffer) > _MAX_HEADERS:
                raise FramingError("the headers have no end")
            if not self._fill():
                return None
        size = _content_length(bytes(self._buffer[:end]))
        begin = end + 4
        while len(self._buffer) < begin + size:
            if not self._fill():
                return None
        body = bytes(self._buffer[begin : begin + size])
        del self._buffer[: begin + size]
        return body

    def _fill(self) -> bool:
        chunk = self._stream.read(_CHUNK)
        self._buffer += chunk or b""
        return bool(chunk)


def _content_length(headers: bytes) -> int:
    for line in headers.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length" and value.strip().isdigit():
            digits = value.strip()
            size = int(digits) if len(digits) <= _MAX_DIGITS else MAX_BODY + 1
            if size > MAX_BODY:
                raise FramingError(f"a message of {digits[:_MAX_DIGITS].decode()} bytes; the most is {MAX_BODY}")
            return size
    raise FramingError("a message without Content-Length")


def frame(body: bytes) -> bytes:
    """Put the headers before a body."""
    return b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
