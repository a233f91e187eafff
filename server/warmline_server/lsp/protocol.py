"""The server on pygls, which is left with JSON-RPC and the order of things: documents, capabilities and state are ours.

pygls' own document store splits lines where LSP doesn't, keeps positions past a line's end wrong and splits a long
document again at each edit, so none of its built-in document handlers is kept.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import traceback
from collections.abc import Callable, Mapping
from concurrent.futures import InvalidStateError
from pathlib import Path
from typing import Any, Final

from lsprotocol import types
from pygls.exceptions import JsonRpcException, JsonRpcMethodNotFound
from pygls.lsp.server import LanguageServer
from pygls.protocol import LanguageServerProtocol, lsp_method
from warmline import __version__

from ..characters import as_message
from . import (
    code_action,
    code_lens,
    configuration,
    document_link,
    focus,
    hover,
    inline_completion,
    json_completion,
    rename,
    status,
    sync,
    watched_files,
    workspace_folders,
)
from .commands.call import Refused
from .commands.run import Running
from .repair import SYNCHRONISING, repaired, uri_of
from .session import Session

_NOT_KEPT: Final = (
    types.TEXT_DOCUMENT_DID_OPEN,
    types.TEXT_DOCUMENT_DID_CHANGE,
    types.TEXT_DOCUMENT_DID_CLOSE,
    types.NOTEBOOK_DOCUMENT_DID_OPEN,
    types.NOTEBOOK_DOCUMENT_DID_CHANGE,
    types.NOTEBOOK_DOCUMENT_DID_CLOSE,
    types.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS,
)

_FEATURES: Final[tuple[tuple[str, Callable[..., Any]], ...]] = (
    (types.TEXT_DOCUMENT_DID_OPEN, sync.did_open),
    (types.TEXT_DOCUMENT_DID_CHANGE, sync.did_change),
    (types.TEXT_DOCUMENT_DID_CLOSE, sync.did_close),
    (types.TEXT_DOCUMENT_DID_SAVE, sync.did_save),
    (types.TEXT_DOCUMENT_INLINE_COMPLETION, inline_completion.inline_completion),
    (types.TEXT_DOCUMENT_COMPLETION, json_completion.completion),
    (types.TEXT_DOCUMENT_HOVER, hover.hover),
    (types.TEXT_DOCUMENT_CODE_LENS, code_lens.code_lens),
    (types.TEXT_DOCUMENT_DOCUMENT_LINK, document_link.document_link),
    (types.TEXT_DOCUMENT_CODE_ACTION, code_action.code_action),
    (types.CODE_ACTION_RESOLVE, code_action.resolve),
    (types.WORKSPACE_WILL_RENAME_FILES, rename.will_rename_files),
    (types.WORKSPACE_DID_RENAME_FILES, rename.did_rename_files),
    (types.WORKSPACE_DID_CHANGE_CONFIGURATION, configuration.did_change_configuration),
    (types.WORKSPACE_DID_CHANGE_WATCHED_FILES, watched_files.did_change_watched_files),
    (types.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS, workspace_folders.did_change_workspace_folders),
    (status.METHOD, status.status),
    (focus.METHOD, focus.did_focus),
)


_REFUSED: Final = object()
# Seconds after which a question to the client counts as refused: one for its program, one for the person at it.
_PROGRAM_SECONDS: Final = 10.0
_PERSON_SECONDS: Final = 600.0


class WarmlineProtocol(LanguageServerProtocol):
    """pygls' protocol with these changes: nothing stays unanswered, no document is kept, `exit` is left to the loop."""

    _server: WarmlineServer

    def __init__(self, server: WarmlineServer, converter: Any) -> None:
        super().__init__(server, converter)
        for method in _NOT_KEPT:
            self.fm.builtin_features.pop(method, None)

    def receive(self, body: bytes) -> None:
        """Take one message, whatever it is.

        A malformed request is answered as such: an unanswered one would hang the editor.
        """
        try:
            data = json.loads(body)
        except (ValueError, RecursionError):
            self._refuse(None, types.ErrorCodes.ParseError, "not JSON")
            return
        if not isinstance(data, dict) or data.get("jsonrpc") != "2.0":
            self._refuse(None, types.ErrorCodes.InvalidRequest, "not a JSON-RPC 2.0 message")
            return
        method = data.get("method")
        request = data.get("id") if "method" in data else None
        if "id" in data and not _is_id(data["id"]):
            # By JSON-RPC a null is what an error has whose request could not be read, so nobody waits for an answer.
            if "method" in data:
                self._refuse(None, types.ErrorCodes.InvalidRequest, "an id is a string or an integer")
            return
        if "method" in data and not isinstance(method, str):
            self._refuse(request, types.ErrorCodes.InvalidRequest, "a method is a string")
            return
        if request is not None and self._shutdown:
            self._refuse(request, types.ErrorCodes.InvalidRequest, "the server is shutting down")
            return
        # pygls fails on methods that lsprotocol doesn't know when they come without parameters.
        if "method" in data:
            data.setdefault("params", None)
        message = self._structured(data)
        if message is None:
            if request is not None:
                self._refuse(request, types.ErrorCodes.InvalidParams, "the parameters are not as the protocol says")
            elif "id" in data:
                answer = types.ResponseError(types.ErrorCodes.InvalidRequest.value, "the answer cannot be read")
                self._handle_response(data["id"], error=answer)
            elif method in SYNCHRONISING:
                self._lost(method, data["params"])
            return
        try:
            self.handle_message(message)
        except Exception as error:  # pygls reads some fields before its own guard, and one message must not be the last
            self._server.report_server_error(error, None)

    def _handle_response(self, msg_id: Any, result: Any = None, error: Any = None) -> None:
        with contextlib.suppress(InvalidStateError):  # who asked has stopped waiting
            super()._handle_response(msg_id, result, error)

    def _structured(self, data: dict[str, Any]) -> Any:
        """Make lsprotocol's object of a message, repaired if need be; None when it is beyond that."""
        with contextlib.suppress(JsonRpcException):
            return self.structure_message(data)
        method, params = data.get("method"), data.get("params")
        if not isinstance(method, str) or not isinstance(params, dict):
            return None
        snapshot = self._server.session.documents.get(uri_of(params) or "")
        try:
            params = repaired(params, method, snapshot.version if snapshot else 0)
            return self.structure_message({**data, "params": params})
        except (JsonRpcException, RecursionError):
            return None

    def _lost(self, method: str, params: Any) -> None:
        """Say that a change of a document could not be read, and give no suggestions for it until its text comes."""
        uri = uri_of(params)
        if uri is not None:
            self._server.session.documents.lost(uri)
        name = method.rpartition("/")[2]
        self._server.log(types.MessageType.Warning, f"{name} refused: its parameters are not as the protocol says")

    def _refuse(self, request: Any, code: types.ErrorCodes, message: str) -> None:
        self._send_response(request, error=types.ResponseError(code=code.value, message=message))

    @lsp_method(types.INITIALIZE)
    def lsp_initialize(self, params: types.InitializeParams) -> None:  # type: ignore[override]
        """Refuse: the one `initialize` of a session is answered before pygls is there (`server.run_stdio`)."""
        raise JsonRpcException("initialize was answered already", code=types.ErrorCodes.InvalidRequest.value)

    @lsp_method(types.INITIALIZED)
    async def lsp_initialized(self, *_: object) -> None:
        """Ask the client to watch files, and for its settings."""
        session = self._server.session
        wanted = [watched_files.registration(session.client, session.home), configuration.registration(session.client)]
        registrations = [each for each in wanted if each is not None]
        if registrations:
            self.send_request(types.CLIENT_REGISTER_CAPABILITY, types.RegistrationParams(registrations))
        if session.client.pulls_settings:
            await configuration.pull(self._server)

    @lsp_method(types.WORKSPACE_EXECUTE_COMMAND)
    async def lsp_workspace__execute_command(self, params: types.ExecuteCommandParams) -> Any:  # type: ignore[override]
        """Run a command in a task of its own, which ``$/cancelRequest`` ends."""
        return await self._server.running.run(self._server, params)

    @lsp_method(types.WINDOW_WORK_DONE_PROGRESS_CANCEL)
    def lsp_work_done_progress_cancel(self, params: types.WorkDoneProgressCancelParams) -> None:
        """End the command that the progress is about."""
        self._server.running.cancel(params.token)

    @lsp_method(types.EXIT)
    def lsp_exit(self, *_: object) -> None:  # type: ignore[override]
        """End the loop; pygls would leave by SystemExit from inside a handler, with the engine still at work."""
        self._server.stop()

    @property
    def was_shut_down(self) -> bool:
        """Whether the client said `shutdown`, so that leaving is in order."""
        return self._shutdown


def _is_id(value: object) -> bool:
    # A client whose language knows floats only writes 1.0, and gets its answer under that.
    whole = isinstance(value, float) and value.is_integer()
    return whole or (isinstance(value, (str, int)) and not isinstance(value, bool))


class WarmlineServer(LanguageServer):
    """The language server: wires methods to the session.

    Parameters
    ----------
    make_session
        Makes the session, given this server as its outlet.
    stop
        Ends the message loop.
    """

    protocol: WarmlineProtocol

    def __init__(self, make_session: Callable[[WarmlineServer], Session], stop: Callable[[], None]) -> None:
        # pygls logs whole messages, and those hold the user's text.
        logging.getLogger("pygls").setLevel(logging.CRITICAL + 1)
        super().__init__("warmline", __version__, protocol_cls=WarmlineProtocol)
        self.stop = stop
        self.running = Running()
        self.session = make_session(self)
        for method, handler in _FEATURES:
            self.feature(method)(handler)

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a notification."""
        self.protocol.notify(method, params)

    def publish_diagnostics(self, uri: str, items: list[types.Diagnostic]) -> None:
        """Send a file's diagnostics."""
        self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri=uri, diagnostics=items))

    def log(self, kind: types.MessageType, text: str) -> None:
        """Write to the editor's log."""
        self.window_log_message(types.LogMessageParams(type=kind, message=as_message(text)))

    def show(self, kind: types.MessageType, text: str) -> None:
        """Show a message to the person at the editor."""
        self.window_show_message(types.ShowMessageParams(type=kind, message=as_message(text)))

    async def ask(self, kind: types.MessageType, text: str, answers: tuple[str, ...]) -> str | None:
        """Show a message and wait for one of the answers; None when it was put away, or left alone for long."""
        actions = [types.MessageActionItem(answer) for answer in answers]
        params = types.ShowMessageRequestParams(type=kind, message=as_message(text), actions=actions)
        answer = await self._asked(types.WINDOW_SHOW_MESSAGE_REQUEST, params, _PERSON_SECONDS)
        title = getattr(answer, "title", None)
        return title if title in answers else None

    async def create_progress(self, token: str) -> bool:
        """Ask for a progress report of the server's own; tell whether there may be one."""
        params = types.WorkDoneProgressCreateParams(token)
        return await self._asked(types.WINDOW_WORK_DONE_PROGRESS_CREATE, params, _PROGRAM_SECONDS) is not _REFUSED

    def send_progress(self, token: int | str, value: Any) -> None:
        """Send ``$/progress``."""
        self.protocol.notify(types.PROGRESS, types.ProgressParams(token=token, value=value))

    async def show_document(self, uri: str) -> bool:
        """Open a document; tell whether that was done."""
        params = types.ShowDocumentParams(uri, take_focus=True)
        answer = await self._asked(types.WINDOW_SHOW_DOCUMENT, params, _PROGRAM_SECONDS)
        return getattr(answer, "success", False) is True

    def refresh_lenses(self) -> None:
        """Say that code lenses may be others by now."""
        if self.session.client.refreshes_lenses:
            self.protocol.send_request(types.WORKSPACE_CODE_LENS_REFRESH, None)

    async def _asked(self, method: str, params: Any, seconds: float) -> Any:
        """Send a request and wait for its result; `_REFUSED` where the client answers with an error, or not in time."""
        try:
            return await asyncio.wait_for(self.protocol.send_request_async(method, params), seconds)
        except asyncio.CancelledError:
            raise
        except Exception:
            return _REFUSED

    def report_server_error(self, error: Exception, source: Any) -> None:
        """Log where a handler failed, but not with what words: they may hold the user's text."""
        if isinstance(error, (JsonRpcMethodNotFound, Refused)):
            return  # the client has its answer; what it asks for is no fault of ours
        frames = traceback.extract_tb(error.__traceback__)
        where = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
        self.log(types.MessageType.Error, f"internal error: {type(error).__name__}{where}")
