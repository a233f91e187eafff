"""Parses JSON from an untrusted file: nesting and size are bounded before the parser starts, keys must be unique.

The standard parser builds what it is told to build. Ten thousand open brackets end in a RecursionError, and three bytes
(``[],``) become more than sixty of memory, so brackets are counted first, without building anything.
"""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

# A string (the last one may lack its end), or a bracket outside of strings.
_TOKENS = re.compile(rb'"[^"]*"?|([\[\]{}])')
# 64 bits take 20 digits; a file has no use for longer ones, and long ones are slow to convert.
MAX_DIGITS = 20


class BadJSON(ValueError):
    """What is wrong with the text; ``key`` is the field that is at fault, where one is known."""

    def __init__(self, rule: str, message: str, key: str | None = None) -> None:
        super().__init__(message)
        self.rule, self.message, self.key = rule, message, key


def parse_object(raw: bytes, *, max_depth: int, max_containers: int, floats: bool) -> dict[str, Any]:
    """Parse one JSON object.

    Parameters
    ----------
    raw
        The text in UTF-8, already read within a limit of the caller's.
    max_depth, max_containers
        How deep objects and arrays may nest, and how many there may be.
    floats
        Whether numbers with a fraction or an exponent may occur; NaN and infinities may not in any case.

    Raises
    ------
    BadJSON
        ``rule`` is ``json``, ``depth``, ``count``, ``number`` or ``duplicate_key``. Nothing else is raised.
    """
    _check_nesting(raw, max_depth, max_containers)
    try:
        value = json.loads(
            raw.decode("utf-8"),
            object_pairs_hook=_unique,
            parse_int=_integer,
            parse_float=float if floats else _no_number,
            parse_constant=_no_number,
        )
    except BadJSON:
        raise
    except UnicodeDecodeError as error:
        raise BadJSON("json", "the text is not valid UTF-8") from error
    except json.JSONDecodeError as error:
        raise BadJSON("json", f"this is not JSON: {error.msg} at character {error.pos}") from error
    except RecursionError as error:  # the limit above is lower; a caller deep in its own stack may still come here
        raise BadJSON("depth", "the JSON is nested too deeply") from error
    if not isinstance(value, dict):
        raise BadJSON("json", "the JSON is not an object")
    return value


def is_text(value: str) -> bool:
    """Tell whether a string can be written as UTF-8; JSON can spell halves of characters that no encoding holds."""
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _check_nesting(raw: bytes, max_depth: int, max_containers: int) -> None:
    # A backslash escapes the byte after it, so pairs go first, then the escaped quotes: what is left toggles strings.
    # Where the text is no JSON this may differ from the parser's view, but only after the place where that stops.
    depth = count = 0
    for token in _TOKENS.finditer(raw.replace(b"\\\\", b"").replace(b'\\"', b"")):
        bracket = token[1]
        if bracket is None:
            continue
        opens = bracket in b"[{"
        depth += 1 if opens else -1
        count += opens
        if depth > max_depth:
            raise BadJSON("depth", f"the JSON is nested more than {max_depth} deep")
        if count > max_containers:
            raise BadJSON("count", f"the JSON holds more than {max_containers} objects and arrays")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise BadJSON("duplicate_key", "the key is there twice", key)
        found[key] = value
    return found


def _integer(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise BadJSON("number", f"a number of {len(text)} digits")
    if text == "-0":
        # To readers that know signed zeros this is a fraction, and no whole number.
        raise BadJSON("number", "the number -0 cannot be used here")
    return int(text)


def _no_number(text: str) -> NoReturn:
    raise BadJSON("number", f"the number {text[:MAX_DIGITS]} cannot be used here")
