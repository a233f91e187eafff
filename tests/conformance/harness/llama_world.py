"""A llama.cpp base and its variants, verified and loaded as the engine does it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warmline.backends.base import Abort, AdapterOnDisk, ContextConfig, Session
from warmline.backends.llama import LlamaBackend, LlamaModel
from warmline.backends.llama_session import LlamaSession
from warmline.backends.native import llama
from warmline.digests import DigestCache
from warmline.identity import Identity
from warmline.variant import Profile, ResolvedAdapter, ResolvedBase, ResolvedVariant
from warmline.verified import Verified, Verifier

from .replaying import replay as replay_on
from .world import Lineage, PromptSpec

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

STEMS = (
    '"""Ledger."""\n\nfrom __future__ import annotations\n\n\nclass Ledger:\n    """Money in cents."""\n\n'
    "    def transfer(self, account_id: str, total_cents: int) -> Result:\n        if total_cents <= 0:\n"
    '            raise ValueError("nothing to transfer")\n        return self._move(account_id, total_cents)\n' * 2,
    "The harbour was quiet in the morning. Two boats came in with the tide, and a man with a lamp walked along the "
    "quay, counting what they had brought: nets, baskets, a broken oar, and one very large fish that nobody there "
    "could name. " * 3,
)
TAILS = (
    "\n    def balance(self) -> int:\n        return sum(entry.cents for entry in self.entries)\n" * 2,
    "import json, os, sys, pathlib, typing, collections, dataclasses, functools, itertools, contextlib\n",
    "Then the rain began, and they all went home without another word about it until the evening came. " * 2,
)


class LlamaWorld:
    """See `World`.

    Parameters
    ----------
    folder
        For adapter files that change.
    adapters
        By name: the file as it is at first, and what replaces it.
    variants
        By name: (adapter, scale) pairs.
    trims
        Whether the base can give back any end of its KV.
    moves
        Whether KV that is restored lies in other cells than before, and so gives other bits.
    n_ctx, stem_tokens, longest
        Room, and what prompts may take of it, in tokens.
    """

    def __init__(
        self,
        folder: Path,
        base: Path,
        adapters: Mapping[str, tuple[Path, Path]],
        variants: Mapping[str, Sequence[tuple[str, str]]],
        *,
        trims: bool = True,
        moves: bool = False,
        n_ctx: int = 256,
        stem_tokens: Sequence[int] = (0, 20, 37, 64, 90),
        longest: int = 150,
    ) -> None:
        self.variants = tuple(variants)
        self.adapters = tuple(adapters)
        self.trims, self.moves = trims, moves
        self.stem_tokens, self.longest = stem_tokens, longest
        # One thread: ggml's spin, and few cores are shared by many.
        self._room = ContextConfig(n_ctx=n_ctx, n_batch=32, threads=1, record=True)
        self._recipes = variants
        self._versions = adapters
        self._at: dict[str, int] = {}
        self._folder = folder
        self._base = base
        self._digests = DigestCache()
        self._by_digest = {self._digests.digest(path): path for pair in adapters.values() for path in pair}
        self._verified: dict[str, Verified] = {}
        self._known: dict[str, tuple[AdapterOnDisk, ...]] = {}
        self._polls: list[Any] = []
        self.reset()
        self._backend = LlamaBackend(self._digests)
        self._verifier = Verifier(self._backend, self._digests, lambda _digest: True)
        self._load()
        facts = self.model.facts
        self._bos = (facts.bos,) if facts.add_bos and facts.bos is not None else ()
        self._stems = [(*self._bos, *self.model.tokenize(text)) for text in STEMS]
        self._tails = [tuple(self.model.tokenize(text)) for text in TAILS]
        self.bytes_per_token = self._measure()

    def _load(self) -> None:
        self.model: LlamaModel = self._backend.load(self._base, self._digests.digest(self._base))

    def _file(self, adapter: str) -> Path:
        return self._folder / f"{adapter}.gguf"

    def _measure(self) -> int:
        session = self.model.open_session([], self._room)
        try:
            tokens = self.prompt(PromptSpec(0, 30, 0, 2))
            session.prefill(tokens, Abort()).run()
            return len(session.save()) // len(tokens) + 8
        finally:
            session.close()

    def prompt(self, spec: PromptSpec) -> tuple[int, ...]:
        """See `World.prompt`; what a base wants in front is in front."""
        stem = self._stems[spec.stem][: max(spec.stem_tokens, len(self._bos))]
        return (*stem, *self.tail(spec.tail, spec.tail_tokens))

    def tail(self, number: int, tokens: int) -> tuple[int, ...]:
        """See `World.tail`."""
        return self._tails[number][:tokens]

    def identity(self, variant: str) -> Identity:
        """See `World.identity`."""
        verified = self._verifier.verify(
            ResolvedVariant(
                name="v",
                backend="llama",
                base=ResolvedBase(name="base", path=self._base),
                adapters=tuple(
                    ResolvedAdapter(name=name, path=self._file(name), scale=Decimal(scale))
                    for name, scale in self._recipes[variant]
                ),
                profile=Profile(n_ctx=self._room.n_ctx),
                file="v.json",
            )
        )
        self._verified[variant] = verified
        # The files may be replaced before a replay wants them: it takes the versions, which stay.
        self._known[verified.identity.digest] = tuple(
            replace(adapter.on_disk, path=self._by_digest[adapter.digest]) for adapter in verified.adapters
        )
        return verified.identity

    def open(self, variant: str) -> Session:
        """See `World.open`."""
        verified = self._verified[variant]
        return self.model.open_session([adapter.on_disk for adapter in verified.adapters], self._config(verified))

    def _config(self, verified: Verified) -> ContextConfig:
        return replace(verified.context, n_batch=self._room.n_batch, threads=1, record=True)

    def replay(self, identity: Identity, lineage: Lineage) -> Iterator[NDArray[np.float32]]:
        """See `World.replay`."""
        session = self.model.open_session(self._known[identity.digest], self._room)
        assert isinstance(session, LlamaSession)
        try:
            for _ in replay_on(session, lineage):
                yield session.logits()
        finally:
            session.close()

    def elsewhere(self, identity: Identity, lineage: Lineage) -> str:
        """See `World.elsewhere`."""
        work = {
            "base": str(self._base),
            "adapters": [[one.name, str(one.path), one.digest, one.scale] for one in self._known[identity.digest]],
            "context": asdict(self._room),
            "lineage": lineage,
        }
        script = Path(__file__).with_name("elsewhere.py")
        done = subprocess.run(
            [sys.executable, str(script)], input=json.dumps(work), capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    @contextmanager
    def stop_inside(self, session: Session, polls: int) -> Iterator[None]:
        """See `World.stop_inside`: the native poll is answered from here, with one thread always alike."""
        assert isinstance(session, LlamaSession)
        calls = count()
        poll = llama().ggml_abort_callback(lambda _data: next(calls) >= polls)
        self._polls.append(poll)  # the context points at it until its next decode
        session._poll, before = poll, session._poll
        session._abort = None
        try:
            yield
        finally:
            session._poll, session._abort = before, None

    def reset(self) -> None:
        """See `World.reset`."""
        for name in self.adapters:
            self._put(name, 0)

    def replace(self, adapter: str) -> None:
        """See `World.replace`; readers of the old file go on reading the old file."""
        self._put(adapter, 1 - self._at[adapter])

    def _put(self, adapter: str, version: int) -> None:
        if self._at.get(adapter) == version:
            return
        self._at[adapter] = version
        temporary = self._folder / "temporary"
        shutil.copyfile(self._versions[adapter][version], temporary)
        os.replace(temporary, self._file(adapter))

    def reload(self) -> None:
        """See `World.reload`."""
        self.model.close()
        self._polls.clear()
        self._load()

    def close(self) -> None:
        """Free the model."""
        self._backend.close()
