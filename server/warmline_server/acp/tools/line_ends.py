"""The form of a text file that a model does not see: carriage returns at its line ends, a byte order mark."""

from __future__ import annotations

from typing import Final

_MARK: Final = "\ufeff"


def with_line_ends_of(old: str, text: str) -> str:
    """Give a text the line ends of a file that has carriage returns at all of them; for another one, leave it."""
    count = old.count("\n")
    if not count or old.count("\r\n") != count:
        return text
    return with_carriage_returns(text)


def with_carriage_returns(text: str) -> str:
    """Give a text a carriage return at each line end."""
    return text.replace("\r\n", "\n").replace("\n", "\r\n")


def in_form_of(old: str, text: str) -> str:
    """Give a text that takes a file's place the line ends and the byte order mark that the file has."""
    mark = _MARK if old.startswith(_MARK) and not text.startswith(_MARK) else ""
    return mark + with_line_ends_of(old, text)
