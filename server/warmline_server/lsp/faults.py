"""Whatever went wrong, as an error that a person may see."""

from __future__ import annotations

import traceback
from pathlib import Path

from warmline.errors import WarmlineError

from ..paths import unreadable


def typed(error: BaseException, home: Path) -> WarmlineError:
    """Return a typed error as it is, one of the operating system with its file, any other as ``internal``."""
    if isinstance(error, WarmlineError):
        return error
    if isinstance(error, OSError) and error.filename:
        return unreadable(error, home)
    # Where, not what: an exception's text may hold document text, which no log gets.
    frames = traceback.extract_tb(error.__traceback__)
    where = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "unknown place"
    return WarmlineError(
        f"unexpected {type(error).__name__} at {where}",
        code="internal",
        remedy="Ask again; if it stays, report this with what `warmline engine logs` says",
    )
