"""Writes what follows from the settings model: the README's table and VS Code's `contributes.configuration`.

`--check` only tells whether both are current.
"""

import json
import re
import sys
from pathlib import Path

from warmline_server.lsp.settings import Setting, all_settings

REPO = Path(__file__).resolve().parents[1]
README = REPO / "README.md"
VSCODE = REPO / "editors" / "vscode" / "configuration.json"
BEGIN, END = "<!-- settings: made by docs/make_settings.py -->", "<!-- /settings -->"
# Of a field's schema, what VS Code's settings page takes.
KEPT = ("type", "default", "minimum", "maximum", "enum", "items")


def table() -> str:
    """Write the README's table."""
    rows = ["| setting | default | unit | meaning |", "|---|---|---|---|"]
    for setting in all_settings():
        default = json.dumps(setting.schema["default"])
        unit = setting.schema.get("unit", "")
        rows.append(f"| `{setting.name}` | `{default}` | {unit} | {setting.about} |")
    return "\n".join(rows)


def readme(text: str) -> str:
    """Put the table between its marks."""
    pattern = re.compile(f"{re.escape(BEGIN)}\n.*?{re.escape(END)}", re.DOTALL)
    if not pattern.search(text):
        sys.exit(f"{README.name} has no place for the table: {BEGIN} ... {END}")
    return pattern.sub(lambda _: f"{BEGIN}\n{table()}\n{END}", text)


def property_of(setting: Setting) -> dict[str, object]:
    """Describe a setting as VS Code does: the unit stands in the text, since it has no place of its own."""
    schema = setting.schema
    unit = f" ({schema['unit']})" if "unit" in schema else ""
    kept = {key: schema[key] for key in KEPT if key in schema}
    return {**kept, "markdownDescription": f"{setting.about}{unit}", "scope": "window"}


def vscode() -> str:
    """Write the fragment for an extension's package.json."""
    properties = {setting.name: property_of(setting) for setting in all_settings()}
    return json.dumps({"title": "Warmline", "properties": properties}, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    made = {README: readme(README.read_text("utf-8")), VSCODE: vscode()}
    if "--check" in sys.argv:
        sys.exit(any(not path.is_file() or path.read_text("utf-8") != text for path, text in made.items()))
    VSCODE.parent.mkdir(parents=True, exist_ok=True)
    for path, text in made.items():
        path.write_text(text, "utf-8")
