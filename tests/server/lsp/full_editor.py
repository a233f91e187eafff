"""An editor that can do all that the server asks of one: answers questions, shows progress, has settings."""

from __future__ import annotations

import asyncio
import json
import os
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

from editor import COMMAND, Editor
from lsprotocol import types


class FullEditor(Editor):
    """As `Editor`, and remembers what it was asked and shown."""

    OWN: ClassVar[frozenset[str]] = Editor.OWN | {types.WINDOW_WORK_DONE_PROGRESS_CREATE, types.PROGRESS}

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self.questions: list[types.ShowMessageRequestParams] = []
        self.answer: str | None = None
        self.reports: list[tuple[Any, Any]] = []
        self.created: list[Any] = []
        self.client.feature(types.WINDOW_SHOW_MESSAGE_REQUEST)(partial(self._asked))
        self.client.feature(types.WINDOW_WORK_DONE_PROGRESS_CREATE)(partial(self._create))
        self.client.feature(types.PROGRESS)(partial(self._progress))

    async def start(self, root: Path, encoding: str = "utf-16", **more: Any) -> types.InitializeResult:
        await self.client.start_io(*COMMAND, env={**os.environ, "WARMLINE_HOME": str(self.home)})
        folders = more.pop("folders", [root])
        return await self.client.initialize_session(
            types.InitializeParams(
                capabilities=capabilities(encoding),
                workspace_folders=[types.WorkspaceFolder(folder.as_uri(), folder.name) for folder in folders],
                **more,
            )
        )

    async def run(self, command: str, *arguments: Any, **more: Any) -> Any:
        """Run a command; objects in its result have attributes."""
        return as_objects(await self.running(command, *arguments, **more))

    def running(self, command: str, *arguments: Any, msg_id: str | None = None, work: Any = None) -> Any:
        """Run a command; give the future of its result."""
        params = types.ExecuteCommandParams(command, arguments=list(arguments), work_done_token=work)
        sent = self.client.protocol.send_request(types.WORKSPACE_EXECUTE_COMMAND, params, None, msg_id)
        return asyncio.wrap_future(sent)

    def said(self, token: Any) -> list[Any]:
        """Give the values of ``$/progress`` with a token."""
        return [value for each, value in self.reports if each == token]

    def _asked(self, params: types.ShowMessageRequestParams) -> types.MessageActionItem | None:
        self.questions.append(params)
        self._news.set()
        return types.MessageActionItem(self.answer) if self.answer else None

    def _create(self, params: types.WorkDoneProgressCreateParams) -> None:
        self.created.append(params.token)

    def _progress(self, params: types.ProgressParams) -> None:
        self.reports.append((params.token, as_objects(params.value)))
        self._news.set()


def as_objects(value: Any) -> Any:
    """Give JSON data with attributes in place of keys."""
    return json.loads(json.dumps(value), object_hook=lambda members: SimpleNamespace(**members))


def capabilities(encoding: str) -> types.ClientCapabilities:
    """Give all that a modern editor can do."""
    return types.ClientCapabilities(
        general=types.GeneralClientCapabilities(position_encodings=[types.PositionEncodingKind(encoding)]),
        window=types.WindowClientCapabilities(
            work_done_progress=True, show_document=types.ShowDocumentClientCapabilities(support=True)
        ),
        workspace=types.WorkspaceClientCapabilities(
            configuration=True,
            did_change_watched_files=types.DidChangeWatchedFilesClientCapabilities(dynamic_registration=True),
            workspace_edit=types.WorkspaceEditClientCapabilities(
                document_changes=True, change_annotation_support=types.ChangeAnnotationsSupportOptions()
            ),
        ),
        text_document=types.TextDocumentClientCapabilities(
            hover=types.HoverClientCapabilities(content_format=[types.MarkupKind.Markdown]),
            completion=types.CompletionClientCapabilities(
                completion_item=types.ClientCompletionItemOptions(
                    label_details_support=True, documentation_format=[types.MarkupKind.PlainText]
                )
            ),
            document_link=types.DocumentLinkClientCapabilities(tooltip_support=True),
            code_action=types.CodeActionClientCapabilities(
                code_action_literal_support=types.ClientCodeActionLiteralOptions(
                    types.ClientCodeActionKindOptions([types.CodeActionKind.QuickFix])
                ),
                resolve_support=types.ClientCodeActionResolveOptions(["edit"]),
            ),
        ),
    )
