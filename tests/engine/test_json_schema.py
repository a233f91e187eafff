"""Structured output: the same schemas hold on both backends, and what cannot be held to is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import smollm2
from warmline.backends.json_schema import MAX_BYTES, MAX_REPEAT, check_schema, grammar
from warmline.errors import BackendError

NAME = {"type": "string", "maxLength": 12}
SCHEMAS: dict[str, dict[str, Any]] = {
    "object": {
        "type": "object",
        "properties": {
            "name": NAME,
            "age": {"type": "integer"},
            "tags": {"type": "array", "items": NAME, "maxItems": 2},
        },
        "required": ["name", "age", "tags"],
        "additionalProperties": False,
    },
    "choice": {"enum": ["yes", "no", 3]},
    "array": {"type": "array", "items": {"type": "boolean"}, "minItems": 2, "maxItems": 3},
    "union": {
        "anyOf": [
            {"type": "object", "properties": {"path": NAME}, "required": ["path"]},
            {"type": "object", "properties": {"line": {"$ref": "#/$defs/line"}}, "required": ["line"]},
        ],
        "$defs": {"line": {"type": "integer"}},
    },
}
REFUSED = {
    "no json": "{",
    "a list": "[]",
    "asks for nothing": "{}",
    "number bounds": {"type": "integer", "minimum": 3},
    "pattern": {"type": "string", "pattern": "^a+$"},
    "all of": {"allOf": [{"type": "object"}]},
    "beside a reference": {"$ref": "#/$defs/a", "type": "string", "$defs": {"a": {"type": "string"}}},
    "another's reference": {"$ref": "https://example.com/schema.json"},
    "dangling": {"$ref": "#/$defs/nowhere"},
    "type": {"type": "text"},
    "repeats": {"type": "string", "maxLength": MAX_REPEAT + 1},
    "required": {"type": "object", "properties": {}, "required": ["x"]},
    "empty union": {"anyOf": []},
    "deep": json.dumps({"type": "string"}).replace('"string"', '{"a":' * 40 + "1" + "}" * 40),
    "long": " " * MAX_BYTES + "{}",
    "properties": {"type": "object", "properties": ["a"]},
    "items": {"type": "array", "items": [NAME]},
}


@pytest.mark.parametrize("schema", REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_held_to_is_refused(schema: object) -> None:
    with pytest.raises(BackendError) as caught:
        grammar(schema if isinstance(schema, str) else json.dumps(schema))
    assert caught.value.code == "backend.schema"
    assert caught.value.remedy


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS)
def test_what_can_be_held_to_is_taken(schema: dict[str, Any]) -> None:
    assert check_schema(json.dumps(schema)) == schema
    assert "root ::=" in grammar(json.dumps(schema))


@pytest.fixture(scope="module")
def bases(openvino_base: Path) -> Iterator[dict[str, Any]]:
    from openvino_variants import Engine, variant

    engine = Engine()
    yield {"engine": engine, "llama": variant(smollm2.base_path(), backend="llama"), "openvino": variant(openvino_base)}
    engine.close()


@pytest.mark.model
@pytest.mark.slow
@pytest.mark.parametrize("backend", ["llama", "openvino"])
def test_output_validates(bases: dict[str, Any], backend: str) -> None:
    for name, schema in SCHEMAS.items():
        heard = bases["engine"].chat(
            bases[backend], f"Answer in JSON: {name}.", json_schema=json.dumps(schema), max_tokens=90
        )
        done = heard.done
        assert done.outcome == "stop", (name, done.text)
        jsonschema.validate(json.loads(done.text), schema)
    heard = bases["engine"].chat(bases[backend], "x", json_schema='{"type": "integer", "minimum": 3}')
    with pytest.raises(BackendError) as caught:
        _ = heard.done
    assert caught.value.code == "backend.schema"


@pytest.mark.model
@pytest.mark.slow
@pytest.mark.parametrize("backend", ["llama", "openvino"])
def test_an_interruption_does_not_lose_the_place(bases: dict[str, Any], backend: str) -> None:
    asked = {"json_schema": json.dumps(SCHEMAS["object"]), "max_tokens": 90}
    engine, of = bases["engine"], bases[backend]
    whole = engine.chat(of, "Give me a person as JSON.", **asked).done.text
    heard = engine.chat(of, "Give me a person as JSON.", **asked)
    assert heard.first.wait(60)
    engine.complete(of, "def add(a, b):\n    return", max_tokens=2)
    assert not heard.over.is_set()
    assert heard.done.text == whole
