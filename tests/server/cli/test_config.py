"""`warmline config`: settings are typed, kept in one file, and used; a broken file is named, not guessed around."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from store_tools import filled
from warmline.errors import ConfigError
from warmline.settings import Settings, as_typed, default_variant, setting_names, usable_settings
from warmline_server.lsp.variants import NO_WORKSPACE, Nowhere, Place, Variants

Run = Callable[..., Any]


def test_defaults_are_listed_with_what_they_mean(warmline: Run, home: Path) -> None:
    values = warmline("config", "list", "--json").json
    assert values == Settings().by_name() | {"home": str(home)}
    text = warmline("config", "list").out
    for name, field in setting_names().items():
        assert name in text
        assert Settings.model_fields[field].description
    assert not (home / "config.json").exists()


def test_a_setting_is_set_read_and_unset(warmline: Run, home: Path) -> None:
    assert warmline("config", "set", "snapshot-ram-mib", "64", "--json").json == {"snapshot-ram-mib": 64}
    assert warmline("config", "get", "snapshot-ram-mib").out == "64\n"
    assert json.loads((home / "config.json").read_text()) == {"snapshot-ram-mib": 64}
    assert (home / "config.json").stat().st_mode & 0o777 == 0o600
    assert warmline("config", "unset", "snapshot-ram-mib").code == 0
    assert warmline("config", "get", "snapshot-ram-mib", "--json").json == {"snapshot-ram-mib": 512}
    assert json.loads((home / "config.json").read_text()) == {}


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["set", "nonsense", "1"], "config.unknown_field"),
        (["get", "nonsense"], "config.unknown_field"),
        (["set", "snapshot-ram-mib", "many"], "config.field"),
        (["set", "snapshot-ram-mib", "1.5"], "config.field"),
        (["set", "live-contexts", "0"], "config.field"),
        (["set", "metrics-port", "65536"], "config.field"),
        (["set", "log-prompts", "maybe"], "config.field"),
        (["set", "log-prompts", "1"], "config.field"),
        (["set", "default-variant", "gone"], "variant.unknown"),
        (["set", "default-variant", "../x"], "variant.unknown"),
    ],
    ids=" ".join,
)
def test_what_is_no_setting_or_no_value(warmline: Run, home: Path, arguments: list[str], code: str) -> None:
    done = warmline("config", *arguments, "--json")
    assert (done.code, done.json["error"]["code"]) == (1, code)
    assert done.json["error"]["remedy"]
    assert not (home / "config.json").exists()


def test_a_setting_that_is_on_or_off(warmline: Run, home: Path) -> None:
    assert warmline("config", "set", "log-prompts", "true", "--json").json == {"log-prompts": True}
    assert json.loads((home / "config.json").read_text()) == {"log-prompts": True}
    assert warmline("config", "get", "log-prompts").out == "true\n"
    assert warmline("config", "set", "log-prompts", "false").code == 0
    assert not usable_settings(home).log_prompts


def test_a_wrong_value_is_shown(warmline: Run) -> None:
    assert "'foo'" in warmline("config", "set", "engine-idle-seconds", "foo", "--json").json["error"]["message"]
    assert warmline("config", "set", "metrics-port").code == 2


@pytest.mark.parametrize("text", ["{", "[]", '{"nonsense": 1}', '{"live-contexts": "x"}'])
def test_a_broken_file_is_named_and_left_alone(warmline: Run, home: Path, text: str) -> None:
    (home / "config.json").write_text(text)
    for arguments in (["list"], ["get", "metrics-port"], ["set", "metrics-port", "1"]):
        error = warmline("config", *arguments, "--json").json["error"]
        assert error["code"].startswith("config.")
        assert error["file"] == str(home / "config.json")
    assert (home / "config.json").read_text() == text
    assert usable_settings(home) == Settings()  # the engine starts all the same
    checks = warmline("doctor", "--json").json["checks"]
    assert next(each["level"] for each in checks if each["check"] == "settings") == "fail"


def test_the_default_is_the_setting_else_the_variant_of_that_name(home: Path, tmp_path: Path) -> None:
    store = filled(home, tmp_path)
    assert default_variant(home) is None
    (home / "config.json").write_text('{"default-variant": "acme"}')
    assert default_variant(home) == "acme"
    (home / "config.json").unlink()
    store.add_variant(store.get_variant("acme").model_copy(update={"name": "default"}))
    assert default_variant(home) == "default"
    (home / "config.json").write_text('{"default-variant": "llama/acme"}')
    assert default_variant(home) == "llama/acme"


def test_the_command_line_uses_the_default_outside_a_workspace(warmline: Run, home: Path, tmp_path: Path) -> None:
    filled(home, tmp_path)
    assert warmline("status", "--json").json["error"]["code"] == "config.no_workspace"
    assert warmline("config", "set", "default-variant", "acme").code == 0
    assert warmline("status", "--json").json["variant"] == "acme"
    (home / "variants/llama/acme.json").unlink()
    error = warmline("status", "--json").json["error"]
    assert (error["code"], error["field"]) == ("variant.unknown", "default-variant")
    assert error["file"] == str(home / "config.json")
    checks = {row["check"]: row for row in warmline("doctor", "--json").json["checks"]}
    for remedy in (error["remedy"], checks["settings"]["remedy"]):
        assert "warmline config unset default-variant" in remedy
    assert warmline("config", "unset", "default-variant", "--json").json == {"default-variant": None}
    assert warmline("status", "--json").json["error"]["code"] == "config.no_workspace"


def test_the_language_server_uses_it_too(home: Path, tmp_path: Path) -> None:
    filled(home, tmp_path)
    uri = (tmp_path / "alone.py").as_uri()
    assert Variants(home).place(uri) == Nowhere(NO_WORKSPACE)
    (home / "config.json").write_text('{"default-variant": "acme"}')
    variants = Variants(home)
    place = variants.place(uri)
    assert isinstance(place, Place)
    assert (variants.selected_name(place), variants.resolve(place).name) == ("acme", "acme")
    (home / "config.json").write_text("{")
    broken = variants.place(uri)
    assert isinstance(broken, Place)
    with pytest.raises(ConfigError) as caught:
        variants.resolve(broken)
    assert caught.value.file == str(home / "config.json")


def test_a_store_called_like_a_workspaces_folder_is_none(warmline: Run, tmp_path: Path) -> None:
    code = tmp_path / "code"
    code.mkdir()
    environment = {"WARMLINE_HOME": str(tmp_path / ".warmline")}
    assert warmline("config", "set", "live-contexts", "2", environment=environment).code == 0
    error = warmline("status", "--json", cwd=code, environment=environment).json["error"]
    assert error["code"] == "config.no_workspace"


def test_the_readmes_table_is_that_of_the_settings(repo: Path) -> None:
    rows = ["| setting | default | meaning |", "|---|---|---|"]
    for name, field in setting_names().items():
        info = Settings.model_fields[field]
        default = "unset" if info.default is None else as_typed(info.default)
        rows.append(f"| `{name}` | {default} | {info.description} |")
    table = "\n".join(rows)
    assert table in (repo / "README.md").read_text("utf-8"), f"README.md needs:\n{table}"
