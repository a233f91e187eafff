"""Asking before something is changed or run, and remembering exactly what was always permitted or refused."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .client import Client
from .edge import RequestError
from .modes import Mode, allowed, asks
from .tools.tool import Action

Json = dict[str, Any]


class Refused(Exception):
    """An action may not be done; the message says why, for the model."""


class Withdrawn(Exception):
    """The client cancelled the turn instead of answering."""


@dataclass(slots=True)
class Permissions:
    """What a person permitted or refused for the rest of a session, by the scope that was shown to them."""

    always: set[str] = field(default_factory=set)
    never: set[str] = field(default_factory=set)

    async def check(self, action: Action, mode: Mode, client: Client, session_id: str, call: Json) -> None:
        """Return where the action may be done.

        Raises
        ------
        Refused
            The mode forbids it, or the person does.
        Withdrawn
            The turn was cancelled.
        """
        refuse_forbidden(action, mode)
        if action.scope in self.never:
            raise Refused(f"the user refuses {action.scope}")
        if not asks(mode, action.effect) or action.scope in self.always:
            return
        try:
            chosen = await client.permission(session_id, call, _choices(action.scope))
        except RequestError as error:
            raise Refused(f"the client did not ask the user: {error}") from None
        if chosen is None:
            raise Withdrawn
        if chosen == "allow_always":
            self.always.add(action.scope)
        elif chosen == "reject_always":
            self.never.add(action.scope)
        if chosen not in ("allow_once", "allow_always"):
            raise Refused("the user refuses it")


def refuse_forbidden(action: Action, mode: Mode) -> None:
    """Raise `Refused` where a mode allows an action in no case."""
    if not allowed(mode, action.effect):
        raise Refused("the session is read-only: no file is changed and no command is run")


def _choices(scope: str) -> list[Json]:
    names = {
        "allow_once": "Allow once",
        "allow_always": f"Always allow {scope}, in this session",
        "reject_once": "Reject",
        "reject_always": f"Always reject {scope}, in this session",
    }
    return [{"optionId": kind, "kind": kind, "name": name} for kind, name in names.items()]
