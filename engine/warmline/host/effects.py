"""What each adapter was measured to change on a base: measured once, and kept across the engine's restarts."""

from __future__ import annotations

import contextlib
import json
import math
from pathlib import Path
from typing import Final

from ..digests import write_atomically
from ..identity import Identity

_KEPT: Final = 512


class Effects:
    """Largest change of a logit by (backend, its version, base digest, adapter digest, effective scale).

    All of these are content: what was measured for them stays true. Only what is finite and not 0 is kept on disk, so
    that an adapter that failed is measured again.

    Parameters
    ----------
    path
        A JSON file; None to keep them in memory alone. One that cannot be read or written costs measuring again.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._known: dict[str, float] = {}
        if path is not None:
            with contextlib.suppress(OSError, ValueError, AttributeError, RecursionError):
                found = json.loads(path.read_text("utf-8"))
                self._known = {str(key): value for key, value in found.items() if _is_effect(value)}

    def get(self, identity: Identity, index: int) -> float | None:
        """Return the effect of an identity's adapter, if it was measured."""
        return self._known.get(_key(identity, index))

    def put(self, identity: Identity, index: int, effect: float) -> None:
        """Keep what was measured."""
        self._known[_key(identity, index)] = effect
        if self._path is None or not _is_effect(effect):
            return
        kept = {key: value for key, value in self._known.items() if _is_effect(value)}
        newest = dict(list(kept.items())[-_KEPT:])
        with contextlib.suppress(OSError):
            write_atomically(self._path, json.dumps(newest, indent=0).encode())


def _key(identity: Identity, index: int) -> str:
    adapter = identity.adapters[index]
    return "|".join(
        (identity.backend, identity.backend_version, identity.base, adapter.digest, adapter.effective_scale)
    )


def _is_effect(value: object) -> bool:
    return isinstance(value, float) and math.isfinite(value) and value != 0
