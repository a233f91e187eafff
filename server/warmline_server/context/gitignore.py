"""Whether Git ignores a file: Git itself is asked, since its rules come from many places."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

from cachetools import TTLCache

from . import git

_SECONDS: Final = 2.0
_IGNORED: Final = 0
# A rule that was just written takes effect after so many seconds.
_REMEMBERED: Final = 30.0


class GitIgnore:
    """Remembers for half a minute what Git says."""

    def __init__(self) -> None:
        self._known: TTLCache[Path, bool] = TTLCache(1024, _REMEMBERED, timer=time.monotonic)

    async def ignores(self, path: Path) -> bool:
        """Tell whether Git ignores a file; where there is no Git, no repository or no answer, nothing is ignored."""
        known = self._known.get(path)
        if known is None:
            known = self._known[path] = await _ask(path)
        return known


async def _ask(path: Path) -> bool:
    answer = await git.ask(path.parent, "check-ignore", "--quiet", "--", path.name, seconds=_SECONDS)
    return answer is not None and answer[0] == _IGNORED
