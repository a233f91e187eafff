"""One program: a pool, what is done to it step by step, and what must hold after each step."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path

import numpy as np
from warmline.backends.base import Abort, Aborted
from warmline.errors import BackendError
from warmline.identity import Identity
from warmline.kv.disk import DiskSnapshots
from warmline.kv.pool import ContextPool
from warmline.kv.prefix import common_prefix
from warmline.kv.snapshots import SnapshotStore

from .oracle import MismatchError, Oracle, fingerprint, tokens_of
from .watched import Journal, Watched
from .world import Lineage, PromptSpec, World


class Run:
    """A pool on a world, from its first request through restarts to its end.

    Parameters
    ----------
    folder
        For snapshots; emptied at the beginning.
    tally
        Counts what happened, over many runs.
    strict
        See `Journal`.
    """

    def __init__(
        self,
        world: World,
        oracle: Oracle,
        folder: Path,
        tally: Counter[str],
        *,
        max_live: int,
        ram_tokens: int,
        disk_tokens: int,
        strict: bool = True,
    ) -> None:
        self.world = world
        self.oracle = oracle
        self.folder = folder
        self.tally = tally
        self.max_live = max_live
        self.ram = ram_tokens * world.bytes_per_token
        self.disk = disk_tokens * world.bytes_per_token
        self.journal = Journal(strict=strict)
        self.computed: dict[str, list[tuple[int, ...]]] = {}
        self.asked: list[tuple[str, tuple[int, ...]]] = []
        self.last: dict[int, tuple[str, tuple[int, ...]]] = {}
        self.notes: list[tuple[Identity, Lineage, str]] = []
        world.reset()
        shutil.rmtree(folder, ignore_errors=True)
        self._start()
        tally["programs"] += 1

    def _start(self) -> None:
        self.snapshots = DiskSnapshots(self.folder, self.disk)
        self.pool = ContextPool(self.max_live, SnapshotStore(self.ram), self.snapshots)

    # -- steps ---------------------------------------------------------------------------------------------------

    def ask(self, variant: str, prompt: PromptSpec, place: int, decodes: int) -> None:
        """Answer a prompt."""
        self._answer(variant, self.world.prompt(prompt), place, decodes)

    def again(self, which: int, place: int, tail_tokens: int, decodes: int) -> None:
        """Ask what was asked before, under the variant of then; with `tail_tokens`, a little more."""
        variant, prompt = self.asked[-which] if which <= len(self.asked) else self._first()
        self._answer(variant, (*prompt, *self.world.tail(0, tail_tokens))[-self.world.longest :], place, decodes)

    def go_on(self, place: int, tail: int, tail_tokens: int, decodes: int) -> None:
        """Type on after the last answer at this place."""
        variant, before = self.last.get(place) or self._first()
        self._answer(variant, (*before, *self.world.tail(tail, tail_tokens))[-self.world.longest :], place, decodes)

    def switch(self, variant: str, place: int, decodes: int) -> None:
        """Ask what was asked last of another variant."""
        self._answer(variant, (self.asked[-1] if self.asked else self._first())[1], place, decodes)

    def _first(self) -> tuple[str, tuple[int, ...]]:
        return self.world.variants[0], self.world.prompt(PromptSpec(0, 37, 0, 5))

    def cancel(self, variant: str, prompt: PromptSpec, place: int, batches: int) -> None:
        """Ask, and take it back at a batch boundary of the prefill."""
        identity, session = self._session(variant)
        tokens = self.world.prompt(prompt)
        self._warm(identity, session, tokens, place)
        abort = Abort()
        with suppress(Aborted):
            steps = session.prefill(tokens, abort).batches
            for _ in islice(steps, batches):
                pass
            abort.set("cancelled")
            for _ in steps:
                pass
        self.asked.append((variant, tokens))
        self._left_behind(identity, session, tokens)

    def stop_inside(self, variant: str, prompt: PromptSpec, place: int, polls: int) -> None:
        """Ask, and stop it in the middle of native work."""
        identity, session = self._session(variant)
        tokens = self.world.prompt(prompt)
        self._warm(identity, session, tokens, place)
        with self.world.stop_inside(session.inner, polls), suppress(Aborted):
            session.prefill(tokens, Abort()).run()
        self.asked.append((variant, tokens))
        self._left_behind(identity, session, tokens)

    def interrupt(
        self,
        variant: str,
        prompt: PromptSpec,
        place: int,
        batches: int,
        other_variant: str | None,
        other_prompt: PromptSpec,
        other_place: int,
    ) -> None:
        """Interrupt a generation between two steps by an answer for another place, then let it go on."""
        identity, session = self._session(variant)
        tokens = self.world.prompt(prompt)
        if other_place == place:
            other_place += 10
        self._warm(identity, session, tokens, place)
        self.pool.pin(identity, place)
        try:
            steps = session.prefill(tokens, Abort()).batches
            through = len(list(islice(steps, batches))) < batches
            token = None
            if through:
                self._note(identity, session)
                token = self._pick(session)
            self._left_behind(identity, session, tokens)
            self._answer(other_variant or variant, self.world.prompt(other_prompt), other_place, 1)
            assert self.pool.get(identity) is session, "a context was closed under an unfinished generation"
            lost = self.pool.retake(identity, place)
            if lost is not None:
                session.prefill(lost, Abort()).run()
            if not through:
                for _ in steps:
                    pass
                self._note(identity, session)
                token = self._pick(session)
            assert token is not None
            session.decode(token, Abort())
            self._note(identity, session)
            self._settle(identity, session, (*tokens, token))
        finally:
            self.pool.unpin(identity, place)

    def evict_all(self) -> None:
        """Close all contexts; what they hold becomes snapshots."""
        self.pool.drop(self.world.identity(self.world.variants[0]).base)
        assert len(self.pool) == 0

    def to_disk(self, limit: int) -> None:
        """Write the hottest KV to disk."""
        self.tally["written"] += self.pool.to_disk(limit)

    def forget_ram(self) -> None:
        """Empty the store in RAM."""
        self.pool.snapshots.clear()

    def restart(self, saves: bool, reloads: bool) -> None:
        """End the engine and start it again over the same folder; without `saves` it was killed."""
        if saves:
            self.to_disk(8)
        self._count()
        self.pool.close()
        if reloads:
            self.world.reload()
        self._start()

    def replace(self, adapter: str) -> None:
        """Replace an adapter's file by one with other bytes."""
        self.world.replace(adapter)

    def damage(self, place: int) -> None:
        """Restart the engine; meanwhile one bit of each snapshot file was lost, at `place` thousandths of it."""
        self.restart(saves=True, reloads=False)
        for path in self.folder.glob("*.kv"):
            data = bytearray(path.read_bytes())
            data[place * len(data) // 1000] ^= 0x10
            path.write_bytes(data)

    def purge(self) -> None:
        """Remove all snapshot files."""
        self.snapshots.purge()
        assert not list(self.folder.glob("*"))

    def do(self, name: str, arguments: dict[str, object]) -> None:
        """Do one step and check what must hold after any."""
        self.tally[f"op:{name}"] += 1
        getattr(self, name)(**arguments)
        # A context that could not be made room for, under an unfinished generation, stays until the next one is made.
        assert len(self.pool) <= self.max_live + 1
        assert self.pool.snapshots.nbytes <= self.ram
        assert sum(path.stat().st_size for path in self.folder.glob("*")) <= self.disk

    def close(self) -> None:
        """End the program."""
        self._count()
        self.pool.close()

    # -- what steps consist of -----------------------------------------------------------------------------------

    def _session(self, variant: str) -> tuple[Identity, Watched]:
        identity = self.world.identity(variant)
        self.computed.setdefault(identity.digest, [])
        session = self.pool.get(identity)
        if session is None:
            session = self.pool.put(
                identity, lambda: Watched(self.world.open(variant), identity, self.journal, moves=self.world.moves)
            )
            assert len(self.pool) <= self.max_live or self.pool.pinned_bases
        assert isinstance(session, Watched)
        self._claim(session.identity.digest == identity.digest, "the context of another identity")
        return identity, session

    def _warm(self, identity: Identity, session: Watched, prompt: tuple[int, ...], place: int) -> tuple[str, int]:
        """Warm the session; return where its KV came from, and how much of the prompt was live before."""
        held = common_prefix(tuple(session.tokens), prompt)
        source = self.pool.warm(identity, prompt, place)
        present = tuple(session.tokens)
        known = present in self.computed[identity.digest]
        self._claim(known or not present, "KV that this identity never computed")
        if source in ("ram", "disk"):
            self._claim(common_prefix(present, prompt) > held, "a snapshot that is worse than what was there")
        self.tally[f"warmed:{source}"] += 1
        return source, held

    def _answer(self, variant: str, prompt: tuple[int, ...], place: int, decodes: int) -> None:
        identity, session = self._session(variant)
        source, held = self._warm(identity, session, prompt, place)
        present = tuple(session.tokens)
        prefill = session.prefill(prompt, Abort())
        self._check_reuse(identity, prompt, present, prefill.reused, held)
        self.tally[f"reused:{source}"] += prefill.reused
        self.tally["prompt tokens"] += len(prompt)
        prefill.run()
        self._note(identity, session)
        tokens = prompt
        for _ in range(decodes):
            token = self._pick(session)
            session.decode(token, Abort())
            self._note(identity, session)
            tokens = (*tokens, token)
        self.asked.append((variant, prompt))
        self.last[place] = variant, tokens
        self._settle(identity, session, tokens)

    def _check_reuse(
        self, identity: Identity, prompt: tuple[int, ...], present: tuple[int, ...], reused: int, held: int
    ) -> None:
        most = max((common_prefix(known, prompt) for known in self.computed[identity.digest]), default=0)
        self._claim(reused <= min(most, len(prompt) - 1), "more reused than this identity ever computed")
        self._claim(present[:reused] == prompt[:reused], "tokens reused that are not the prompt's")
        if self.world.trims:
            self._claim(reused == min(common_prefix(present, prompt), len(prompt) - 1), "less reused than is there")
            self._claim(reused >= min(held, len(prompt) - 1), "warming lost what was there")

    def _claim(self, holds: bool, what: str) -> None:
        """Assert what the books say; when not `strict`, logits alone have to betray a fault."""
        assert holds or not self.journal.strict, what

    def _pick(self, session: Watched) -> int:
        return int(np.argmax(session.logits()))

    def _note(self, identity: Identity, session: Watched) -> None:
        """Take down the logits of now."""
        self.notes.append((identity, tuple(session.lineage), fingerprint(session.logits())))

    def _settle(self, identity: Identity, session: Watched, tokens: tuple[int, ...]) -> None:
        """Hold an answer that is complete to what its calls say, and its logits to their replay."""
        self._claim(tuple(session.tokens) == tokens, "other tokens than were asked for")
        self._remember(identity, session)
        self.tally["answers"] += 1
        notes, self.notes = self.notes, []
        for owner, lineage, found in reversed(notes):
            self.tally["logits compared"] += 1
            try:
                self.oracle.check(owner, lineage, found)
            except MismatchError:
                self.tally["mismatches"] += 1
                raise

    def _remember(self, identity: Identity, session: Watched) -> None:
        if self.journal.strict:
            assert tokens_of(session.lineage) == tuple(session.tokens), "the calls do not give the tokens"
        self.computed[identity.digest].append(tuple(session.tokens))

    def _left_behind(self, identity: Identity, session: Watched, prompt: tuple[int, ...]) -> None:
        """Check what a stopped prefill leaves: whole batches, or nothing."""
        self._claim(tuple(session.tokens) == prompt[: len(session.tokens)], "a stopped prefill left other tokens")
        self._remember(identity, session)

    def _count(self) -> None:
        self.tally.update(self.pool.counters)
        self.tally["ram evictions"] += self.pool.snapshots.evictions
        for why, count in self.snapshots.rejected.items():
            self.tally[f"rejected:{why}"] += count


@contextmanager
def program(run: Run) -> Iterator[Run]:
    """Close a run at its end, whatever that is."""
    try:
        yield run
    finally:
        with suppress(BackendError):
            run.close()
