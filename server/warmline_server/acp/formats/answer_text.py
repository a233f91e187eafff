"""Finds an answer's text in a JSON object while that is decoded, and nothing that is no answer's."""

from __future__ import annotations

import re
from typing import Final

_ANSWER: Final = re.compile(r'\s*\{\s*"answer"\s*:\s*"')
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", '"': '"', "\\": "\\", "/": "/"}


class AnswerText:
    """Reads one reply (`Reader`)."""

    def __init__(self) -> None:
        self._raw = ""
        self._at: int | None = None
        self._ended = False

    def feed(self, piece: str) -> str:
        """Take more of the plan and give the text that became known with it."""
        self._raw += piece
        if self._at is None:
            match = _ANSWER.match(self._raw)
            if match is None:
                return ""
            self._at = match.end()
        found = []
        while not self._ended and (part := self._next()) is not None:
            found.append(part)
        return "".join(found)

    def _next(self) -> str | None:
        assert self._at is not None
        at, raw = self._at, self._raw
        if at >= len(raw):
            return None
        if raw[at] == '"':
            self._ended = True
            return None
        if raw[at] != "\\":
            stop = min((found for sign in '"\\' if (found := raw.find(sign, at)) >= 0), default=len(raw))
            self._at = stop
            return raw[at:stop]
        if at + 1 >= len(raw):
            return None
        if raw[at + 1] != "u":
            self._at = at + 2
            return _ESCAPES.get(raw[at + 1], "")
        return self._unicode(at)

    def _unicode(self, at: int) -> str | None:
        r"""Decode ``\uXXXX``, and two of them where they are the halves of one character."""
        raw = self._raw
        unit = _unit(raw, at)
        if unit is None:
            return None if len(raw) < at + 6 else self._skip(at, 2)
        if not 0xD800 <= unit <= 0xDFFF:
            self._at = at + 6
            return chr(unit)
        low = _unit(raw, at + 6)
        if low is None and len(raw) < at + 12 and "\\u".startswith(raw[at + 6 : at + 8]):
            return None  # the other half may be on its way
        if unit < 0xDC00 and low is not None and 0xDC00 <= low <= 0xDFFF:
            self._at = at + 12
            return chr(0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00))
        return self._skip(at, 6)

    def _skip(self, at: int, count: int) -> str:
        self._at = at + count
        return "?"


def _unit(raw: str, at: int) -> int | None:
    digits = raw[at + 2 : at + 6]
    if raw[at : at + 2] != "\\u" or len(digits) < 4:
        return None
    try:
        return int(digits, 16)
    except ValueError:
        return None
