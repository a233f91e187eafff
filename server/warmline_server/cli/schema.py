"""`warmline schema`: the JSON Schemas of the files that people write."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from .options import Json
from .output import Output


class Kind(StrEnum):
    """The kinds of files."""

    VARIANT = "variant"
    WORKSPACE = "workspace"
    ADAPTER = "adapter"
    MODEL = "model"
    CATALOG = "catalog"
    SETTINGS = "settings"


def command(kind: Annotated[Kind, typer.Argument(help="Which file.")], as_json: Json = True) -> None:
    """Print the JSON Schema of a file, for editors and checkers."""
    from warmline.schemas import json_schema

    Output(as_json).json(json_schema(kind.value))
