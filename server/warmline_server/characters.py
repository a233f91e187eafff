"""Characters that a person cannot see, written as escapes: in a name or in metadata, none is there for good."""

from __future__ import annotations

import re
from typing import Final

# Controls, what turns the reading direction, joiners, spaces without width, fillers, tags and lone surrogates. The
# selectors of emoji and text style are left: they change how a visible character looks.
_INVISIBLE: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ud800-\udfff\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)


def escape(character: str) -> str:
    r"""Write one character as ``\x1b``, ``\u200b`` or ``\U000e0001``."""
    code = ord(character)
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" if code < 1 << 16 else f"\\U{code:08x}"


def escape_invisible(text: str) -> str:
    """Write each character that cannot be seen as its escape; line ends and tabs too."""
    return _INVISIBLE.sub(lambda match: escape(match[0]), text)


def whole(text: str) -> str:
    """Replace halves of characters, which no encoding has: names of files bring them, and bytes that are no UTF-8."""
    return text.encode("utf-8", "replace").decode()


def as_message(text: str) -> str:
    """Make one line for a dialog or a log out of text that may come from artifacts.

    VS Code makes links and commands of ``[label](target)`` in messages and icons of ``$(name)`` in code lenses; a space
    between the two parts takes that away.
    """
    return escape_invisible(" ".join(text.split())).replace("](", "] (").replace("$(", "$ (")
