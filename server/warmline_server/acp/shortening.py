"""Making room in the context: the oldest turns go first, then the oldest results of tools in the turn at hand."""

from __future__ import annotations

from typing import Final

from .sessions import Record
from .transcript import Asked, Planned, Used

_GONE: Final = "[left out: the context was full]"


def make_room(record: Record) -> str:
    """Let the model see less, and say what it sees no longer; empty where nothing is left to take away."""
    seen = list(record.seen())
    starts = [index for index, entry in enumerate(seen) if isinstance(entry, Asked)]
    if len(starts) > 1:
        # Half of the turns at once, so that the KV of what stays serves several turns more.
        kept = starts[max(1, len(starts) // 2)]
        turns = starts.index(kept)
        record.hide(kept)
        return f"The model no longer sees the oldest {turns} turns" if turns > 1 else "The model forgot the oldest turn"
    for index, entry in enumerate(seen):
        if isinstance(entry, (Used, Planned)) and entry.result != _GONE:
            record.entries[record.head.hidden + index] = entry.model_copy(update={"result": _GONE})
            return "The model no longer sees the oldest result of a tool"
    return ""
