"""`warmline schema`: the JSON Schemas of the files that people write, and of what editors send and get."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from .options import Json
from .output import Output


class Kind(StrEnum):
    """The kinds of files, the settings in an editor, and the message `warmline/status`."""

    VARIANT = "variant"
    WORKSPACE = "workspace"
    ADAPTER = "adapter"
    MODEL = "model"
    CATALOG = "catalog"
    SETTINGS = "settings"
    SUITE = "suite"
    CERTIFICATE = "certificate"
    EDITOR_SETTINGS = "editor-settings"
    STATUS = "status"


def command(kind: Annotated[Kind, typer.Argument(help="Which file or message.")], as_json: Json = True) -> None:
    """Print the JSON Schema of a file or message, for editors and checkers."""
    from warmline.schemas import as_schema, json_schema

    if kind is Kind.EDITOR_SETTINGS:
        from warmline_server.lsp.settings import schema

        value = schema()
    elif kind is Kind.STATUS:
        from warmline_server.lsp.status import METHOD, StatusReport

        value = as_schema(f"warmline: the message {METHOD}", StatusReport.model_json_schema(mode="serialization"))
    else:
        value = json_schema(kind.value)
    Output(as_json).json(value)
