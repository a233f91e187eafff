"""KV in RAM: within the budget, by exact identity, least recently used first out, and hashes are never believed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from identities import ALL, identity
from warmline.identity import Identity
from warmline.kv import snapshots
from warmline.kv.prefix import common_prefix
from warmline.kv.snapshots import Snapshot, SnapshotStore, token_key

A, B = identity("a"), identity("b")
TOKENS = st.lists(st.integers(0, 2), min_size=1, max_size=6).map(tuple)


def kv(owner: Identity, *tokens: int, size: int = 10) -> Snapshot:
    return Snapshot(owner, tokens, bytes(size))


class Stores(RuleBasedStateMachine):
    """Any order of uses, beside a list that is searched from end to end."""

    budget = 200

    def __init__(self) -> None:
        super().__init__()
        self.store = SnapshotStore(self.budget)
        self.kept: list[Snapshot] = []  # least recently used first
        self.evictions = 0

    def _used(self, snapshot: Snapshot) -> None:
        self.kept.remove(snapshot)
        self.kept.append(snapshot)

    @rule(owner=st.sampled_from(ALL), tokens=TOKENS, size=st.integers(0, 120) | st.just(300))
    def put(self, owner: Identity, tokens: tuple[int, ...], size: int) -> None:
        new = kv(owner, *tokens, size=size)
        fits = new.nbytes <= self.budget
        assert self.store.put(new) == fits
        if not fits:
            return
        self.kept = [one for one in self.kept if one.identity != owner or one.tokens != tokens[: len(one.tokens)]]
        while sum(one.nbytes for one in self.kept) + new.nbytes > self.budget:
            self.kept.pop(0)
            self.evictions += 1
        self.kept.append(new)

    @rule(owner=st.sampled_from(ALL), prompt=TOKENS)
    def best(self, owner: Identity, prompt: tuple[int, ...]) -> None:
        most = max((common_prefix(one.tokens, prompt) for one in self.kept if one.identity == owner), default=0)
        found = self.store.best(owner, prompt)
        if not most:
            assert found is None
            return
        assert found is not None
        snapshot, shared = found
        assert shared == most == common_prefix(snapshot.tokens, prompt)
        assert snapshot.identity == owner
        self._used(snapshot)

    @rule(owner=st.sampled_from(ALL), tokens=TOKENS)
    def exact(self, owner: Identity, tokens: tuple[int, ...]) -> None:
        expected = next((one for one in self.kept if one.identity == owner and one.tokens == tokens), None)
        found = self.store.exact(owner, tokens)
        assert found is expected
        assert self.store.holds(owner, tokens) == (expected is not None)
        if found is not None:
            self._used(found)

    @rule(owner=st.sampled_from(ALL), tokens=TOKENS)
    def discard(self, owner: Identity, tokens: tuple[int, ...]) -> None:
        self.store.discard(kv(owner, *tokens))
        self.kept = [one for one in self.kept if (one.identity, one.tokens) != (owner, tokens)]

    @rule(owner=st.sampled_from(ALL))
    def drop(self, owner: Identity) -> None:
        gone = [one for one in self.kept if one.identity.base == owner.base]
        assert self.store.drop(owner.base) == len(gone)
        self.kept = [one for one in self.kept if one not in gone]

    @rule()
    def clear(self) -> None:
        self.store.clear()
        self.kept = []

    @invariant()
    def the_same_is_kept_in_the_same_order(self) -> None:
        assert list(self.store) == self.kept
        assert len(self.store) == len(self.kept)
        assert self.store.nbytes == sum(one.nbytes for one in self.kept) <= self.budget
        assert self.store.evictions == self.evictions


TestStores = Stores.TestCase


def test_a_budget_of_nothing_keeps_nothing() -> None:
    store = SnapshotStore(0)
    assert not store.put(kv(A, 1))
    assert len(store) == store.nbytes == 0


def test_what_is_too_large_pushes_nothing_out() -> None:
    store = SnapshotStore(100)
    store.put(kv(A, 1))
    assert not store.put(kv(A, 2, size=200))
    assert store.holds(A, [1])


@given(st.lists(st.integers(-(2**31), 2**31 - 1), max_size=8), st.lists(st.integers(-(2**31), 2**31 - 1), max_size=8))
def test_keys_of_different_tokens_differ(a: list[int], b: list[int]) -> None:
    assert (token_key(a) == token_key(b)) == (a == b)


class TestCollisions:
    """All tokens have one digest: only the comparison of the tokens is left."""

    @pytest.fixture(autouse=True)
    def _one_digest(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(snapshots, "token_key", lambda tokens: b"same")

    def test_other_tokens_are_not_found(self) -> None:
        store = SnapshotStore()
        store.put(kv(A, 1, 2))
        assert store.exact(A, [1, 3]) is None
        assert not store.holds(A, [1])
        assert store.holds(A, [1, 2])

    def test_other_identities_are_not_found(self) -> None:
        store = SnapshotStore()
        store.put(kv(A, 1, 2))
        assert store.best(B, [1, 2]) is None
        assert store.exact(B, [1, 2]) is None

    def test_the_newer_one_takes_the_place_and_the_bytes_add_up(self) -> None:
        store = SnapshotStore(100)
        for number in range(20):
            assert store.put(kv(A, number, size=30))
            assert store.nbytes == 38
        assert store.evictions == 0
        assert store.best(A, [19]) == (kv(A, 19, size=30), 1)
        store.put(kv(B, 1))
        assert len(store) == 2
        assert store.nbytes == 38 + 18
