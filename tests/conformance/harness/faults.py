"""Planted faults: each breaks one rule of warm KV as a careless change would. The suite must see them all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from warmline.backends.base import AdapterOnDisk, ContextConfig, Session
from warmline.backends.llama_session import LlamaSession
from warmline.identity import Identity
from warmline.kv import disk
from warmline.kv.disk import DiskSnapshots
from warmline.kv.pool import ContextPool
from warmline.kv.prefix import common_prefix
from warmline.kv.snapshots import Snapshot, SnapshotStore

from .llama_world import LlamaWorld

Fault = Callable[[LlamaWorld], AbstractContextManager[Any]]


def kv_of_another_adapter_is_restored(world: LlamaWorld) -> AbstractContextManager[Any]:
    """The look-up in RAM forgets the identity."""

    def best(self: SnapshotStore, identity: Identity, prompt: Sequence[int]) -> tuple[Snapshot, int] | None:
        found = max(self, key=lambda one: common_prefix(one.tokens, prompt), default=None)
        return None if found is None else (found, common_prefix(found.tokens, prompt))

    return patch.object(SnapshotStore, "best", best)


def a_snapshot_is_kept_under_the_wrong_identity(world: LlamaWorld) -> AbstractContextManager[Any]:
    """What leaves a context is filed under another identity that is live."""
    real = ContextPool._save

    def save(self: ContextPool, identity: Identity, session: Session) -> None:
        real(self, next((other for other in self._live if other != identity), identity), session)

    return patch.object(ContextPool, "_save", save)


def the_context_of_another_identity_is_used(world: LlamaWorld) -> AbstractContextManager[Any]:
    """The pool takes identities that share base and number of adapters for equal."""

    def alike(self: Identity, other: object) -> bool:
        return isinstance(other, Identity) and len(self.adapters) == len(other.adapters)

    return patch.multiple(Identity, __eq__=alike, __hash__=lambda self: len(self.adapters))


def the_scale_is_not_identity(world: LlamaWorld) -> AbstractContextManager[Any]:
    """The identity of A at half its scale is that of A."""
    real = world.identity

    def without_scale(variant: str) -> Identity:
        return real(variant if variant != "A@0.5" else "A")

    def open_it(variant: str) -> Session:
        real(variant)
        return opened(variant)

    opened = world.open
    return patch.multiple(world, identity=without_scale, open=open_it)


def a_replaced_file_keeps_its_digest(world: LlamaWorld) -> AbstractContextManager[Any]:
    """The identity goes by the file's name: other bytes, the same identity."""
    real, first = world.identity, dict[str, Identity]()

    def by_name(variant: str) -> Identity:
        return first.setdefault(variant, real(variant))

    def open_it(variant: str) -> Session:
        real(variant)
        return opened(variant)

    opened = world.open
    return patch.multiple(world, identity=by_name, open=open_it)


def the_trim_is_skipped(world: LlamaWorld) -> AbstractContextManager[Any]:
    """A session says that the end of its KV is gone, and leaves it there."""

    def untrimmed(session: LlamaSession) -> None:
        def keep(count: int) -> int:
            if count < len(session._tokens):
                if count == 0:
                    session._lib.llama_memory_clear(session._memory, True)
                del session._tokens[count:]
                session._record(("keep", count))
            return count

        session._keep = keep  # type: ignore[method-assign]

    return _sessions(world, untrimmed)


def a_stopped_batch_stays(world: LlamaWorld) -> AbstractContextManager[Any]:
    """A prefill that was stopped counts a batch as done that was not."""

    def optimistic(session: LlamaSession) -> None:
        decode = session._decode

        def count_it(tokens: Sequence[int], abort: Any) -> None:
            held = len(session._tokens)
            try:
                decode(tokens, abort)
            except BaseException:
                session._tokens[held:] = tokens
                session._record(("decode", tuple(tokens)))
                raise

        session._decode = count_it  # type: ignore[method-assign]

    return _sessions(world, optimistic)


def an_adapter_is_forgotten(world: LlamaWorld) -> AbstractContextManager[Any]:
    """Of several adapters only the last is set, as a loop over the shim `llama_set_adapter_lora` does it."""
    real = LlamaWorld.open

    def last_only(variant: str) -> Session:
        opened = world.model.open_session

        def fewer(adapters: Sequence[AdapterOnDisk], config: ContextConfig) -> Session:
            return opened(adapters[-1:], config)

        with patch.object(world.model, "open_session", fewer):
            return real(world, variant)

    return patch.object(world, "open", last_only)


def a_file_is_believed_unchecked(world: LlamaWorld) -> AbstractContextManager[Any]:
    """The checksum of a snapshot file is not looked at."""

    def load(self: DiskSnapshots, path: Path, identity: Identity) -> Snapshot | None:
        with path.open("rb") as file:
            head = disk._read_head(file.fileno())
            file.seek(head.offset)
            return Snapshot(identity, head.tokens, file.read(head.nbytes))

    return patch.object(DiskSnapshots, "_load", load)


def restored_kv_is_one_token_short(world: LlamaWorld) -> AbstractContextManager[Any]:
    """A snapshot is cut by a token after it was restored, and nobody says so."""

    def short(session: LlamaSession) -> None:
        restore = session.restore

        def less(tokens: Sequence[int], data: bytes, lineage: Sequence[Any] = ()) -> bool:
            done = restore(tokens, data, lineage)
            if done:
                session._lib.llama_memory_seq_rm(session._memory, 0, len(tokens) - 1, -1)
            return done

        session.restore = less  # type: ignore[method-assign]

    return _sessions(world, short)


def _sessions(world: LlamaWorld, sabotage: Callable[[LlamaSession], None]) -> AbstractContextManager[Any]:
    """Do something to every session that the pool gets; the oracle's stay whole."""
    real = world.open

    def opened(variant: str) -> Session:
        session = real(variant)
        assert isinstance(session, LlamaSession)
        sabotage(session)
        return session

    return patch.object(world, "open", opened)


# What logits alone betray, whatever the books say.
MIXED: tuple[Fault, ...] = (
    kv_of_another_adapter_is_restored,
    a_snapshot_is_kept_under_the_wrong_identity,
    the_context_of_another_identity_is_used,
    the_scale_is_not_identity,
    a_replaced_file_keeps_its_digest,
    the_trim_is_skipped,
    a_stopped_batch_stays,
    an_adapter_is_forgotten,
    restored_kv_is_one_token_short,
)
FAULTS: tuple[Fault, ...] = (*MIXED, a_file_is_believed_unchecked)
