"""Values between the two processes of the sandbox: plain data, as JSON, and nothing that acts when it is read."""

from __future__ import annotations

from typing import Any, Final

_MOST: Final = 100_000
_DEPTH: Final = 60
_SEQUENCES: Final[dict[str, type]] = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}


class NotPlainError(Exception):
    """A value is no plain data, or too much of it."""


def encode(value: Any) -> Any:
    """Write a value as JSON data: None, booleans, numbers, texts, bytes, and lists, tuples, sets and dicts of these.

    By exact type: a subclass may compare as it likes, so it is refused like everything else.
    """
    return _encoded(value, [0], 0)


def decode(data: Any) -> Any:
    """Read what `encode` wrote; raises `NotPlainError` for anything else."""
    try:
        return _decoded(data, [0], 0)
    except (TypeError, ValueError, KeyError, OverflowError) as error:
        raise NotPlainError(str(error)) from None


def _count(seen: list[int], depth: int) -> None:
    seen[0] += 1
    if seen[0] > _MOST or depth > _DEPTH:
        raise NotPlainError("the value is too large")


def _encoded(value: Any, seen: list[int], depth: int) -> Any:
    _count(seen, depth)
    kind = type(value)
    if value is None or kind is bool or kind is str:
        return value
    if kind is int:
        return {"int": hex(value)}
    if kind is float:
        return {"float": value.hex()}
    if kind is complex:
        return {"complex": [value.real.hex(), value.imag.hex()]}
    if kind is bytes:
        return {"bytes": value.hex()}
    for name, sequence in _SEQUENCES.items():
        if kind is sequence:
            return {name: [_encoded(each, seen, depth + 1) for each in value]}
    if kind is dict:
        pairs = value.items()
        return {"dict": [[_encoded(key, seen, depth + 1), _encoded(each, seen, depth + 1)] for key, each in pairs]}
    raise NotPlainError(f"the value is a {kind.__name__[:40]}, not plain data")


def _decoded(data: Any, seen: list[int], depth: int) -> Any:
    _count(seen, depth)
    if data is None or isinstance(data, bool | str):
        return data
    if not isinstance(data, dict) or len(data) != 1:
        raise NotPlainError("it is no value")
    ((name, inner),) = data.items()
    if name == "int":
        return int(inner, 16)
    if name == "float":
        return float.fromhex(inner)
    if name == "complex":
        return complex(float.fromhex(inner[0]), float.fromhex(inner[1]))
    if name == "bytes":
        return bytes.fromhex(inner)
    if name == "dict":
        return {_decoded(key, seen, depth + 1): _decoded(each, seen, depth + 1) for key, each in inner}
    if not isinstance(inner, list):
        raise NotPlainError("it is no value")
    return _SEQUENCES[name](_decoded(each, seen, depth + 1) for each in inner)
