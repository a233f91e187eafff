"""An editor for end-to-end tests: pytest-lsp's client on a real `warmline lsp`, over its real stdio."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pytest_lsp
from lsprotocol import types
from pygls.protocol import default_converter
from pytest_lsp.client import DEFAULT_CLIENT_FEATURES

ONE_ANSWER = {"suggest": {"candidates": 1, "speculate": False}}
COMMAND = [sys.executable, "-m", "warmline_server", "lsp"]


class Editor:
    """Opens documents, types, asks, and waits for what the server sends (never for time to pass)."""

    #: What it does otherwise than pytest-lsp's client.
    OWN: ClassVar[frozenset[str]] = frozenset({types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS})

    def __init__(self, home: Path) -> None:
        self.home = home
        self.client = pytest_lsp.LanguageClient(converter_factory=default_converter)
        self.statuses: list[Any] = []
        self.diagnostics: dict[str, list[types.Diagnostic]] = {}
        self.registered: list[types.Registration] = []
        self.texts: dict[str, str] = {}
        self.versions: dict[str, int] = {}
        self._news = asyncio.Event()
        for method, feature in DEFAULT_CLIENT_FEATURES.items():
            if method not in self.OWN:
                self.client.feature(method)(feature)
        self.client.feature("warmline/status")(partial(self._status))
        self.client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)(partial(self._published))
        self.client.feature(types.CLIENT_REGISTER_CAPABILITY)(partial(self._register))

    async def start(self, root: Path, encoding: str = "utf-16", **more: Any) -> types.InitializeResult:
        """Start the server; unless settings are given, each question gets one answer and nothing is decoded ahead."""
        more.setdefault("initialization_options", ONE_ANSWER)
        await self.client.start_io(*COMMAND, env={**os.environ, "WARMLINE_HOME": str(self.home)})
        general = types.GeneralClientCapabilities(position_encodings=[types.PositionEncodingKind(encoding)])
        watching = types.DidChangeWatchedFilesClientCapabilities(dynamic_registration=True)
        hover = types.HoverClientCapabilities(content_format=[types.MarkupKind.Markdown])
        capabilities = types.ClientCapabilities(
            general=general,
            workspace=types.WorkspaceClientCapabilities(did_change_watched_files=watching),
            text_document=types.TextDocumentClientCapabilities(hover=hover),
        )
        folders = [types.WorkspaceFolder(root.as_uri(), root.name)]
        return await self.client.initialize_session(
            types.InitializeParams(capabilities=capabilities, workspace_folders=folders, **more)
        )

    async def stop(self) -> None:
        await self.client.shutdown_session()
        await self.client.stop()  # type: ignore[no-untyped-call]

    def open(self, uri: str, text: str, language: str = "python") -> None:
        self.texts[uri], self.versions[uri] = text, 1
        item = types.TextDocumentItem(uri, language, 1, text)
        self.client.text_document_did_open(types.DidOpenTextDocumentParams(item))

    def insert(self, uri: str, at: types.Position, text: str) -> None:
        """Type `text` at a position, as one incremental change."""
        self.versions[uri] += 1
        identifier = types.VersionedTextDocumentIdentifier(version=self.versions[uri], uri=uri)
        change = types.TextDocumentContentChangePartial(types.Range(at, at), text)
        self.client.text_document_did_change(types.DidChangeTextDocumentParams(identifier, [change]))

    def ask(self, uri: str, line: int, character: int, msg_id: str | None = None) -> asyncio.Future[Any]:
        """Ask for ghost text."""
        params = types.InlineCompletionParams(
            context=types.InlineCompletionContext(types.InlineCompletionTriggerKind.Invoked),
            text_document=types.TextDocumentIdentifier(uri),
            position=types.Position(line, character),
        )
        method = types.TEXT_DOCUMENT_INLINE_COMPLETION
        # Sent now, not when somebody awaits it: what is typed next has to come after.
        return asyncio.wrap_future(self.client.protocol.send_request(method, params, None, msg_id))

    async def ghost(self, uri: str, line: int, character: int) -> str | None:
        """Ask for ghost text and give what would be inserted."""
        items = await self.ask(uri, line, character)
        return items[0].insert_text if items else None

    async def status(self) -> Any:
        return await asyncio.wrap_future(self.client.protocol.send_request("warmline/status", {}))

    async def until(self, predicate: Callable[[], Any]) -> None:
        """Wait until what the server has sent makes `predicate` true."""
        while not predicate():
            self._news.clear()
            await self._news.wait()

    async def until_diagnosed(self, file: Path, count: int = 1) -> None:
        """Wait until a file has so many diagnostics."""
        uri = file.as_uri()
        await self.until(lambda: len(self.diagnostics.get(uri, ())) == count)

    def changed(self, path: Path) -> None:
        """Say that a watched file changed."""
        event = types.FileEvent(path.as_uri(), types.FileChangeType.Changed)
        self.client.workspace_did_change_watched_files(types.DidChangeWatchedFilesParams([event]))

    def _status(self, params: Any) -> None:
        self.statuses.append(params)
        self._news.set()

    def _published(self, params: types.PublishDiagnosticsParams) -> None:
        self.diagnostics[params.uri] = list(params.diagnostics)
        self._news.set()

    def _register(self, params: types.RegistrationParams) -> None:
        self.registered += params.registrations
        self._news.set()
