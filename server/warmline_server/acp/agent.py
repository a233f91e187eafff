"""The agent's methods, one function each: what is asked is checked here, and done elsewhere."""

from __future__ import annotations

import asyncio
import contextlib
import os
import uuid
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

from acp.schema import (
    AuthenticateRequest,
    CancelNotification,
    ClientCapabilities,
    CloseSessionRequest,
    DeleteSessionRequest,
    InitializeRequest,
    ListSessionsRequest,
    LoadSessionRequest,
    NewSessionRequest,
    PromptRequest,
    ResumeSessionRequest,
    SetSessionModeRequest,
    TextContentBlock,
)
from pydantic import BaseModel, ConfigDict, Field
from warmline.errors import WarmlineError
from warmline.host.client import EngineClient

from ..paths import unreadable
from . import modes, updates
from .blocks import refuse_unreadable
from .client import Client, Peer
from .commands import available, command_of
from .edge import Call, InvalidParams, InvalidRequest, NotFound, Route
from .live import Live, cancel_once
from .mcp_servers import Servers, refuse_unadvertised
from .sessions import Record, SessionStore
from .transcript import replay
from .turns import Limits, Turn

Json = dict[str, Any]
PROTOCOL_VERSION: Final = 1
_PAGE: Final = 50
_CAPABILITIES: Final[Json] = {
    "loadSession": True,
    "promptCapabilities": {"image": False, "audio": False, "embeddedContext": True},
    "mcpCapabilities": {"http": True, "sse": False},
    "sessionCapabilities": {"list": {}, "resume": {}, "close": {}, "delete": {}, "additionalDirectories": {}},
}


class _SetOption(BaseModel):
    """``session/set_config_option``; the SDK's model lets a boolean through as text."""

    model_config = ConfigDict(extra="ignore", strict=True)

    session_id: str = Field(alias="sessionId")
    config_id: str = Field(alias="configId")
    value: str


class Agent:
    """The sessions of one client.

    Parameters
    ----------
    home
        The user's store.
    make_engine
        Gives the engine; asked once, when it is first needed.
    """

    def __init__(self, home: Path, make_engine: Callable[[], EngineClient], limits: Limits | None = None) -> None:
        self._home = home
        self._make_engine = make_engine
        self._limits = limits or Limits()
        self._engine: EngineClient | None = None
        self._client: Client | None = None
        self._peer: Peer | None = None
        self._store = SessionStore(home)
        self._open: dict[str, Live] = {}
        self._client_id = f"acp-{os.getpid()}-{uuid.uuid4().hex[:8]}"

    def connect(self, peer: Peer) -> None:
        """Take the other end of the connection."""
        self._peer = peer

    @property
    def requests(self) -> dict[str, Route]:
        """What answers each method."""
        return {
            "initialize": Route(InitializeRequest, self.initialize),
            "authenticate": Route(AuthenticateRequest, self.authenticate),
            "session/new": Route(NewSessionRequest, self.new),
            "session/load": Route(LoadSessionRequest, self.load),
            "session/resume": Route(ResumeSessionRequest, self.resume),
            "session/list": Route(ListSessionsRequest, self.listed),
            "session/close": Route(CloseSessionRequest, self.close),
            "session/delete": Route(DeleteSessionRequest, self.delete),
            "session/prompt": Route(PromptRequest, self.prompt),
            "session/set_mode": Route(SetSessionModeRequest, self.set_mode),
            "session/set_config_option": Route(_SetOption, self.set_config_option),
        }

    @property
    def notifications(self) -> dict[str, Route]:
        """What hears each notification."""
        return {"session/cancel": Route(CancelNotification, self.cancel)}

    async def leave(self) -> None:
        """End all sessions and let go of the engine."""
        await asyncio.gather(*(live.close() for live in self._open.values()), return_exceptions=True)
        if self._engine is not None:
            await self._engine.close()

    async def initialize(self, request: InitializeRequest, _call: Call) -> Json:
        """Agree on version 1, which is the only one spoken, and say what is offered."""
        assert self._peer is not None
        self._client = Client(self._peer, request.client_capabilities or ClientCapabilities())
        return {
            "protocolVersion": PROTOCOL_VERSION,
            "agentCapabilities": _CAPABILITIES,
            "agentInfo": {"name": "warmline", "title": "Warmline", "version": _version()},
            "authMethods": [],
        }

    async def authenticate(self, request: AuthenticateRequest, _call: Call) -> Json:
        """Refuse: no method is offered, and none is needed."""
        self._initialized()
        raise InvalidParams(f"there is no method `{request.method_id}`: none is needed")

    async def new(self, request: NewSessionRequest, call: Call) -> Json:
        """Begin a session."""
        cwd, additional = _folders(request.cwd, request.additional_directories)
        refuse_unadvertised(request.mcp_servers)
        live = self._live(self._store.begin(cwd, additional))
        live.move(cwd, additional, request.mcp_servers)
        await self._begin(live, request.mcp_servers, call)
        return {"sessionId": live.id, **_state(live)}

    async def load(self, request: LoadSessionRequest, call: Call) -> Json:
        """Open a session that was kept, and tell all of its history before answering."""
        live = await self._reopened(request)
        for update in replay(live.record.entries):
            await live.tell(update)
        await self._begin(live, request.mcp_servers, call)
        return _state(live)

    async def resume(self, request: ResumeSessionRequest, call: Call) -> Json:
        """Open a session that was kept, without its history."""
        live = await self._reopened(request)
        await self._begin(live, request.mcp_servers, call)
        return _state(live)

    async def listed(self, request: ListSessionsRequest, _call: Call) -> Json:
        """List the sessions that were kept, the latest first."""
        self._initialized()
        cwd = _folder(request.cwd) if request.cwd is not None else None
        first = _offset(request.cursor)
        with self._accessible():
            heads = await asyncio.to_thread(self._store.listed, cwd)
        answer: Json = {"sessions": [head.as_info() for head in heads[first : first + _PAGE]]}
        return {**answer, "nextCursor": str(first + _PAGE)} if len(heads) > first + _PAGE else answer

    async def close(self, request: CloseSessionRequest, _call: Call) -> Json:
        """End a session's turn and let go of it; what was said is kept."""
        live = self._session(request.session_id)
        del self._open[live.id]  # first: a prompt that comes meanwhile finds no session
        await live.close()
        return {}

    async def delete(self, request: DeleteSessionRequest, _call: Call) -> Json:
        """Delete a session, open or not."""
        self._initialized()
        live = self._open.pop(request.session_id, None)
        if live is not None:
            await live.close()
        with self._accessible():
            # Where somebody else went on with it, what was said here is kept by another id.
            self._store.delete((live.record.kept_as if live is not None else "") or request.session_id)
        return {}

    async def set_mode(self, request: SetSessionModeRequest, _call: Call) -> Json:
        """Change what may be done without asking."""
        await self._session(request.session_id).set_mode(request.mode_id)
        return {}

    async def set_config_option(self, request: _SetOption, _call: Call) -> Json:
        """Change an option and answer with all of them."""
        return {"configOptions": await self.choose(request.session_id, request.config_id, request.value)}

    async def choose(self, session_id: str, option: str, value: str) -> list[Json]:
        """Change an option of a session and give all of them."""
        live = self._session(session_id)
        await live.choose(option, value)
        return live.options()

    async def cancel(self, request: CancelNotification, _call: Call) -> None:
        """Cancel a session's turn; one that is not open has none."""
        live = self._open.get(request.session_id)
        if live is not None:
            live.cancel()

    async def prompt(self, request: PromptRequest, _call: Call) -> Json:
        """Run a turn, after those of this session that came before."""
        live = self._session(request.session_id)
        refuse_unreadable(request.prompt)
        ran = Turn(live, self._limits)
        turn = asyncio.create_task(self._turn(live, ran, request.prompt))
        live.turns.append(turn)
        current = asyncio.current_task()
        while not turn.done():
            try:
                await asyncio.wait({turn})
            except asyncio.CancelledError:  # the request was taken back, maybe twice: it is answered all the same
                cancel_once(turn)
                if current is not None:
                    current.uncancel()
        live.turns.remove(turn)
        if turn.cancelled():
            return {"stopReason": "cancelled", **ran.known_meta}
        return turn.result()

    async def _turn(self, live: Live, turn: Turn, prompt: list[Any]) -> Json:
        async with live.lock:
            titled, live.speaking = live.record.head.title, ""
            try:
                return await self._answer(live, turn, prompt)
            finally:
                await live.save()
                head = live.record.head
                if head.title != titled:
                    await live.tell(updates.session_info(head.title, head.updated_at))

    async def _answer(self, live: Live, turn: Turn, prompt: list[Any]) -> Json:
        text = prompt[0].text if len(prompt) == 1 and isinstance(prompt[0], TextContentBlock) else ""
        command = command_of(text)
        if command is None:
            return await turn.run(prompt)
        run, argument = command
        said = await run(live, argument)
        await live.note(said)
        return {"stopReason": "end_turn"}

    def _session(self, session_id: str) -> Live:
        self._initialized()
        live = self._open.get(session_id)
        if live is None:
            raise NotFound(f"no session `{session_id[:64]}` is open")
        return live

    def _initialized(self) -> Client:
        if self._client is None:
            raise InvalidRequest("initialize comes first")
        return self._client

    def _live(self, record: Record) -> Live:
        client = self._initialized()
        if self._engine is None:
            self._engine = self._make_engine()
        live = Live(record, self._home, client, self._engine, self._store, self._client_id)
        self._open[live.id] = live
        return live

    async def _reopened(self, request: LoadSessionRequest | ResumeSessionRequest) -> Live:
        self._initialized()
        cwd, additional = _folders(request.cwd, request.additional_directories)
        refuse_unadvertised(request.mcp_servers)
        live = self._open.get(request.session_id)
        if live is not None and live.turns:
            raise InvalidRequest("a turn of this session is running")
        # What is kept apart from somebody else's is nobody else's to change.
        if live is None or (not live.record.kept_as and self._store.changed(live.record)):
            try:
                with self._accessible():
                    record = await asyncio.to_thread(self._store.load, request.session_id)
            except ValueError as error:
                raise NotFound(f"the session `{request.session_id[:64]}` cannot be read: {error}") from None
            if record is None:
                raise NotFound(f"there is no session `{request.session_id[:64]}`")
            if live is None:
                live = self._live(record)
            else:
                live.record = record  # somebody else went on with it
        live.move(cwd, additional, request.mcp_servers)
        return live

    @contextlib.contextmanager
    def _accessible(self) -> Iterator[None]:
        """Make typed errors of what the system says of the store."""
        try:
            yield
        except OSError as error:
            raise unreadable(error, self._home) from None

    async def _begin(self, live: Live, servers: Any, call: Call) -> None:
        before, live.servers = live.servers, Servers(live.cwd)
        begun = live.servers
        await before.close()
        if live.servers is begun:  # else somebody else began it again meanwhile
            begun.start(refuse_unadvertised(servers))

        async def tell_commands() -> None:
            await live.tell(updates.commands(available()))

        async def tell_what_runs() -> None:
            try:
                status = await live.describe()
            except WarmlineError:
                return  # the options say so already, and so will the first turn
            await live.tell_options()
            await live.tell(updates.usage(live.used, status.context.n_ctx))

        async def tell_lost_servers() -> None:
            await live.servers.started()
            for name, how in live.servers.reports.items():
                if how.startswith("failed"):
                    await live.note(f"The tool server {name} {how}.")

        call.later += [tell_commands, tell_what_runs, *([tell_lost_servers] if servers else [])]


def _state(live: Live) -> Json:
    return {"modes": modes.state(live.record.head.mode), "configOptions": live.options()}


def _folders(cwd: str, additional: list[str] | None) -> tuple[Path, tuple[Path, ...]]:
    return _folder(cwd), tuple(_folder(each) for each in additional or ())


def _folder(path: str) -> Path:
    if not os.path.isabs(path) or "\x00" in path:
        raise InvalidParams(f"`{path[:200]}` is no absolute path")
    folder = os.path.normpath(path)
    if not os.path.isdir(folder):  # also where the path is too long for the system, which `Path.is_dir` raises
        raise InvalidParams(f"`{path[:200]}` is no folder")
    return Path(folder)


def _offset(cursor: str | None) -> int:
    if cursor is None:
        return 0
    if not cursor.isascii() or not cursor.isdecimal() or len(cursor) > 6:
        raise InvalidParams("the cursor is none that was given out")
    return int(cursor)


def _version() -> str:
    try:
        return version("warmline")
    except PackageNotFoundError:
        return "0+source"  # run from a checkout that is not installed
