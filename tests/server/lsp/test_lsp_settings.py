"""Settings: one model; what is wrong costs only itself and is told once; what is made of them is current."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted import Memory
from warmline_server.lsp.configuration import Configuration
from warmline_server.lsp.settings import EditorSettings, all_settings, camel, read_settings, schema
from warmline_server.suggest.settings import SuggestSettings


def test_names_may_be_written_as_editors_or_as_we_do() -> None:
    for raw in ({"chat": {"maxTokens": 7}}, {"chat": {"max_tokens": 7}}, {"warmline": {"chat": {"maxTokens": 7}}}):
        settings, problems = read_settings(raw)
        assert (settings.chat.max_tokens, problems) == (7, [])


@pytest.mark.parametrize(
    ("raw", "field", "code"),
    [
        ({"chat": {"maxTokens": 0}}, "warmline.chat.maxTokens", "config.field"),
        ({"chat": {"maxTokens": "many"}}, "warmline.chat.maxTokens", "config.field"),
        ({"chat": {"maxTokns": 3}}, "warmline.chat.maxTokns", "config.unknown_field"),
        ({"chat": 3}, "warmline.chat", "config.field"),
        ({"chatt": {}}, "warmline.chatt", "config.unknown_field"),
        ({"suggest": {"disabledPaths": ["a", 3]}}, "warmline.suggest.disabledPaths.1", "config.field"),
        ([], "warmline", "config.field"),
    ],
)
def test_what_is_wrong_costs_only_itself(raw: Any, field: str, code: str) -> None:
    good = {"codeLens": {"enabled": False}}
    settings, [problem] = read_settings({**raw, **good} if isinstance(raw, dict) else raw)
    assert str(problem.field).startswith(field)
    assert problem.code == code
    assert problem.remedy
    assert settings.chat == EditorSettings().chat
    assert settings.code_lens.enabled is not isinstance(raw, dict)


def test_the_nearest_name_is_offered_and_the_extensions_own_settings_are_left_alone() -> None:
    _, [problem] = read_settings({"chat": {"maxTokns": 3}})
    assert problem.remedy == "Did you mean `maxTokens`?"
    assert read_settings({"trace": {"server": "verbose"}, "server": {"path": "x"}}) == (EditorSettings(), [])


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(st.sampled_from(["chat", "maxTokens", "suggest", "stats", "enabled", "x"]), inner)
        ),
    )
)
def test_anything_gives_settings(raw: Any) -> None:
    settings, problems = read_settings(raw)
    assert isinstance(settings, EditorSettings)
    assert all(problem.field and problem.remedy for problem in problems)


def test_a_problem_is_told_once_until_it_was_mended() -> None:
    memory = Memory()
    configuration = Configuration(memory)
    for _ in range(3):
        configuration.take({"chat": {"maxTokens": 0}})
    assert len(memory.messages) == 1
    assert "warmline.chat.maxTokens" in memory.messages[0]
    configuration.take({})
    configuration.take({"chat": {"maxTokens": 0}})
    assert len(memory.messages) == 2


def test_every_number_has_a_unit_and_a_reason() -> None:
    settings = list(all_settings())
    assert len({setting.name for setting in settings}) == len(settings) > 10
    for setting in settings:
        assert setting.schema["description"].endswith("."), setting.name
        if setting.schema.get("type") in ("integer", "number"):
            assert setting.schema["unit"] and setting.schema["reason"], setting.name
            assert "minimum" in setting.schema and "maximum" in setting.schema, setting.name


def test_the_schema_takes_what_the_model_takes() -> None:
    found = schema()
    jsonschema.Draft202012Validator.check_schema(found)
    validator = jsonschema.Draft202012Validator(found)
    defaults: dict[str, Any] = {}
    for setting in all_settings():
        _, group, name = setting.name.split(".")
        defaults.setdefault(group, {})[name] = setting.schema["default"]
    assert validator.is_valid(defaults)
    assert read_settings(defaults) == (EditorSettings(), [])
    for bad in ({"chat": {"maxTokens": 0}}, {"chat": {"max": 1}}, {"x": 1}):
        assert not validator.is_valid(bad)
    assert camel("max_debounce_ms") == "maxDebounceMs"


def test_the_readme_and_the_page_of_vscode_are_current(repo: Path) -> None:
    script = repo / "docs" / "make_settings.py"
    done = subprocess.run([sys.executable, str(script), "--check"], check=False)
    assert done.returncode == 0, "run docs/make_settings.py"


@pytest.mark.parametrize(
    ("value", "kept", "wrong"),
    [
        (["*.tok", 5], ("*.tok",), ["1"]),
        ([None, "*.tok", {"glob": "*.sec"}, "vault/**"], ("*.tok", "vault/**"), ["0", "2"]),
        ("*.tok", ("*.tok",), []),
        ([], (), []),
        ({}, (), []),  # an empty list, as Lua writes it
        (None, (), []),
    ],
)
@pytest.mark.parametrize("name", ["secretPaths", "disabledPaths", "disabledLanguages", "enabledPaths"])
def test_of_a_list_what_can_be_used_is(name: str, value: Any, kept: tuple[str, ...], wrong: list[str]) -> None:
    settings, problems = read_settings({"suggest": {name: value, "candidates": 2}})
    assert {camel(field): value for field, value in settings.suggest}[name] == kept
    assert settings.suggest.candidates == 2
    assert [problem.field for problem in problems] == [f"warmline.suggest.{name}.{place}" for place in wrong]


@pytest.mark.parametrize("value", [5, True, {"*.tok": True}, [5], [["*.tok"]], [None, {}]])
@pytest.mark.parametrize("name", ["secretPaths", "disabledPaths", "disabledLanguages"])
def test_a_list_that_keeps_files_back_keeps_all_while_it_cannot_be_read(name: str, value: Any) -> None:
    settings, problems = read_settings({"suggest": {name: value}})
    everything = {camel(field): value for field, value in SuggestSettings.KEEPING_ALL_BACK.items()}
    assert {camel(field): value for field, value in settings.suggest}[name] == everything[name]
    assert all(str(problem.field).startswith(f"warmline.suggest.{name}") for problem in problems)
    assert "until then it keeps all files back" in problems[0].remedy


def test_exceptions_and_numbers_that_cannot_be_read_have_their_defaults() -> None:
    settings, problems = read_settings({"suggest": {"enabledPaths": 5, "candidates": 99, "skipGitignored": "perhaps"}})
    assert settings.suggest == SuggestSettings(skip_gitignored=True)
    assert len(problems) == 3
