"""One generation: its stops, limits and text, over a scripted session."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor

import pytest
from fake_backend import FakeSession
from hypothesis import given
from hypothesis import strategies as st
from warmline.backends.base import Abort, Session
from warmline.generation import Limits, Result, _Told, generate
from warmline.variant import Sampling


class Heard:
    def __init__(self) -> None:
        self.reused: list[int] = []
        self.pieces: list[str] = []
        self.untold = 0

    def started(self, reused: int) -> None:
        self.reused.append(reused)

    def text(self, piece: str) -> None:
        self.pieces.append(piece)
        self.untold += len(piece)

    def soon(self, catch_up: Callable[[], object]) -> None:
        catch_up()
        self.untold = 0


def ended(steps: Generator[None, None, Result]) -> Result:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


def run(script: bytes, *, n_ctx: int = 200, abort: Abort | None = None, **limits: object) -> tuple[Result, Heard]:
    session: Session = FakeSession(n_ctx, list(script))
    heard = Heard()
    full = Limits(**{"max_tokens": 100, "stop_ids": frozenset({0}), **limits})
    result = ended(generate(session, lambda t: bytes([t]), [1, 2, 3], full, Sampling(), abort or Abort(), heard))
    assert "".join(heard.pieces) == result.text
    return result, heard


def test_a_stop_token_ends_it_and_is_not_text() -> None:
    assert run(b"hello\0more")[0] == Result("stop", "hello", 5)


def test_the_token_limit_ends_it() -> None:
    assert run(b"abc", max_tokens=7)[0] == Result("length", "abcabca", 7)


def test_the_context_ends_it_before_it_overflows() -> None:
    assert run(b"abc", n_ctx=8)[0] == Result("length", "abcab", 5)


def test_a_stop_text_is_cut_off_wherever_tokens_split_it() -> None:
    assert run(b"one\n\ntwo", stop_texts=("\n\n",))[0] == Result("stop", "one", 5)


@given(st.text("ab\n", min_size=1, max_size=30), st.lists(st.text("ab\n", min_size=1, max_size=4), max_size=3))
def test_no_stop_text_is_ever_sent(script: str, stops: list[str]) -> None:
    result, _ = run(script.encode() + b"\0", stop_texts=tuple(stops))
    cut = min((at for stop in stops if (at := script.find(stop)) >= 0), default=len(script))
    # The earliest end counts: a stop text that completes first may start later than one that completes after it.
    assert not any(stop in result.text for stop in stops)
    assert script.startswith(result.text)
    assert len(result.text) >= cut or not stops


def test_characters_of_several_tokens_come_whole_and_half_ones_not_at_all() -> None:
    whole = "ok 😀".encode()
    assert run(whole + b"\0")[0].text == "ok 😀"
    assert run(whole[:-1] + b"\0")[0].text == "ok "


def test_a_deadline_returns_what_is_there() -> None:
    result, _ = run(b"abc", max_predict_ms=0)
    assert result == Result("deadline", "a", 1)


def test_an_abort_before_the_prefill_decodes_nothing() -> None:
    abort = Abort()
    abort.set("cancelled")
    result, heard = run(b"abc", abort=abort)
    assert result == Result("cancelled", "", 0)
    assert heard.reused == []


@pytest.mark.parametrize("after", [1, 2, 5])
def test_an_abort_stops_within_one_token(after: int) -> None:
    abort = Abort()

    def stop(session: FakeSession) -> None:
        if session.decodes + 1 == after:
            abort.set("superseded")

    session = FakeSession(200, list(b"abc"), stop)
    steps = generate(session, lambda t: bytes([t]), [1], Limits(100, frozenset({0})), Sampling(), abort, Heard())
    result = ended(steps)
    assert result.outcome == "superseded"
    assert session.decodes == after - 1


def test_the_first_reason_to_stop_stays() -> None:
    abort = Abort()
    abort.set("superseded")
    abort.set("cancelled")
    assert abort.reason == "superseded"


def test_what_is_known_is_told_before_the_next_token_is_computed() -> None:
    heard = Heard()
    limits = Limits(max_tokens=9, stop_ids=frozenset({0}))
    steps = generate(
        FakeSession(200, list(b"some words")), lambda t: bytes([t]), [1, 2, 3], limits, Sampling(), Abort(), heard
    )
    pauses = 0
    for _ in steps:
        pauses += 1
        assert heard.untold == 0
    assert pauses >= len("".join(heard.pieces)) - 1 == 8


class Apart(Heard):
    """Has what is to be done soon done by another thread, some time later, as `rests` say."""

    def __init__(self, rests: list[float]) -> None:
        super().__init__()
        self._rests = itertools.cycle(rests)
        self._pool = ThreadPoolExecutor(2)

    def soon(self, catch_up: Callable[[], object]) -> None:
        rest = next(self._rests)
        self._pool.submit(lambda: (time.sleep(rest), catch_up()))

    def settle(self) -> None:
        self._pool.shutdown()


@given(st.text("aé😀\n", min_size=1, max_size=20), st.lists(st.sampled_from([0.0, 0.0005]), min_size=1, max_size=5))
def test_whoever_tells_of_the_tokens_the_text_is_the_same(script: str, rests: list[float]) -> None:
    apart = Apart(rests)
    told: list[float] = []
    apart.picked = told.append  # type: ignore[method-assign]
    limits = Limits(max_tokens=100, stop_ids=frozenset({0}), probabilities=True)
    session = FakeSession(200, [*script.encode(), 0])
    result = ended(generate(session, lambda t: bytes([t]), [1], limits, Sampling(), Abort(), apart))
    apart.settle()
    assert result == Result("stop", script, len(script.encode())) == run(script.encode() + b"\0")[0]
    assert "".join(apart.pieces) == script
    assert len(told) == result.predicted_tokens


@given(st.text("ab\n", min_size=1, max_size=20), st.sampled_from(["\n", "ab", "ba\n"]))
def test_a_stop_text_ends_it_whoever_tells_of_the_tokens(script: str, stop: str) -> None:
    apart = Apart([0.0])
    limits = Limits(max_tokens=100, stop_ids=frozenset({0}), stop_texts=(stop,))
    session = FakeSession(200, [*script.encode(), 0])
    result = ended(generate(session, lambda t: bytes([t]), [1], limits, Sampling(), Abort(), apart))
    apart.settle()
    assert result == run(script.encode() + b"\0", stop_texts=(stop,))[0]
    assert "".join(apart.pieces) == result.text


def test_a_stop_text_that_the_other_thread_came_upon_is_known_to_the_generation() -> None:
    heard = Heard()
    told = _Told(("\n",), lambda t: bytes([t]), heard)
    for token in b"first\n":
        told.picked(token, None)
    assert told.catch_up()  # the other thread's, which does nothing with it
    for token in b"second":
        told.picked(token, None)
        assert told.catch_up()
    assert told.whole() == "first" == "".join(heard.pieces)


def test_a_fault_in_the_other_thread_is_no_shorter_text() -> None:
    def piece(token: int) -> bytes:
        if token == ord("d"):
            raise RuntimeError("no such token")
        return bytes([token])

    apart = Apart([0.0])
    limits = Limits(max_tokens=6, stop_ids=frozenset({0}))
    with pytest.raises(RuntimeError, match="no such token"):
        ended(generate(FakeSession(200, list(b"words.")), piece, [1], limits, Sampling(), Abort(), apart))
    apart.settle()


def test_probabilities_are_told_of_the_texts_tokens_if_asked_for() -> None:
    told: list[float | None] = []

    class Listening(Heard):
        def picked(self, probability: float | None) -> None:
            told.append(probability)

    for asked in (False, True):
        limits = Limits(max_tokens=9, stop_ids=frozenset({0}), probabilities=asked)
        ended(
            generate(FakeSession(99, [1, 2, 3, 0]), lambda t: bytes([t]), [1], limits, Sampling(), Abort(), Listening())
        )
        assert told == ([0.5, 0.25, 0.5] if asked else [])


def test_a_rank_begins_with_another_token_and_never_ends_at_once() -> None:
    def begun(rank: int, *stops: int) -> str:
        limits = Limits(max_tokens=1, stop_ids=frozenset({0, *stops}), first_rank=rank)
        session = FakeSession(99, list(b"a\0"))
        return ended(generate(session, lambda t: bytes([t]), [1], limits, Sampling(), Abort(), Heard())).text

    assert [begun(rank) for rank in range(3)] == ["a", "b", "c"]
    assert begun(1, ord("b")) == "c"
    assert begun(60_000) == begun(10_000)  # there are no more tokens than the vocabulary has
