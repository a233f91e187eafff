"""Where a cursor stands in a JSON text that is being written, and so need not be JSON yet."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from .json_location import Span

# A string ends at its line's end at the latest, since its closing quote may not be typed yet.
_TOKEN: Final = re.compile(r'"(?:\\.|[^"\\\r\n])*"?|[{}\[\]:,]|[^\s{}\[\]:,"]+')
_MAX_DEPTH: Final = 64


@dataclass(frozen=True, slots=True)
class JsonCursor:
    """A place for a key or a value.

    Attributes
    ----------
    path
        Keys and indices that lead to the object or list around it, and for a value to the value itself.
    is_key
        Whether a key of an object stands here, else a value.
    span
        What is written of it so far, empty where nothing is.
    keys
        The other keys of the object around it.
    has_colon
        Whether a key's colon is there already.
    """

    path: tuple[str | int, ...]
    is_key: bool
    span: Span
    keys: frozenset[str]
    has_colon: bool = False


@dataclass(slots=True)
class _Frame:
    """An object or a list that is open, and how far it is."""

    is_object: bool
    keys: list[str] = field(default_factory=list)
    key: str = ""
    index: int = 0
    wants_key: bool = False
    filled: bool = False  # a key or a value stands here: only a colon or a comma may follow


def json_cursor(text: str, offset: int) -> JsonCursor | None:
    """Find out what stands at an offset (in code points); None outside of the outermost object or list."""
    stack: list[_Frame] = []
    tokens = list(_tokens(text))
    for number, span in enumerate(tokens):
        token = text[span.start : span.end]
        if span.start >= offset:
            return _empty(text, tokens[number:], stack, offset)
        if offset <= span.end and token[0] not in "{}[]:,":
            if token[0] == '"' and offset == span.end and len(token) > 1 and token.endswith('"'):
                return None  # behind a finished string nothing is to be written
            return _at(text, tokens[number + 1 :], stack, span)
        _step(stack, token)
        if len(stack) > _MAX_DEPTH:
            return None
    return _empty(text, [], stack, offset)


def _tokens(text: str) -> Iterator[Span]:
    return (Span(match.start(), match.end()) for match in _TOKEN.finditer(text))


def _step(stack: list[_Frame], token: str) -> None:
    top = stack[-1] if stack else None
    if token in ("{", "["):
        stack.append(_Frame(token == "{", wants_key=token == "{"))
    elif token in ("}", "]"):
        if stack:
            stack.pop()
        if stack:
            stack[-1].filled = True
    elif top is None:
        return
    elif token == ",":
        top.index += 1
        top.wants_key, top.filled = top.is_object, False
    elif token == ":":
        top.wants_key, top.filled = False, False
    else:
        top.filled = True
        if top.wants_key:
            top.key = _text(token)
            top.keys.append(top.key)


def _empty(text: str, following: list[Span], stack: list[_Frame], offset: int) -> JsonCursor | None:
    return _at(text, following, stack, Span(offset, offset))


def _at(text: str, following: list[Span], stack: list[_Frame], span: Span) -> JsonCursor | None:
    if not stack or stack[-1].filled:
        return None
    top = stack[-1]
    is_key = top.wants_key
    path: list[str | int] = [frame.key if frame.is_object else frame.index for frame in stack]
    if is_key:
        path.pop()
    after = text[following[0].start : following[0].end] if following else ""
    keys = _keys(text, following, stack, skip=is_key and span.end > span.start)
    return JsonCursor(tuple(path), is_key, span, frozenset(keys), is_key and after == ":")


def _keys(text: str, following: list[Span], stack: list[_Frame], *, skip: bool) -> set[str]:
    """Collect the keys of the innermost object, also those behind the cursor."""
    top = stack[-1]
    keys = set(top.keys)
    if skip:
        top.wants_key = False  # the key at the cursor is what is being written
    depth = len(stack)
    for span in following:
        _step(stack, text[span.start : span.end])
        if len(stack) < depth:
            break
        keys |= set(top.keys)
    return keys


def _text(token: str) -> str:
    try:
        value = json.loads(token)
    except ValueError:
        value = token.strip('"')
    return value if isinstance(value, str) else token
