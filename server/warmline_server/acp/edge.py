"""The one place where the protocol's SDK is met, and where what it leaves open is mended.

The SDK's `Connection` pairs requests and answers, and its models say what a request is made of. Its router is not used:
that lets ``_meta`` replace arguments, answers what nobody wrote, and hides stable methods. Its framing drops malformed
lines without a word. Both are here, and so are cancelling a request, what is sent only after a response, and the rule
that no text of an unforeseen exception leaves the process.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import queue
import re
import sys
import threading
import traceback
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from acp.connection import Connection
from acp.exceptions import RequestError as RequestError
from pydantic import BaseModel, ValidationError
from warmline.errors import WarmlineError

from ..characters import whole
from ..stdio import Streams

MAX_LINE: Final = 32 << 20  # bytes: far more than any prompt that a context holds
_CHUNK: Final = 1 << 16
_CANCELLED: Final = -32800
_ID: Final = re.compile(rb'"id"\s*:\s*(\d{1,15}|"[^"\\]{1,200}")\s*[,}]')
_HALF: Final = re.compile(r"\\u[dD][89a-fA-F]")
Json = dict[str, Any]
Followup = Callable[[], Awaitable[None]]


class InvalidParams(RequestError):
    """A request asks for something that is not there, or not allowed: JSON-RPC error -32602."""

    def __init__(self, message: str, data: Json | None = None) -> None:
        super().__init__(-32602, message, data)


class InvalidRequest(RequestError):
    """A request comes when it may not: JSON-RPC error -32600."""

    def __init__(self, message: str) -> None:
        super().__init__(-32600, message)


class NotFound(RequestError):
    """What a request names does not exist: JSON-RPC error -32002."""

    def __init__(self, message: str) -> None:
        super().__init__(-32002, message)


def failed(error: WarmlineError) -> RequestError:
    """Make the protocol's error of a typed one: its sentence, and in `data` its code, file, field and remedy."""
    return RequestError(-32603, str(error), error.to_dict())


@dataclass(slots=True)
class Call:
    """One request at work. What `later` holds is run when its response has been written, in order."""

    later: list[Followup] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Route:
    """What answers a method: its request's model, and a function that gets the request and its call."""

    model: type[BaseModel]
    run: Callable[[Any, Call], Awaitable[Json | None]]


class _Params(dict[str, Any]):
    """A request's parameters, which know the request's id: the SDK hands over nothing else."""

    request_id: Any = None


class Lines:
    """JSON-RPC messages as lines over two byte streams; what is no message is answered with an error.

    Two threads do what blocks. `send` returns when its whole line is written; a caller that is cancelled meanwhile
    leaves no half line behind.
    """

    def __init__(self, streams: Streams) -> None:
        self._loop = asyncio.get_running_loop()
        self._inbox: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._outbox: queue.SimpleQueue[tuple[bytes, asyncio.Future[None]] | None] = queue.SimpleQueue()
        self.sent: Callable[[Any], None] = lambda request_id: None
        self._closed = False
        for work, stream in ((self._read, streams.reader), (self._write, streams.writer)):
            threading.Thread(target=work, args=(stream,), name=f"acp-{work.__name__}", daemon=True).start()

    async def receive(self) -> Json | None:
        """Give the next message that is one; None at the end of the stream."""
        while (line := await self._inbox.get()) is not None:
            message = await self._understood(line)
            if message is not None:
                return message
        return None

    async def send(self, message: Json) -> None:
        """Write a message; raises `ConnectionError` where nobody reads any more."""
        if self._closed:
            raise ConnectionError("nobody reads any more")
        written: asyncio.Future[None] = self._loop.create_future()
        line = json.dumps(message, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        self._outbox.put((line.encode("utf-8", "replace") + b"\n", written))
        await asyncio.shield(written)
        if "method" not in message:
            self.sent(message.get("id"))

    def end(self) -> None:
        """Take nothing more in, as if the client had closed its end; from the loop's thread."""
        self._inbox.put_nowait(None)

    async def close(self) -> None:
        """Let what was sent be written, and no more."""
        self._closed = True
        self._outbox.put(None)

    async def _understood(self, line: bytes) -> Json | None:
        if not line.strip():
            return None
        if len(line) > MAX_LINE:
            return await self._too_long(line)
        try:
            message = _parsed(line)
        except (ValueError, RecursionError):
            await self._refuse(-32700, "Parse error", None)
            return None
        if not isinstance(message, dict) or not _is_id(message.get("id")):
            await self._refuse(-32600, "Invalid request", None)
        elif "method" in message:
            if not isinstance(message["method"], str):
                await self._refuse(-32600, "Invalid request", message.get("id"))
            elif isinstance(message.get("params") or {}, dict):
                return _numbered(message)
            elif "id" in message:
                await self._refuse(-32602, "Invalid params", message["id"])
        elif isinstance(message.get("error") or {}, dict):
            return message
        else:  # no error as it should be, but whoever asked waits for it
            return {"id": message.get("id"), "error": {}}
        return None

    async def _too_long(self, line: bytes) -> Json | None:
        """Refuse a request that is too long; an answer that is becomes an error, since somebody waits for it."""
        head, what = line[:1000], f"longer than {MAX_LINE} bytes"
        found = _ID.search(head) or _ID.search(line[-300:])
        request_id = json.loads(found[1]) if found is not None else None
        if request_id is not None and b'"method"' not in head:
            return {"id": request_id, "error": {"code": -32600, "message": f"the answer is {what}"}}
        await self._refuse(-32600, f"Invalid request: it is {what}", request_id)
        return None

    async def _refuse(self, code: int, text: str, request_id: Any) -> None:
        await self.send({"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": text}})

    def _read(self, stream: Any) -> None:
        pending = bytearray()
        with contextlib.suppress(RuntimeError):  # the loop is closed: it ended while this thread waited
            while True:
                try:
                    data = stream.read(_CHUNK)
                except (OSError, ValueError):
                    data = b""
                if not data:
                    break
                *lines, rest = data.split(b"\n")
                for line in lines:
                    pending += line
                    self._loop.call_soon_threadsafe(self._inbox.put_nowait, bytes(pending))
                    pending.clear()
                # What is too long is not kept, but remembered to be so.
                pending += rest if len(pending) <= MAX_LINE else b""
            self._loop.call_soon_threadsafe(self._inbox.put_nowait, None)

    def _write(self, stream: Any) -> None:
        with contextlib.suppress(RuntimeError):
            while (item := self._outbox.get()) is not None:
                line, written = item
                try:
                    stream.write(line)
                    stream.flush()
                except (OSError, ValueError):
                    self._loop.call_soon_threadsafe(_end, written, ConnectionError("nobody reads any more"))
                else:
                    self._loop.call_soon_threadsafe(_end, written, None)


class Edge:
    """Gives each request to its route and each answer of the client to whoever asked.

    Parameters
    ----------
    requests, notifications
        Routes by method. A method without one answers -32601; a notification without one is passed over.
    """

    def __init__(self, streams: Streams, requests: Mapping[str, Route], notifications: Mapping[str, Route]) -> None:
        self._requests, self._notifications = requests, notifications
        self._running: dict[Any, asyncio.Task[Any]] = {}
        self._taken_back: set[asyncio.Task[Any]] = set()
        self._calls: dict[Any, Call] = {}
        self._followups: set[asyncio.Task[None]] = set()
        self._lines = Lines(streams)
        self._lines.sent = self._after
        self.connection = Connection(self._handle, self._lines, listening=False)

    async def serve(self) -> None:
        """Serve until the client is gone."""
        await self.connection.main_loop()

    def end(self) -> None:
        """Have `serve` return, as when the client is gone."""
        self._lines.end()

    async def close(self) -> None:
        """End what is still at work."""
        for task in self._followups:
            task.cancel()
        await self.connection.close()

    async def _handle(self, method: str, params: Any, is_notification: bool) -> Json | None:
        if is_notification:
            await self._notified(method, params)
            return None
        request_id = getattr(params, "request_id", None)
        route, task = self._requests.get(method), asyncio.current_task()
        assert task is not None
        if route is None:
            raise RequestError.method_not_found(method)
        call = Call()
        self._running[request_id] = task
        try:
            answer = await route.run(_validated(route.model, params), call)
        except asyncio.CancelledError:
            if task not in self._taken_back:
                raise
            task.uncancel()
            raise RequestError(_CANCELLED, "Request cancelled") from None
        except RequestError:
            raise
        except WarmlineError as error:
            raise failed(error) from None
        except ConnectionError:
            raise RequestError(-32603, "the client is gone") from None
        except Exception:
            traceback.print_exc(file=sys.stderr)
            raise RequestError(-32603, "Warmline itself failed; its log says more") from None
        finally:
            self._taken_back.discard(task)
            if self._running.get(request_id) is task:
                del self._running[request_id]
        if call.later:
            self._calls[request_id] = call
        return answer if answer is not None else {}

    async def _notified(self, method: str, params: Any) -> None:
        if method == "$/cancel_request":
            request_id = params.get("requestId") if isinstance(params, dict) else None
            task = self._running.get(request_id) if _is_id(request_id) else None
            if task is not None:
                self._taken_back.add(task)
                task.cancel()
            return
        route = self._notifications.get(method)
        if route is None:
            return
        try:
            await route.run(_validated(route.model, params), Call())
        except RequestError as error:
            print(f"warmline acp: {method}: {error}", file=sys.stderr)

    def _after(self, request_id: Any) -> None:
        call = self._calls.pop(request_id, None)
        if call is not None:
            task = asyncio.create_task(self._follow(call))
            self._followups.add(task)
            task.add_done_callback(self._followups.discard)

    async def _follow(self, call: Call) -> None:
        for step in call.later:
            try:
                await step()
            except ConnectionError:
                return
            except Exception:  # what follows a response must not end the agent
                traceback.print_exc(file=sys.stderr)


def _validated(model: type[BaseModel], params: Any) -> BaseModel:
    try:
        request = model.model_validate(dict(params) if isinstance(params, dict) else params)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(map(str, first["loc"])) or "params"
        raise InvalidParams(f"{where}: {first['msg']}") from None
    for name, known in model.model_fields.items():
        key = known.alias or name
        given, read = params.get(key) if isinstance(params, dict) else None, getattr(request, name)
        # The SDK passes over items that it can't read; whoever named a tool server would look for it in vain.
        if isinstance(given, list) and isinstance(read, list) and len(read) < len(given):
            raise InvalidParams(f"{key}: {len(given) - len(read)} of its items are not as the protocol has them")
    return request


def _numbered(message: Json) -> Json:
    if "id" not in message:
        return message
    params = _Params(message.get("params") or {})
    params.request_id = message["id"]
    return {**message, "params": params}


def _is_id(value: Any) -> bool:
    return value is None or (isinstance(value, (str, int)) and not isinstance(value, bool))


def _parsed(line: bytes) -> Any:
    text = line.decode()  # strictly, which `json` is not
    message = json.loads(text, parse_constant=_no_constant, parse_float=_finite)
    if _HALF.search(text):  # half of a character: JSON lets it through, and no encoding has it
        message = json.loads(whole(json.dumps(message, ensure_ascii=False)))
    return message


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text[:40]} is too large")
    return number


def _end(written: asyncio.Future[None], error: Exception | None) -> None:
    if written.done():
        return
    if error is None:
        written.set_result(None)
    else:
        written.set_exception(error)
        written.exception()  # seen: whoever waited may have been cancelled
