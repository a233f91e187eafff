"""The pool: KV finds its way back to its own identity and place, whatever ran in between."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from fake_backend import FakeSession
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from identities import ALL, identity
from warmline.backends.base import Abort, Step
from warmline.identity import Identity
from warmline.kv.disk import DiskSnapshots
from warmline.kv.pool import ContextPool
from warmline.kv.prefix import common_prefix
from warmline.kv.snapshots import Snapshot, SnapshotStore

A, B = identity("a"), identity("b")
LONG = list(range(100))


class Owned(FakeSession):
    """A session that writes its identity into what it gives away, and takes nothing of another's."""

    def __init__(self, owner: Identity, *, refuses: bool = False) -> None:
        super().__init__(n_ctx=4096, script=[7])
        self.owner = owner
        self.refuses = refuses
        self.saves = self.restores = 0
        self.closes = 0

    def save(self) -> bytes:
        assert not self.closed, "KV was asked of a closed context"
        self.saves += 1
        return f"{self.owner.digest} {self.tokens}".encode()

    def restore(self, tokens: Sequence[int], data: bytes, lineage: Sequence[Step] = ()) -> bool:
        assert not self.closed
        assert data == f"{self.owner.digest} {list(tokens)}".encode(), "KV of another identity or of other tokens"
        self.restores += 1
        self.tokens = [] if self.refuses else list(tokens)
        return not self.refuses

    def close(self) -> None:
        super().close()
        self.closes += 1


def asked(pool: ContextPool, owner: Identity, prompt: Sequence[int], place: Hashable = "d", decodes: int = 0) -> str:
    """Answer a prompt as the engine does it; return where its KV came from."""
    session = pool.get(owner) or pool.put(owner, lambda: Owned(owner))
    source = pool.warm(owner, prompt, place)
    session.prefill(prompt, Abort()).run()
    for _ in range(decodes):
        session.decode(7, Abort())
    return source


def tokens(pool: ContextPool, owner: Identity) -> list[int]:
    session = pool.get(owner)
    assert session is not None
    return list(session.tokens)


def test_typing_in_one_place_copies_nothing() -> None:
    pool = ContextPool()
    assert [asked(pool, A, LONG[:end], decodes=3) for end in (40, 41, 50, 45, 99)] == ["none", *["live"] * 4]
    session = pool.get(A)
    assert isinstance(session, Owned)
    assert session.saves == session.restores == 0


def test_going_to_another_document_and_back_loses_nothing() -> None:
    pool = ContextPool()
    other = [500, *LONG]
    assert asked(pool, A, LONG, "one") == "none"
    assert asked(pool, A, other, "two") == "none"
    assert asked(pool, A, [*LONG, 1], "one") == "ram"
    assert asked(pool, A, [*other, 1], "two") == "ram"
    assert pool.counters == {"saved": 3, "restored:ram": 2}


def test_what_leaves_for_want_of_room_comes_back_to_its_own_identity() -> None:
    pool = ContextPool(max_live=1)
    asked(pool, A, LONG)
    asked(pool, B, LONG)
    assert pool.get(A) is None
    assert pool.was_evicted(A) and not pool.was_evicted(A) and not pool.was_evicted(B)
    assert asked(pool, A, [*LONG, 1]) == "ram"
    assert asked(pool, B, [*LONG, 1]) == "ram"


def test_the_least_recently_used_leaves_first() -> None:
    pool = ContextPool(max_live=2)
    asked(pool, ALL[0], LONG)
    asked(pool, ALL[1], LONG)
    pool.get(ALL[0])
    asked(pool, ALL[2], LONG)
    assert [pool.get(one) is not None for one in ALL[:3]] == [True, False, True]


def test_an_identity_has_one_context() -> None:
    pool = ContextPool()
    asked(pool, A, LONG)
    with pytest.raises(ValueError, match="already has a session"):
        pool.put(A, lambda: Owned(A))


def test_a_context_that_cannot_be_made_leaves_the_pool_as_it_can_be() -> None:
    pool = ContextPool(max_live=1)
    asked(pool, A, LONG)

    def fail() -> Owned:
        raise MemoryError

    with pytest.raises(MemoryError):
        pool.put(B, fail)
    assert pool.get(B) is None
    assert asked(pool, A, LONG) == "ram"


def test_a_restarted_pool_is_warm_from_disk(tmp_path: Path) -> None:
    pool = ContextPool(disk=DiskSnapshots(tmp_path))
    asked(pool, A, LONG)
    asked(pool, B, LONG[::-1])
    assert pool.to_disk() == 2
    pool.close()
    pool = ContextPool(disk=DiskSnapshots(tmp_path))
    assert asked(pool, A, [*LONG, 1]) == "disk"
    assert asked(pool, B, LONG) == "none"
    assert asked(pool, ALL[3], LONG) == "none"
    assert pool.counters == {"restored:disk": 1}


def test_only_the_hottest_go_to_disk_live_ones_first(tmp_path: Path) -> None:
    disk = DiskSnapshots(tmp_path)
    pool = ContextPool(max_live=1, disk=disk)
    for owner in ALL[:4]:
        asked(pool, owner, LONG)
    assert pool.to_disk(limit=2) == 2
    assert {entry.identity for entry in disk.entries()} == {ALL[2].digest, ALL[3].digest}


def test_a_short_beginning_in_ram_does_not_hide_the_whole_on_disk(tmp_path: Path) -> None:
    """A licence that all files begin with was restored; the file itself is still on disk."""
    pool = ContextPool(disk=DiskSnapshots(tmp_path))
    asked(pool, A, LONG)
    pool.to_disk()
    pool.drop(A.base)
    pool.snapshots.clear()
    pool.snapshots.put(Snapshot(A, tuple(LONG[:40]), f"{A.digest} {LONG[:40]}".encode()))
    assert asked(pool, A, [*LONG, 1]) == "disk"


def test_kv_that_the_backend_refuses_is_not_tried_again(tmp_path: Path) -> None:
    """Trying empties the context: without this a base that cannot restore would never be warm."""
    disk = DiskSnapshots(tmp_path)
    pool = ContextPool(disk=disk)
    asked(pool, A, LONG)
    pool.to_disk()
    pool.drop(A.base)
    session = pool.put(A, lambda: Owned(A, refuses=True))
    assert pool.warm(A, LONG, "d") == "none"
    assert pool.counters["refused"] == 1
    assert len(pool.snapshots) == 0 and disk.entries() == []
    session.prefill(LONG[:50], Abort()).run()
    assert pool.warm(A, LONG, "d") == "live"
    assert tokens(pool, A) == LONG[:50]


def test_a_pinned_context_stays_whatever_comes() -> None:
    pool = ContextPool(max_live=1)
    asked(pool, A, LONG, "chat")
    pool.pin(A, "chat")
    for owner in ALL[2:]:
        asked(pool, owner, LONG)
    assert tokens(pool, A) == LONG
    assert len(pool) == 2
    assert pool.pinned_bases == {A.base}
    pool.unpin(A, "chat")
    assert pool.pinned_bases == set()
    asked(pool, B, [1])
    assert len(pool) == 1


def test_an_interrupted_place_gets_its_kv_back() -> None:
    pool = ContextPool()
    asked(pool, A, LONG, "chat")
    pool.pin(A, "chat")
    assert pool.retake(A, "chat") is None
    asked(pool, A, [500, *LONG], "document", decodes=2)
    assert pool.retake(A, "chat") is None
    assert tokens(pool, A) == LONG
    assert pool.counters["resumed"] == 1


def test_an_interrupted_place_learns_what_it_lost() -> None:
    pool = ContextPool()
    pool.put(A, lambda: Owned(A, refuses=True))
    asked(pool, A, LONG[:20], "chat")
    pool.pin(A, "chat")
    asked(pool, A, [5], "document")
    assert pool.retake(A, "chat") == tuple(LONG[:20])
    assert tokens(pool, A) == []
    assert pool.counters["resumed_by_prefill"] == 1


@pytest.mark.parametrize("refuses", [False, True])
def test_a_place_that_had_nothing_yet_does_not_get_what_others_left(refuses: bool) -> None:
    pool = ContextPool()
    pool.put(A, lambda: Owned(A, refuses=refuses))
    pool.warm(A, LONG, "chat")
    pool.pin(A, "chat")
    asked(pool, A, LONG, "document")
    assert pool.retake(A, "chat") is None
    assert tokens(pool, A) == []


def test_a_base_leaves_with_its_contexts_and_no_others() -> None:
    pool = ContextPool(max_live=9)
    for owner in ALL:
        asked(pool, owner, LONG)
    pool.drop("sha256:other")
    assert [pool.get(owner) is not None for owner in ALL] == [True] * 5 + [False]
    assert asked(pool, ALL[5], LONG) == "ram"


def test_little_is_not_worth_a_copy() -> None:
    pool = ContextPool()
    asked(pool, A, LONG[:31], "one")
    asked(pool, A, [5], "two")
    assert len(pool.snapshots) == 0


def test_without_a_budget_all_is_forgotten_and_counted() -> None:
    pool = ContextPool(snapshots=SnapshotStore(0))
    asked(pool, A, LONG, "one")
    asked(pool, A, [5], "two")
    assert asked(pool, A, LONG, "one") == "none"
    assert pool.counters == {"too_large": 1}


# -- any program --------------------------------------------------------------------------------------------------

PROMPTS = st.builds(
    lambda stem, length, tail: [stem * 1000 + at for at in range(length)] + tail,
    st.integers(1, 2),
    st.sampled_from([0, 10, 20, 33, 50, 70]),
    st.lists(st.integers(0, 1), min_size=1, max_size=3),
)
PLACES = st.sampled_from("xyz")
OWNERS = st.sampled_from(ALL)


@dataclass
class Generation:
    """One that was interrupted, and what it had."""

    owner: Identity
    place: str
    tokens: list[int]


class Pools(RuleBasedStateMachine):
    """Any order of requests, interruptions, evictions and restarts."""

    @initialize(live=st.integers(1, 3), budget=st.sampled_from([0, 600, 100_000]), refusing=st.sets(OWNERS, max_size=2))
    def start(self, live: int, budget: int, refusing: set[Identity]) -> None:
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = Path(self.temporary.name)
        self.live, self.budget, self.refusing = live, budget, refusing
        self.made: list[Owned] = []
        self.suspended: list[Generation] = []
        self.computed: dict[Identity, list[list[int]]] = {owner: [] for owner in ALL}
        self._open()

    def _open(self) -> None:
        self.disk = DiskSnapshots(self.folder, 20_000)
        self.pool = ContextPool(self.live, SnapshotStore(self.budget), self.disk)
        self.seen: Counter[str] = Counter()
        self.made.clear()
        self.evicted: set[Identity] = set()

    def teardown(self) -> None:
        if hasattr(self, "pool"):
            self.pool.close()
            assert all(session.closes == 1 for session in self.made)
            self.temporary.cleanup()

    def _session(self, owner: Identity) -> Owned:
        session = self.pool.get(owner)
        if session is None:
            before = [one for one in ALL if self.pool.get(one) is not None]
            assert self.pool.was_evicted(owner) == (owner in self.evicted)
            session = self.pool.put(owner, lambda: self._make(owner))
            pinned = len({one.owner for one in self.suspended})
            assert len(self.pool) <= max(self.live, pinned + 1)
            self.evicted |= {one for one in before if self.pool.get(one) is None}
            self.evicted.discard(owner)
        assert isinstance(session, Owned)
        assert session.owner == owner and not session.closed
        return session

    def _make(self, owner: Identity) -> Owned:
        session = Owned(owner, refuses=owner in self.refusing)
        self.made.append(session)
        return session

    def _warm(self, owner: Identity, prompt: list[int], place: str) -> Owned:
        session = self._session(owner)
        held = common_prefix(session.tokens, prompt)
        refused = self.pool.counters["refused"]
        source = self.pool.warm(owner, prompt, place)
        self.seen[f"restored:{source}"] += 1
        now = common_prefix(session.tokens, prompt)
        known = max((common_prefix(tokens, prompt) for tokens in self.computed[owner]), default=0)
        assert now <= known
        if source in ("ram", "disk"):
            assert now > held
        elif self.pool.counters["refused"] == refused:
            assert now == held and (source == "live") == (held > 0)
        else:
            assert session.tokens == [] and source == "none"
        return session

    def _free(self, owner: Identity, place: str) -> bool:
        return not any((one.owner, one.place) == (owner, place) for one in self.suspended)

    @rule(owner=OWNERS, prompt=PROMPTS, place=PLACES, decodes=st.integers(0, 2))
    def ask(self, owner: Identity, prompt: list[int], place: str, decodes: int) -> None:
        if self._free(owner, place):
            session = self._warm(owner, prompt, place)
            session.prefill(prompt, Abort()).run()
            for _ in range(decodes):
                session.decode(7, Abort())
            assert session.tokens == prompt + [7] * decodes
            self.computed[owner].append(list(session.tokens))

    @rule(owner=OWNERS, prompt=PROMPTS, place=PLACES, begun=st.booleans())
    def suspend(self, owner: Identity, prompt: list[int], place: str, begun: bool) -> None:
        if self._free(owner, place):
            session = self._warm(owner, prompt, place)
            self.pool.pin(owner, place)
            prefill = session.prefill(prompt, Abort())
            if begun:
                prefill.run()
            self.computed[owner].append(list(session.tokens))
            self.suspended.append(Generation(owner, place, list(session.tokens)))

    @precondition(lambda self: self.suspended)
    @rule(data=st.data(), ends=st.booleans())
    def resume(self, data: st.DataObject, ends: bool) -> None:
        one = data.draw(st.sampled_from(self.suspended))
        session = self._session(one.owner)
        restores = session.restores
        lost = self.pool.retake(one.owner, one.place)
        if lost is not None:
            assert list(lost) == one.tokens and session.refuses
            self.seen["resumed_by_prefill"] += 1
            session.prefill(lost, Abort()).run()
        elif session.restores > restores and not session.refuses:
            self.seen["resumed"] += 1
        assert session.tokens == one.tokens, "a generation goes on from KV that is not its own"
        session.decode(7, Abort())
        one.tokens = list(session.tokens)
        self.computed[one.owner].append(one.tokens)
        if ends:
            self.pool.unpin(one.owner, one.place)
            self.suspended.remove(one)

    @rule(limit=st.integers(1, 8))
    def to_disk(self, limit: int) -> None:
        assert self.pool.to_disk(limit) <= limit

    @rule()
    def forget(self) -> None:
        self.pool.snapshots.clear()

    @rule(owner=OWNERS)
    def drop(self, owner: Identity) -> None:
        if owner.base not in self.pool.pinned_bases:
            self.pool.drop(owner.base)
            assert all(self.pool.get(one) is None for one in ALL if one.base == owner.base)

    @precondition(lambda self: not self.suspended)
    @rule(saves=st.booleans())
    def restart(self, saves: bool) -> None:
        if saves:
            self.pool.to_disk()
        self._add_up()
        self.pool.close()
        assert len(self.pool) == 0 and all(session.closes == 1 for session in self.made)
        self._open()

    def _add_up(self) -> None:
        counters = self.pool.counters
        for name in ("restored:ram", "restored:disk", "resumed", "resumed_by_prefill"):
            assert counters[name] == self.seen[name]
        restores = sum(session.restores for session in self.made)
        good = counters["restored:ram"] + counters["restored:disk"] + counters["resumed"]
        assert good <= restores
        assert sum(session.restores for session in self.made if not session.refuses) == good
        assert counters["saved"] >= len(self.pool.snapshots) - counters["restored:disk"] - counters["refused"]

    @invariant()
    def no_kv_is_where_it_does_not_belong(self) -> None:
        if not hasattr(self, "pool"):
            return
        for snapshot in self.pool.snapshots:
            assert snapshot.data == f"{snapshot.identity.digest} {list(snapshot.tokens)}".encode()
        assert self.pool.snapshots.nbytes <= self.budget
        assert self.pool.pinned_bases == {one.owner.base for one in self.suspended}
        alive = [session for session in self.made if not session.closed]
        assert len(alive) == len(self.pool)
        assert len({session.owner for session in alive}) == len(alive)
        assert {one.owner for one in self.suspended} <= {session.owner for session in alive}
        assert not self.disk.rejected

    @invariant()
    def the_counters_add_up(self) -> None:
        if hasattr(self, "pool"):
            self._add_up()


TestPools = Pools.TestCase
TestPools.settings = settings(deadline=None)
