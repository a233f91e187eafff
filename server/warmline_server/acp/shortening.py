"""Making room in the context: the oldest turns go first, then the oldest results of tools in the turn at hand.

In the place of turns that went the model has an outline of them. It is taken from what was said, to the letter: a small
model's summary would tell the next turns what nobody said.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from .sessions import Record
from .transcript import Answered, Asked, Entry, Planned, Used

_GONE: Final = "[left out: the context was full]"
_MOST_OUTLINE: Final = 1200
_MOST_QUOTED: Final = 120


def make_room(record: Record, *, most: bool = False) -> str:
    """Let the model see less, and say what it sees no longer; empty where nothing is left to take away.

    Parameters
    ----------
    most
        Take all turns away but the latest, in place of half of them.
    """
    seen = list(record.seen())
    starts = [index for index, entry in enumerate(seen) if isinstance(entry, Asked)]
    if len(starts) > 1:
        # Half of the turns at once, so that the KV of what stays serves several turns more.
        kept = starts[-1 if most else max(1, len(starts) // 2)]
        turns = starts.index(kept)
        record.hide(kept)
        return f"The model no longer sees the oldest {turns} turns" if turns > 1 else "The model forgot the oldest turn"
    for index, entry in enumerate(seen):
        if isinstance(entry, (Used, Planned)) and entry.result != _GONE:
            record.entries[record.head.hidden + index] = entry.model_copy(update={"result": _GONE})
            return "The model no longer sees the oldest result of a tool"
    return ""


def outline(record: Record, n_ctx: int) -> str:
    """Write what the model no longer sees in a few lines for it, the latest turns where not all fit; often empty.

    Parameters
    ----------
    n_ctx
        The context in tokens: a sixteenth of it is what an outline may take, about.
    """
    room = min(_MOST_OUTLINE, n_ctx // 5)
    lines: list[str] = []
    for turn in reversed(_turns(record.entries[: record.head.hidden])):
        line = _line(turn)
        room -= len(line) + 1
        if room < 0:
            break
        lines.insert(0, line)
    return "\n".join(["Earlier in this conversation:", *lines]) if lines else ""


def _turns(entries: Sequence[Entry]) -> list[list[Entry]]:
    turns: list[list[Entry]] = []
    for entry in entries:
        if isinstance(entry, Asked):
            turns.append([])
        if turns:
            turns[-1].append(entry)
    return turns


def _line(turn: Sequence[Entry]) -> str:
    parts = []
    for entry in turn:
        if isinstance(entry, Asked):
            parts.append(f"the user said: {_quoted(entry.text)}")
        elif isinstance(entry, Used) and entry.call.get("status") == "completed":
            parts.append(f"done: {_quoted(entry.call['title'])}")
        elif isinstance(entry, Answered):
            parts.append(f"you answered: {_quoted(entry.text)}")
    return f"- {'; '.join(parts)}"


def _quoted(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MOST_QUOTED else line[: _MOST_QUOTED - 1] + "…"
