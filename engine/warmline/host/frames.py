"""Messages as frames on a byte stream: four bytes of length, big-endian, then so many bytes of JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pydantic import BaseModel, ValidationError

from .rpc import MAX_MESSAGE

_LENGTH_BYTES: Final = 4


class FrameTooLarge(Exception):
    """A frame says that it is longer than any message may be; what follows it cannot be read."""


def framed(message: bytes) -> bytes:
    """Return a message as it goes over the stream."""
    return len(message).to_bytes(_LENGTH_BYTES, "big") + message


class Frames:
    """Puts together the messages of one stream, however its bytes arrive.

    Parameters
    ----------
    longest
        Bytes of a message at most: what claims to be longer is not waited for, and so never held.
    """

    def __init__(self, longest: int = MAX_MESSAGE) -> None:
        self._longest = longest
        self._held = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Take what arrived, and yield each message that is whole now; to be iterated to its end.

        Raises
        ------
        FrameTooLarge
            After the messages before it.
        """
        held = self._held
        held += data
        at = 0
        try:
            while len(held) - at >= _LENGTH_BYTES:
                start = at + _LENGTH_BYTES
                length = int.from_bytes(held[at:start], "big")
                if length > self._longest:
                    raise FrameTooLarge
                if len(held) - start < length:
                    return
                at = start + length
                yield bytes(held[start:at])
        finally:
            del held[:at]


class _Numbered(BaseModel):
    number: int = 0


def number_of(message: bytes) -> int:
    """Read the number out of a message that is otherwise malformed; 0 where it has none."""
    try:
        return max(_Numbered.model_validate_json(message).number, 0)
    except ValidationError:
        return 0
