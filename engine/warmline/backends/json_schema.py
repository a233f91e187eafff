"""Which JSON schemas both libraries hold their output to: what either would pass over in silence is refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from ..artifacts.bounded_json import BadJSON, parse_object
from ..errors import BackendError

MAX_BYTES: Final = 64 << 10
MAX_DEPTH, MAX_CONTAINERS = 32, 4096
# A grammar writes repetitions out.
MAX_REPEAT: Final = 1000
_REPEATS: Final = ("minItems", "maxItems", "minLength", "maxLength")
_WORDS: Final = frozenset({"title", "description", "default", "examples", "$schema", "$id", "$defs", "definitions"})
_HELD: Final = frozenset(
    {
        *("type", "properties", "required", "additionalProperties", "items", "enum", "const", "anyOf", "oneOf", "$ref"),
        *_REPEATS,
    }
)
# llama.cpp's converter takes the first of these and leaves out what stands beside it.
_ALONE: Final = ("$ref", "anyOf", "oneOf", "const", "enum")
_TYPES: Final = frozenset({"object", "array", "string", "integer", "number", "boolean", "null"})


def check_schema(text: str) -> dict[str, Any]:
    """Parse a JSON schema and check that output can be held to all of it.

    ``oneOf`` is held to as ``anyOf``: alternatives are taken to exclude each other.

    Raises
    ------
    BackendError
        ``backend.schema``, with the place in `field`.
    """
    raw = text.encode("utf-8", "replace")
    if len(raw) > MAX_BYTES:
        raise refused(f"the schema has {len(raw)} bytes, the limit is {MAX_BYTES}", "")
    try:
        schema = parse_object(raw, max_depth=MAX_DEPTH, max_containers=MAX_CONTAINERS, floats=True)
    except BadJSON as error:
        raise refused(error.message, error.key or "") from None
    if not schema.keys() & _HELD:
        raise refused("the schema asks for nothing", "")
    for place, part in _parts(schema, ""):
        _check_part(part, place)
    return schema


def grammar(json_schema: str) -> str:
    """Write a JSON schema as a grammar in GBNF, which both libraries read; raises as `check_schema`."""
    from llama_cpp.llama_grammar import json_schema_to_gbnf

    check_schema(json_schema)
    try:
        rules: str = json_schema_to_gbnf(json_schema)
    except (AssertionError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise refused(f"{type(error).__name__}: {error}"[:300]) from None
    return rules


def _parts(schema: Any, place: str) -> Iterator[tuple[str, dict[str, Any]]]:
    if not isinstance(schema, dict):
        raise refused("a schema has to be an object", place)
    yield place, schema
    for key in ("properties", "$defs", "definitions"):
        found = schema.get(key, {})
        if not isinstance(found, dict):
            raise refused(f"`{key}` has to be an object", place)
        for name, inner in found.items():
            yield from _parts(inner, f"{place}/{key}/{name}")
    for key in ("anyOf", "oneOf"):
        found = schema.get(key, [])
        if not isinstance(found, list) or (key in schema and not found):
            raise refused(f"`{key}` has to be a list with something in it", place)
        for number, inner in enumerate(found):
            yield from _parts(inner, f"{place}/{key}/{number}")
    if "items" in schema:
        yield from _parts(schema["items"], f"{place}/items")
    if isinstance(schema.get("additionalProperties", False), dict):
        yield from _parts(schema["additionalProperties"], f"{place}/additionalProperties")


def _check_part(part: dict[str, Any], place: str) -> None:
    unknown = sorted(part.keys() - _HELD - _WORDS)
    if unknown:
        raise refused(f"output cannot be held to `{unknown[0][:40]}`", place)
    first = next((key for key in _ALONE if key in part), None)
    beside = sorted(part.keys() - _WORDS - {first, "type" if first in ("const", "enum") else first})
    if first is not None and beside:
        raise refused(f"output cannot be held to `{beside[0]}` beside `{first}`", place)
    if first is None:
        kinds = part.get("type", "object" if "properties" in part else "array" if "items" in part else None)
        if not {*kinds} <= _TYPES if isinstance(kinds, list) else kinds not in _TYPES:
            raise refused("the type is none of JSON's", place)
        if isinstance(kinds, list) and part.keys() - _WORDS - {"type"}:
            raise refused("output cannot be held to more than the types where there are several", place)
    if not isinstance(part.get("enum", [0]), list) or not part.get("enum", [0]):
        raise refused("`enum` has to be a list with something in it", place)
    reference = part.get("$ref", "#")
    if not isinstance(reference, str) or not reference.startswith("#"):
        raise refused("only references inside of the schema are followed", place)
    for key in _REPEATS:
        count = part.get(key, 0)
        if not isinstance(count, int) or isinstance(count, bool) or not 0 <= count <= MAX_REPEAT:
            raise refused(f"`{key}` has to be a number from 0 to {MAX_REPEAT}", place)
    required = part.get("required", [])
    if not isinstance(required, list) or not all(name in part.get("properties", {}) for name in required):
        raise refused("`required` has to be a list of names that are in `properties`", place)


def refused(message: str, place: str = "") -> BackendError:
    """The error for a schema that cannot be held to; `place` is a path inside of it."""
    return BackendError(
        f"the JSON schema cannot be used: {message}",
        code="backend.schema",
        field=f"json_schema{place[:200]}",
        remedy="Write it with types, properties, items, enums and bounds of lengths alone",
    )
