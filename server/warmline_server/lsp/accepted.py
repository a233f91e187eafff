"""The command ``warmline.accepted``: the editor runs it when a suggestion was accepted, and what follows is prefilled.

An item's command is LSP's only sign of an acceptance. Its arguments are the document's URI and the position at which
the inserted text ends.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from lsprotocol import types

from .initialize import ACCEPTED_COMMAND

if TYPE_CHECKING:
    from .cursor import Cursor
    from .protocol import WarmlineServer

#: The largest line or column that LSP has.
MOST_UNITS: Final = (1 << 31) - 1
_LINE_END: Final = re.compile(r"\r\n?|\n")


def accepted_command(cursor: Cursor, text: str) -> types.Command:
    """Make the command that goes with a suggestion of `text` at the cursor."""
    snapshot = cursor.snapshot
    *before, last = _LINE_END.split(text)
    start = types.Position(cursor.line, 0)
    # In a popup's selection the cursor stands where that would put it.
    column = 0 if before else snapshot.units(cursor.before)
    end = types.Position(start.line + len(before), column + snapshot.units(last))
    arguments = [snapshot.uri, {"line": end.line, "character": end.character}]
    return types.Command("Warmline: accepted", ACCEPTED_COMMAND, arguments=arguments)


def accepted(ls: WarmlineServer, uri: Any = None, position: Any = None, *_: object) -> None:
    """Count it, and prefill what follows; arguments that are not as they should be are passed over."""
    if not isinstance(uri, str) or not isinstance(position, dict):
        return
    ls.session.counting.accepted(uri)
    line, character = position.get("line"), position.get("character")
    if (
        isinstance(line, int)
        and isinstance(character, int)
        and 0 <= min(line, character) <= max(line, character) <= MOST_UNITS
    ):
        ls.session.prewarm.moved(uri, types.Position(line, character))
