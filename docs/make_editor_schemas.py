"""Writes the JSON Schemas that the VS Code extension ships for the files of a workspace, from the server's models.

`--check` only tells whether they are current.
"""

import json
import sys
from pathlib import Path

from warmline.schemas import json_schema

FOLDER = Path(__file__).resolve().parents[1] / "editors" / "vscode" / "schemas"
KINDS = ("workspace", "variant")


def schema(kind: str) -> str:
    """Write one; VS Code knows draft 7 best, and nothing in it depends on a later one."""
    made = json_schema(kind) | {"$schema": "http://json-schema.org/draft-07/schema#"}
    return json.dumps(made, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    made = {FOLDER / f"{kind}.schema.json": schema(kind) for kind in KINDS}
    if "--check" in sys.argv:
        sys.exit(any(not path.is_file() or path.read_text("utf-8") != text for path, text in made.items()))
    FOLDER.mkdir(parents=True, exist_ok=True)
    for path, text in made.items():
        path.write_text(text, "utf-8")
