"""Which exact variant answers now: what the engine said holds as long as the files that it looked at do."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Final

from cachetools import LRUCache
from warmline.digests import RACY_SECONDS
from warmline.variant import ResolvedVariant

from ..suggest.cache import IdentityDigest

#: What tells that no file of a variant was touched: of each its path, device, inode, size, mtime and ctime.
Footing = tuple[tuple[str, int, int, int, int, int], ...]
_REMEMBERED: Final = 64


class Identities:
    """Answers of the engine, each kept with what its files were like before it was asked.

    Asking it is a round trip for each key; looking at three files is some ten microseconds. A file written within the
    last `RACY_SECONDS` may be written again without a trace: then the engine is asked each time (`warmline.digests`).

    Parameters
    ----------
    home
        The user's store: its approvals are part of what is looked at.
    ask
        Has the engine verify a variant and gives its identity; its errors are raised by `of`.
    """

    def __init__(self, home: Path, ask: Callable[[ResolvedVariant], Awaitable[str]]) -> None:
        self._approvals = home / "trust.json"
        self._ask = ask
        self._known: LRUCache[ResolvedVariant, tuple[Footing, IdentityDigest]] = LRUCache(_REMEMBERED)

    async def of(self, variant: ResolvedVariant) -> IdentityDigest:
        """Give the digest of the exact variant that answers now; raises what the engine does for one that cannot."""
        footing = self.footing(variant)
        known = self._known.get(variant)
        if known is not None and known[0] == footing:
            return known[1]
        identity = IdentityDigest(await self._ask(variant))
        self.learn(variant, footing, identity)
        return identity

    def learn(self, variant: ResolvedVariant, footing: Footing | None, identity: str) -> None:
        """Keep what the engine said; `footing` is that from before it was asked."""
        if footing is not None:
            self._known[variant] = footing, IdentityDigest(identity)

    def forget(self) -> None:
        """Ask anew: another engine may run another version of a backend."""
        self._known.clear()

    def footing(self, variant: ResolvedVariant) -> Footing | None:
        """Look at a variant's files; None where that cannot tell whether they will have been touched."""
        latest = (time.time() - RACY_SECONDS) * 1e9
        found = []
        try:
            for path in self._files(variant):
                status = os.stat(path)
                if not stat.S_ISREG(status.st_mode) or max(status.st_mtime_ns, status.st_ctime_ns) > latest:
                    return None
                times = status.st_mtime_ns, status.st_ctime_ns
                found.append((os.fspath(path), status.st_dev, status.st_ino, status.st_size, *times))
        except OSError:
            return None  # the engine says what is wrong
        return tuple(found)

    def _files(self, variant: ResolvedVariant) -> Iterator[str | Path]:
        paths = [variant.base.path, *(adapter.path for adapter in variant.adapters)]
        for path in paths:
            if variant.backend == "openvino":  # all of a model's folder counts, and an adapter's configuration
                with os.scandir(path if path.is_dir() else path.parent) as entries:
                    yield from sorted(entry.path for entry in entries)
            else:
                yield path
        if self._approvals.exists():
            yield self._approvals
