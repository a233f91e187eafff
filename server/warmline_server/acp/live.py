"""A session at work: what is kept of it, and what is only there while a client has it open."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, Final

from warmline.errors import WarmlineError
from warmline.host.client import EngineClient
from warmline.host.wire import VariantStatus
from warmline.variant import ResolvedVariant

from ..lsp.status import LastReport
from ..paths import unreadable
from . import updates
from .choice import resolve
from .client import Client
from .confinement import Roots
from .edge import InvalidParams
from .mcp_servers import Servers
from .modes import MODES, Mode
from .options import CONTEXT, MODE, changed, offered
from .permissions import Permissions
from .sessions import Record, SessionStore
from .tools import BUILT_IN
from .tools.tool import Place, Tool
from .transcript import Noted

Json = dict[str, Any]
_BETWEEN: Final = ("user_message_chunk", "agent_thought_chunk", "tool_call", "plan")


@dataclass(slots=True)
class Live:
    """An open session.

    Attributes
    ----------
    turns
        Turns that run or wait, the running one first: one at a time holds `lock`.
    status
        What the engine said last of the variant that runs here, and of which variant that was.
    shown
        The options that the client was told last.
    used
        Tokens of the context that the latest step used.
    last
        Which identity ran the latest step, and how that went.
    speaking
        Which message was told last, if nothing but more of it came since.
    unkept
        Whether it could not be written last, which the person was told.
    servers
        The MCP servers that the client gave it.
    given
        The servers as the client named them.
    left_out
        Their tools that there is no room for, as the person was told last.
    """

    record: Record
    home: Path
    client: Client
    engine: EngineClient
    store: SessionStore
    client_id: str
    permissions: Permissions = field(default_factory=Permissions)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    turns: list[asyncio.Task[Any]] = field(default_factory=list)
    status: tuple[ResolvedVariant, VariantStatus] | None = None
    shown: list[Json] | None = None
    used: int = 0
    last: tuple[str, LastReport] | None = None
    unkept: bool = False
    speaking: str = ""
    left_out: Sequence[str] = ()
    given: list[Any] = field(default_factory=list)
    servers: Servers = field(init=False)

    def __post_init__(self) -> None:
        self.servers = Servers(self.record.head.cwd)

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The agent's own tools, then those of servers, whether or not there is room to tell the model of them."""
        return (*BUILT_IN, *chain.from_iterable(self.servers.tools.values()))

    @property
    def id(self) -> str:
        """The session's id."""
        return self.record.head.id

    @property
    def cwd(self) -> Path:
        """The session's own folder."""
        return self.record.head.cwd

    @property
    def place(self) -> Place:
        """Where its tools work."""
        return Place(self.id, self.client, Roots(self.cwd, self.record.head.additional))

    def resolve(self) -> ResolvedVariant:
        """Find the variant that runs here now; errors as in `choice.resolve`."""
        return resolve(self.home, self.cwd, self.record.head.choice)

    def known(self) -> VariantStatus | None:
        """Give what the engine said of the variant that runs here; None where it was not asked, or of another."""
        try:
            return self.status[1] if self.status is not None and self.status[0] == self.resolve() else None
        except WarmlineError:  # resolving it where it is needed says why
            return None

    async def describe(self) -> VariantStatus:
        """Ask the engine what would answer here; raises `WarmlineError`."""
        variant = self.resolve()
        status = await self.engine.describe(variant)
        self.status = (variant, status)
        return status

    async def load(self) -> tuple[ResolvedVariant, VariantStatus]:
        """Make the variant ready and give what it is; raises `WarmlineError`. Never another in its place."""
        variant = self.resolve()
        self.status = (variant, await self.engine.load(variant, self.client_id))
        return self.status

    def options(self) -> list[Json]:
        """Give the options as they are now; they count as told to the client. Raises `WarmlineError`."""
        head = self.record.head
        try:
            self.shown = offered(self.home, head.cwd, head.choice, head.mode, self.known())
        except OSError as error:
            raise unreadable(error, self.home) from None
        return self.shown

    async def tell_options(self) -> None:
        """Tell the client the options where they are no longer what it was told."""
        before = self.shown
        options = self.options()
        if options != before:
            await self.tell(updates.config_options(options))

    async def choose(self, option: str, value: Any) -> None:
        """Change an option; the client is told all of them.

        Raises
        ------
        InvalidParams
            There is no such option or value, or it cannot run. Nothing changes then.
        """
        head = self.record.head
        if option == MODE:
            await self.set_mode(value)
            return
        choice = changed(self.home, head.cwd, head.choice, option, value, self.known())
        try:
            variant = resolve(self.home, head.cwd, choice)
            status = await self.engine.describe(variant)
        except WarmlineError as error:
            raise InvalidParams(str(error), error.to_dict()) from None
        if option == CONTEXT and status.context.n_ctx != choice.n_ctx:
            raise InvalidParams(f"the base takes no more than {status.context.n_ctx} tokens")
        before = self.known()
        self.record.change(choice=choice)
        self.status = (variant, status)
        await self._changed()
        if before is None or before.context != status.context:
            await self.tell(updates.usage(self.used, status.context.n_ctx))

    async def set_mode(self, mode: Any) -> None:
        """Change the mode; raises `InvalidParams` for one that there is not."""
        known: list[Mode] = [each for each in MODES if each == mode]
        if not known:
            raise InvalidParams(f"there is no mode `{mode}`", {"offered": list(MODES)})
        self.record.change(mode=known[0])
        await self.tell(updates.current_mode(known[0]))
        await self._changed()

    async def _changed(self) -> None:
        await self.save()
        await self.tell(updates.config_options(self.options()))

    async def save(self) -> None:
        """Keep the session, if anything was said in it; where that fails the person is told, once."""
        if not self.record.entries:
            return
        try:
            apart = self.store.save(self.record)
        except (OSError, ValueError) as error:
            if not self.unkept:
                self.unkept = True
                what = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
                await self.note(f"This session cannot be kept: {what}.")
        else:
            self.unkept = False
            if apart:
                await self.note(
                    "Somebody else went on with this session meanwhile. What is said here is kept as a session of its "
                    f"own, {apart}."
                )

    async def tell(self, update: Json) -> None:
        """Tell the client what happens here."""
        await self.client.update(self.id, self._apart(update))

    def _apart(self, update: Json) -> Json:
        """Begin a new paragraph where one message follows another: most clients join what comes in a row."""
        kind = update["sessionUpdate"]
        if kind == "agent_message_chunk":
            message, before = update.get("messageId", "note"), self.speaking
            self.speaking = message
            if before and (message != before or message == "note"):
                return {**update, "content": {"type": "text", "text": f"\n\n{update['content']['text']}"}}
        elif kind in _BETWEEN:
            self.speaking = ""
        return update

    async def note(self, text: str) -> None:
        """Say something as Warmline itself: shown and kept, and not for the model."""
        self.record.add(Noted(text=text))
        await self.tell(updates.chunk("agent_message", text))

    def move(self, cwd: Path, additional: tuple[Path, ...], servers: Any) -> None:
        """Work in other folders or with other servers; what was always permitted was so for those before."""
        head, given = self.record.head, list(servers or ())
        if (head.cwd, head.additional, self.given) != (cwd, additional, given):
            self.permissions = Permissions()
        self.given = given
        self.record.head = head.model_copy(update={"cwd": cwd, "additional": additional})

    def cancel(self) -> None:
        """Cancel the turn that runs and those that wait."""
        for turn in self.turns:
            cancel_once(turn)

    async def close(self) -> None:
        """Cancel what runs and wait until it has ended."""
        self.cancel()
        await asyncio.gather(*self.turns, return_exceptions=True)
        await self.servers.close()


def cancel_once(task: asyncio.Task[Any]) -> None:
    """Cancel a task, unless that was done before: a second time would interrupt its cleaning up."""
    if not task.cancelling():
        task.cancel()
