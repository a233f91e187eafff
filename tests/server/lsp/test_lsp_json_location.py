"""Field paths to places in JSON text."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from warmline.variant import field_path
from warmline_server.lsp.json_location import Span, locate, locate_duplicate, locate_key, syntax_error

VARIANT = """{
  "name": "acme",
  "base": {"path": "b.gguf"},
  "adapters": [
    {"name": "one", "path": "a.gguf"},
    {"name": "two", "path": "c.gguf", "scale": 9.5, "sclae": [1]}
  ]
}"""


def at(text: str, span: Span | None) -> str:
    assert span is not None
    return text[span.start : span.end]


@pytest.mark.parametrize(
    ("field", "marked"),
    [
        ("name", '"acme"'),
        ("base.path", '"b.gguf"'),
        ("adapters[1].scale", "9.5"),
        ("adapters[0].path", '"a.gguf"'),
        ("adapters[1].sclae", '"sclae"'),  # a list: its key stands for it
        ("base", '"base"'),
        ("base.digest", '"base"'),  # not there: the object that lacks it
        ("adapters[7].path", '"adapters"'),
        ("profile.n_ctx", "{"),
        ("", "{"),
    ],
)
def test_fields_of_a_variant_file(field: str, marked: str) -> None:
    assert at(VARIANT, locate(VARIANT, field)) == marked


def test_an_unknown_field_is_marked_by_its_key() -> None:
    assert at(VARIANT, locate_key(VARIANT, "adapters[1].scale")) == '"scale"'


def test_keys_with_dots_in_them() -> None:
    text = '{"overrides": {"scales": {"a": 1, "a.b": 2, "a.b.c[0]": 3}}}'
    assert at(text, locate(text, "overrides.scales.a.b")) == "2"
    assert at(text, locate(text, "overrides.scales.a.b.c[0]")) == "3"
    assert at(text, locate(text, "overrides.scales.a")) == "1"


def test_the_second_of_two_equal_keys() -> None:
    text = '{"a": {"x": 1, "y": 2, "x": 3}}'
    span = locate_duplicate(text, "x")
    assert span is not None
    assert (at(text, span), span.start) == ('"x"', text.rindex('"x"'))
    assert locate_duplicate(text, "y") is None


def test_where_json_ends_being_json() -> None:
    assert at('{"a": }', syntax_error('{"a": }')) == "}"
    assert syntax_error("{}") is None
    assert syntax_error("") == Span(0, 0)


@pytest.mark.parametrize("text", ["", "{", "[1,", '{"a" 1}', "{1: 2}", "[" * 5000, "[" * 5000 + "]" * 5000])
def test_what_is_no_json_has_no_places(text: str) -> None:
    assert locate(text, "a.b[0]") is None


NAMES = st.text(st.characters(codec="utf-8", exclude_characters=".[]"), min_size=1, max_size=6)
TREES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=20,
)


def leaves(value: Any, path: tuple[int | str, ...] = ()) -> list[tuple[tuple[int | str, ...], Any]]:
    if isinstance(value, dict):
        return [leaf for name, inner in value.items() for leaf in leaves(inner, (*path, name))]
    if isinstance(value, list):
        return [leaf for index, inner in enumerate(value) for leaf in leaves(inner, (*path, index))]
    return [(path, value)]


@given(st.dictionaries(NAMES, TREES, min_size=1, max_size=4), st.sampled_from([None, 1, 4]), st.booleans())
def test_the_text_at_a_fields_place_is_the_fields_value(tree: dict[str, Any], indent: int | None, ascii: bool) -> None:
    text = json.dumps(tree, indent=indent, ensure_ascii=ascii)
    for path, value in leaves(tree):
        assert json.loads(at(text, locate(text, field_path(path)))) == value


@given(st.text(st.sampled_from('{}[]":,.1aé\n \\'), max_size=40), st.text(max_size=10))
def test_no_text_and_no_path_raises(text: str, path: str) -> None:
    for span in (locate(text, path), locate_key(text, path), locate_duplicate(text, path), syntax_error(text)):
        assert span is None or 0 <= span.start <= span.end <= len(text)
