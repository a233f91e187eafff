"""Each task begins with an empty context, whatever was asked before."""

from __future__ import annotations

from fake_backend import FakeSession
from warmline.evaluation.cold import ColdPool
from warmline.identity import ContextIdentity, Identity

ONE = Identity("fake", "1", "sha256:" + "b" * 64, (), "sha256:" + "d" * 64, "none", "fim", ContextIdentity(n_ctx=128))


def session() -> FakeSession:
    return FakeSession(n_ctx=4096, script=[7])


def test_no_session_is_given_twice_and_no_kv_is_kept() -> None:
    pool = ColdPool()
    first = session()
    first.tokens = list(range(100))
    pool.put(ONE, lambda: first)
    assert pool.get(ONE) is None
    assert first.closed
    second = session()
    pool.put(ONE, lambda: second)
    assert pool.warm(ONE, list(range(100)), "d") == "none"
    assert list(second.tokens) == []
    assert len(pool.snapshots) == 0


def test_a_generation_that_goes_on_keeps_its_session() -> None:
    pool = ColdPool()
    first = session()
    pool.put(ONE, lambda: first)
    pool.pin(ONE, "d")
    assert pool.get(ONE) is first
    pool.unpin(ONE, "d")
    assert pool.get(ONE) is None
