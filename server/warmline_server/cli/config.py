"""`warmline config`: what a person sets once, for all workspaces."""

from __future__ import annotations

from typing import Annotated

import typer

from .options import Json, setting_names, variant_names
from .output import Output, cell

app = typer.Typer(help="Settings for all workspaces: the default variant, paths, budgets.")
_Key = Annotated[str, typer.Argument(metavar="SETTING", help="Its name.", autocompletion=setting_names)]


@app.callback()
def group() -> None:
    """Settings for all workspaces: the default variant, paths, budgets."""


def _values(context: typer.Context, incomplete: str) -> list[str]:
    return variant_names(incomplete) if context.params.get("key") == "default-variant" else []


@app.command("list")
def list_settings(as_json: Json = False) -> None:
    """List all settings, with what they mean."""
    from warmline.registry import warmline_home
    from warmline.settings import Settings, as_typed, load_settings, setting_names

    from . import tables

    output = Output(as_json)
    settings = load_settings(warmline_home())
    if as_json:
        output.json(settings.by_name() | {"home": str(warmline_home())})
        return
    rows: list[list[tables.Cell]] = []
    for name, field in setting_names().items():
        value = getattr(settings, field)
        shown = "unset" if value is None else as_typed(value)
        style = "bold" if field in settings.model_fields_set else "dim"
        rows.append([name, (shown, style), Settings.model_fields[field].description or ""])
    tables.rows(output, ("setting", "value", "meaning"), rows)
    output.note(cell(f"Store: {warmline_home()} (WARMLINE_HOME)", "dim"))


@app.command("get")
def get(key: _Key, as_json: Json = False) -> None:
    """Print one setting; nothing where it is unset."""
    from warmline.errors import ConfigError
    from warmline.registry import warmline_home
    from warmline.settings import as_typed, load_settings, settings_file

    output = Output(as_json)
    values = load_settings(warmline_home()).by_name()
    if key not in values:
        raise ConfigError(
            f"there is no setting called `{key[:80]}`",
            code="config.unknown_field",
            file=str(settings_file(warmline_home())),
            field=key[:80],
            remedy=f"Settings: {', '.join(values)}",
        )
    if as_json:
        output.json({key: values[key]})
    elif values[key] is not None:
        output.text(as_typed(values[key]))


@app.command("set")
def set_value(
    key: _Key,
    value: Annotated[str, typer.Argument(help="What it becomes.", autocompletion=_values)],
    as_json: Json = False,
) -> None:
    """Change one setting; the engine reads its own when it starts."""
    from warmline.registry import Store, warmline_home

    if key == "default-variant":
        Store(warmline_home()).find(value)  # a name that is nobody's is refused now, not at the next keystroke
    _change(Output(as_json), key, value)


@app.command("unset")
def unset(key: _Key, as_json: Json = False) -> None:
    """Put one setting back to its default."""
    _change(Output(as_json), key, None)


def _change(output: Output, key: str, value: str | None) -> None:
    from warmline.registry import warmline_home
    from warmline.settings import as_typed, change_setting

    now = change_setting(warmline_home(), key, value).by_name()[key]
    if output.as_json:
        output.json({key: now})
        return
    back = "" if now is None else f", back to {as_typed(now)}"
    output.note(cell(f"{key} is {as_typed(now)}" if value is not None else f"{key} is unset{back}"))
    if key not in ("default-variant", "download-path"):
        output.note(cell("A running engine goes on as it is: warmline engine stop", "dim"))
