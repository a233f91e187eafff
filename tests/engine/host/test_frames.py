"""Frames on a stream, and writing them from any thread to a peer that may be slow."""

from __future__ import annotations

import asyncio
import itertools
import socket
import sys
import threading
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from warmline.host import outlet
from warmline.host.frames import Frames, FrameTooLarge, framed, number_of
from warmline.host.outlet import MAX_UNREAD, Outlet

messages = st.lists(st.binary(max_size=40), max_size=12)


def pieces(data: bytes, cuts: list[int]) -> Iterator[bytes]:
    """Cut bytes into pieces, some of them empty."""
    places = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return (data[start:end] for start, end in itertools.pairwise(places))


@given(messages, st.lists(st.integers(0, 1 << 16), max_size=30))
def test_however_the_bytes_arrive_the_messages_are_the_same(sent: list[bytes], cuts: list[int]) -> None:
    frames = Frames()
    data = b"".join(map(framed, sent))
    assert [message for piece in pieces(data, cuts) for message in frames.feed(piece)] == sent
    assert list(frames.feed(framed(b"next"))) == [b"next"]


@given(messages, st.integers(41, 2**32 - 1), st.lists(st.integers(0, 1 << 16), max_size=10))
def test_too_long_a_frame_is_an_error_after_all_before_it(sent: list[bytes], length: int, cuts: list[int]) -> None:
    frames = Frames(longest=40)
    found: list[bytes] = []

    def take() -> None:
        for piece in pieces(b"".join(map(framed, sent)) + length.to_bytes(4, "big"), cuts):
            for message in frames.feed(piece):  # one by one: the error comes after some
                found.append(message)

    with pytest.raises(FrameTooLarge):
        take()
    assert found == sent


@pytest.mark.parametrize(
    ("data", "number"),
    [
        (b'{"number": 7, "more": 1}', 7),
        (b'{"number": -7}', 0),
        (b"{}", 0),
        (b"[7]", 0),
        (b"", 0),
        (b"\xff", 0),
        (b"[" * 9000, 0),
    ],
)
def test_whose_a_malformed_message_is(data: bytes, number: int) -> None:
    assert number_of(data) == number


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


class Ends:
    """An outlet and the socket at its other end."""

    def __init__(self) -> None:
        mine, self.peer = socket.socketpair(socket.AF_UNIX)
        mine.setblocking(False)
        self.peer.setblocking(False)
        self.overflows = 0
        self.outlet = Outlet(asyncio.get_running_loop(), mine, self._overflowed)

    def _overflowed(self) -> None:
        self.overflows += 1

    async def read(self, count: int) -> bytes:
        data = b""
        async with asyncio.timeout(10):
            while len(data) < count:
                more = await asyncio.get_running_loop().sock_recv(self.peer, 1 << 20)
                assert more
                data += more
        return data

    def close(self) -> None:
        self.outlet.close()
        self.peer.close()


@pytest.fixture
def restless() -> Iterator[None]:
    """Have threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("restless")
async def test_what_threads_write_to_a_slow_reader_arrives_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outlet, "MAX_UNREAD", 1 << 30)
    ends = Ends()
    expected = {mark: [mark + b"%d " % number * 4000 for number in range(400)] for mark in (b"a", b"b", b"c", b"d")}

    def write(mark: bytes) -> None:
        for message in expected[mark]:
            ends.outlet.send(framed(message))

    threads = [threading.Thread(target=write, args=(mark,)) for mark in expected]
    for thread in threads:
        thread.start()
    data = await ends.read(sum(len(framed(message)) for messages in expected.values() for message in messages))
    for thread in threads:
        thread.join()
    found = list(Frames().feed(data))
    for mark, messages in expected.items():
        assert [message for message in found if message.startswith(mark)] == messages
    ends.close()


async def test_who_reads_nothing_costs_a_bounded_amount() -> None:
    ends = Ends()
    message = b"x" * (1 << 20)
    for _ in range(40):
        ends.outlet.send(message)
    assert len(ends.outlet._waiting) <= MAX_UNREAD + len(message)
    await until(lambda: ends.overflows == 1)
    ends.close()
    ends.outlet.send(b"after the end")
    await asyncio.sleep(0.01)


async def test_the_end_comes_after_what_waits() -> None:
    ends = Ends()
    ended: list[bool] = []
    ends.outlet.when_empty(lambda: ended.append(True))
    assert ended == [True]
    ends.outlet.send(b"x" * 3_000_000)
    ends.outlet.when_empty(lambda: ended.append(False))
    assert ended == [True]
    await ends.read(3_000_000)
    await until(lambda: ended == [True, False])
    ends.close()


async def test_a_peer_that_has_gone_is_no_error() -> None:
    ends = Ends()
    ends.outlet.send(b"x" * 3_000_000)
    ends.peer.close()
    await until(lambda: not ends.outlet._waiting)
    ends.outlet.send(b"more")
    assert not ends.outlet._waiting
    ends.close()
