"""Writes what follows from the settings model: the README's table and VS Code's `contributes.configuration`.

The latter is a file of its own, and the last part of the extension's `package.json`, which has settings of its own too.

`--check` only tells whether both are current.
"""

import json
import re
import sys
from pathlib import Path
from typing import Any

from warmline_server.lsp.settings import Setting, all_settings

REPO = Path(__file__).resolve().parents[1]
README = REPO / "README.md"
VSCODE = REPO / "editors" / "vscode" / "configuration.json"
MANIFEST = REPO / "editors" / "vscode" / "package.json"
TITLE = "Warmline"
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


def fragment() -> dict[str, Any]:
    """Make the fragment for an extension's package.json."""
    return {"title": TITLE, "properties": {setting.name: property_of(setting) for setting in all_settings()}}


def manifest(text: str) -> str:
    """Put the fragment into the extension's package.json, in place of the one that has its title."""
    package = json.loads(text)
    own = [each for each in package["contributes"]["configuration"] if each["title"] != TITLE]
    package["contributes"]["configuration"] = [*own, fragment()]
    return as_json(package)


def as_json(value: object) -> str:
    """Write JSON as it is kept here."""
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    made = {
        README: readme(README.read_text("utf-8")),
        VSCODE: as_json(fragment()),
        MANIFEST: manifest(MANIFEST.read_text("utf-8")),
    }
    if "--check" in sys.argv:
        sys.exit(any(not path.is_file() or path.read_text("utf-8") != text for path, text in made.items()))
    VSCODE.parent.mkdir(parents=True, exist_ok=True)
    for path, text in made.items():
        path.write_text(text, "utf-8")
