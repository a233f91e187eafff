"""Where a field like ``adapters[0].scale`` stands in a JSON text."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Final

_SPACE: Final = re.compile(r"[ \t\r\n]*")
_INDEX: Final = re.compile(r"\[(\d{1,9})\]")
_MAX_DEPTH: Final = 64
_MAX_NODES: Final = 20_000


@dataclass(frozen=True, slots=True)
class Span:
    """Offsets ``[start, end)`` in code points."""

    start: int
    end: int


@dataclass(slots=True)
class Node:
    """A JSON value: its span, the span of the key it has in an object, and what is in it."""

    key: Span | None
    value: Span
    members: list[tuple[str, Node]] = field(default_factory=list)
    items: list[Node] = field(default_factory=list)

    @property
    def label(self) -> Span:
        """What stands for the whole: the key, else the value's first character."""
        return self.key or Span(self.value.start, min(self.value.start + 1, self.value.end))


def locate(text: str, path: str) -> Span | None:
    """Find a field.

    Returns
    -------
    Span or None
        The value's span for a scalar, the key's for an object or a list. When the field itself isn't there, the
        nearest thing around it that is. None when the text isn't JSON.
    """
    node = _parse(text)
    if node is None:
        return None
    found, rest = _walk(node, path)
    return found.label if rest or found.members or found.items else found.value


def locate_key(text: str, path: str) -> Span | None:
    """Find a field's key; otherwise as `locate`."""
    node = _parse(text)
    return None if node is None else _walk(node, path)[0].label


def node_at(text: str, path: str) -> Node | None:
    """Find the node of a field; None when it isn't there, or the text isn't JSON."""
    node = _parse(text)
    if node is None:
        return None
    found, rest = _walk(node, path)
    return None if rest else found


def locate_duplicate(text: str, key: str) -> Span | None:
    """Find the second of two equal keys in one object."""
    root = _parse(text)
    pending = [root] if root else []
    while pending:
        node = pending.pop(0)
        same = [child for name, child in node.members if name == key]
        if len(same) > 1:
            return same[1].label
        pending += [child for _, child in node.members] + node.items
    return None


def syntax_error(text: str) -> Span | None:
    """Find where a text stops being JSON; None when it is JSON."""
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        at = min(error.pos, max(len(text) - 1, 0))
        return Span(at, min(at + 1, len(text)))
    except (RecursionError, ValueError):
        return Span(0, min(1, len(text)))
    return None


def _walk(node: Node, path: str) -> tuple[Node, str]:
    """Go as far along `path` as the tree does; give the last node and what of the path is left."""
    while path:
        index = _INDEX.match(path)
        if index:
            if int(index[1]) >= len(node.items):
                return node, path
            node, path = node.items[int(index[1])], path[index.end() :]
        else:
            path = path.removeprefix(".")
            # Adapter names may hold dots, so a key is what the object has, not what stands before the next dot.
            fits = [(len(name), child) for name, child in node.members if _begins(path, name)]
            if not fits:
                return node, path
            length, node = max(fits, key=lambda fit: fit[0])
            path = path[length:]
    return node, path


def _begins(path: str, name: str) -> bool:
    return path.startswith(name) and (len(path) == len(name) or path[len(name)] in ".[")


class _NotJsonError(Exception):
    pass


def _parse(text: str) -> Node | None:
    try:
        return _Reader(text).document()
    except (_NotJsonError, ValueError, RecursionError):
        return None


class _Reader:
    """A JSON reader that keeps places; the scalars are left to the standard decoder."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._nodes = 0
        self._decoder = json.JSONDecoder()

    def document(self) -> Node:
        return self._value(None, 0)

    def _value(self, key: Span | None, depth: int) -> Node:
        self._nodes += 1
        if depth > _MAX_DEPTH or self._nodes > _MAX_NODES:
            raise _NotJsonError
        start = self._skip()
        node = Node(key, Span(start, start))
        if self._take("{"):
            while not self._closed("}", bool(node.members)):
                name, span = self._scalar()
                if not isinstance(name, str):
                    raise _NotJsonError
                self._expect(":")
                node.members.append((name, self._value(span, depth + 1)))
        elif self._take("["):
            while not self._closed("]", bool(node.items)):
                node.items.append(self._value(None, depth + 1))
        else:
            self._scalar()
        node.value = Span(start, self._at)
        return node

    def _scalar(self) -> tuple[object, Span]:
        start = self._skip()
        value, self._at = self._decoder.raw_decode(self._text, start)
        return value, Span(start, self._at)

    def _closed(self, closing: str, started: bool) -> bool:
        """Tell whether the container ends here; between two members take the comma."""
        self._skip()
        if self._take(closing):
            return True
        if started:
            self._expect(",")
        return False

    def _expect(self, mark: str) -> None:
        self._skip()
        if not self._take(mark):
            raise _NotJsonError

    def _take(self, mark: str) -> bool:
        if self._text.startswith(mark, self._at):
            self._at += 1
            return True
        return False

    def _skip(self) -> int:
        space = _SPACE.match(self._text, self._at)
        self._at = space.end() if space else self._at
        return self._at
