"""`warmline lsp`: from the process's streams to a session, and back to an exit code.

`initialize` is answered before pygls and the session are imported, so this module imports neither.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import threading
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from ..stdio import protect
from .framing import Frames, FramingError, frame
from .initialize import Client, answer, read_client

if TYPE_CHECKING:
    import asyncio

    from warmline.host.client import EngineClient

_NOT_INITIALIZED: Final = -32002
_PARSE_ERROR: Final = -32700
# How long an engine may take to let go, in seconds, before the process ends without it.
_CLOSING_SECONDS: Final = 10.0


def run_stdio() -> int:
    """Serve one editor over stdin and stdout until it leaves.

    Returns
    -------
    int
        Exit code: 0 after `shutdown`, 1 when the editor went without it or the stream was no LSP.
    """
    streams = protect()
    frames = Frames(streams.reader)
    try:
        client = handshake(frames, streams.writer)
        if client is None:
            return 1
        return _serve(client, frames, streams.writer)
    except (FramingError, BrokenPipeError) as error:
        print(f"warmline lsp: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def handshake(frames: Frames, writer: BinaryIO) -> Client | None:
    """Wait for `initialize` and answer it; None when the editor left before.

    As LSP says, other requests get an error before that and notifications are dropped, but for `exit`.
    """
    while (body := frames.next()) is not None:
        try:
            message = json.loads(body)
        except (ValueError, RecursionError):
            _reply(writer, None, error={"code": _PARSE_ERROR, "message": "not JSON"})
            continue
        if not isinstance(message, dict):
            continue
        method = message.get("method")
        if method == "exit":
            return None
        if "id" not in message or not isinstance(method, str):
            continue
        if method == "initialize":
            params = message.get("params")
            client = read_client(params if isinstance(params, dict) else {})
            _reply(writer, message["id"], result=answer(client))
            return client
        _reply(writer, message["id"], error={"code": _NOT_INITIALIZED, "message": "initialize comes first"})
    return None


def _reply(writer: BinaryIO, request: Any, **content: Any) -> None:
    writer.write(frame(json.dumps({"jsonrpc": "2.0", "id": request, **content}).encode()))
    writer.flush()


def _serve(client: Client, frames: Frames, writer: BinaryIO) -> int:
    # Hundreds of classes are made by these imports, and the search for garbage among them, of which there is none,
    # costs a tenth of the time.
    gc.disable()
    # pydantic would read the metadata of every installed package, in search of plugins.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    import asyncio

    from . import protocol  # noqa: F401  # with all that it brings

    gc.freeze()
    gc.enable()
    return asyncio.run(_session(client, frames, writer))


async def _session(client: Client, frames: Frames, writer: BinaryIO) -> int:
    import asyncio

    from warmline.registry import warmline_home

    from .parent import wait_for_exit
    from .protocol import WarmlineServer
    from .session import Session

    inbox: asyncio.Queue[bytes | None] = asyncio.Queue()

    def stop() -> None:
        inbox.put_nowait(None)

    def make_session(server: WarmlineServer) -> Session:
        return Session(client, warmline_home(), server, _make_engine)

    server = WarmlineServer(make_session, stop)
    server.protocol.set_writer(_Writer(writer, stop))
    loop = asyncio.get_running_loop()
    threading.Thread(target=_read, args=(frames, loop, inbox), name="lsp-stdin", daemon=True).start()
    parent: asyncio.Task[None] | None = None
    if client.process_id is not None:
        parent = asyncio.ensure_future(wait_for_exit(client.process_id))
        parent.add_done_callback(lambda task: stop() if not task.cancelled() and task.exception() is None else None)
    try:
        while (body := await inbox.get()) is not None:
            server.protocol.receive(body)
            # A handler that is a coroutine takes its snapshot in its first step; let it, before the next message
            # can change the document.
            await asyncio.sleep(0)
    finally:
        code = 0 if server.protocol.was_shut_down else 1
        _leave_at_last(code)
        if parent is not None:
            parent.cancel()
        await server.session.close()
    return code


def _read(frames: Frames, loop: asyncio.AbstractEventLoop, inbox: asyncio.Queue[bytes | None]) -> None:
    """Pass message bodies to the loop, and None at the end of the stream, however it ends."""
    try:
        while True:
            try:
                body = frames.next()
            except Exception as error:
                print(f"warmline lsp: {error}", file=sys.stderr)
                body = None
            loop.call_soon_threadsafe(inbox.put_nowait, body)
            if body is None:
                return
    except RuntimeError:  # the loop is closed: the session ended while this thread waited for the stream
        return


def _leave_at_last(code: int) -> None:
    """End the process even if a native call never returns: a language server without an editor must not stay."""
    timer = threading.Timer(_CLOSING_SECONDS, os._exit, (code,))
    timer.daemon = True
    timer.start()


class _Writer:
    """What pygls writes to; an editor that is gone ends the loop instead of raising in a handler."""

    def __init__(self, stream: BinaryIO, stop: Any) -> None:
        self._stream = stream
        self._stop = stop

    def write(self, data: bytes) -> None:
        try:
            self._stream.write(data)
            self._stream.flush()
        except (OSError, ValueError):
            self._stop()

    def close(self) -> None:
        """Leave the stream to the process's end."""


def _make_engine() -> EngineClient:
    from warmline.host.client import connect
    from warmline.registry import warmline_home

    return connect(warmline_home())
