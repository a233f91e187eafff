"""Modes: what the agent may do without asking, may do after asking, and may not do."""

from __future__ import annotations

from typing import Any, Final, Literal

Mode = Literal["ask", "edit", "read-only"]
Effect = Literal["read", "write", "run"]

DEFAULT: Final[Mode] = "ask"
MODES: Final[dict[Mode, tuple[str, str]]] = {
    "ask": ("Ask", "Reads by itself; asks before it changes a file or runs a command."),
    "edit": ("Edit", "Reads and changes files by itself; asks before it runs a command."),
    "read-only": ("Read-only", "Reads only: changes no file and runs no command."),
}
_FREE: Final[dict[Mode, frozenset[Effect]]] = {
    "ask": frozenset({"read"}),
    "edit": frozenset({"read", "write"}),
    "read-only": frozenset({"read"}),
}


def state(mode: Mode) -> dict[str, Any]:
    """Give the modes as the protocol has them."""
    available = [{"id": key, "name": name, "description": what} for key, (name, what) in MODES.items()]
    return {"currentModeId": mode, "availableModes": available}


def allowed(mode: Mode, effect: Effect) -> bool:
    """Tell whether a mode allows what has this effect at all, asked or not."""
    return mode != "read-only" or effect == "read"


def asks(mode: Mode, effect: Effect) -> bool:
    """Tell whether a person is asked before."""
    return effect not in _FREE[mode]
