"""The base protocol's framing, however the stream is cut up."""

from __future__ import annotations

import io
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from warmline_server.lsp.framing import MAX_BODY, Frames, FramingError, frame


class Chunked(io.RawIOBase):
    """Gives a stream in pieces of the given sizes."""

    def __init__(self, data: bytes, sizes: list[int]) -> None:
        self._data, self._sizes = data, sizes or [1]
        self._turn = 0

    def read(self, size: int = -1) -> bytes:
        n = min(self._sizes[self._turn % len(self._sizes)], size)
        self._turn += 1
        piece, self._data = self._data[:n], self._data[n:]
        return piece


def frames(data: bytes, sizes: list[int] | None = None) -> Frames:
    return Frames(cast(io.BufferedReader, Chunked(data, sizes or [7])))


@given(st.lists(st.binary(max_size=200)), st.lists(st.integers(1, 300), max_size=5))
def test_what_is_framed_is_read_back(bodies: list[bytes], sizes: list[int]) -> None:
    reader = frames(b"".join(map(frame, bodies)), sizes)
    assert [reader.next() for _ in bodies] == bodies
    assert reader.next() is None


def test_other_headers_and_any_case_are_fine() -> None:
    assert frames(b"content-type: x\r\nCONTENT-LENGTH:  2 \r\n\r\n{}").next() == b"{}"


@pytest.mark.parametrize("data", [b"", b"Content-Le", b"Content-Length: 5\r\n\r\n{}"])
def test_a_stream_that_ends_inside_a_message_has_ended(data: bytes) -> None:
    assert frames(data).next() is None


@pytest.mark.parametrize(
    "data",
    [
        b"X: 1\r\n\r\n{}",
        b"Content-Length: -1\r\n\r\n",
        b"Content-Length: abc\r\n\r\n",
        b"Content-Length: %s\r\n\r\n" % (b"1" * 5000),
        b"Content-Length: %d\r\n\r\n" % (MAX_BODY + 1),
        b"a" * 100_000,
    ],
)
def test_a_stream_that_is_no_protocol_is_refused(data: bytes) -> None:
    with pytest.raises(FramingError):
        frames(data, [4096]).next()
