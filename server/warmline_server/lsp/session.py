"""One editor's session: its documents, the engine it asks, and what is wrong with the variants it uses.

Everything here runs on the asyncio loop; the engine has threads of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import uuid
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Final

from lsprotocol import types
from warmline.errors import BackendError, WarmlineError
from warmline.host.client import EngineClient
from warmline.host.wire import State
from warmline.variant import ResolvedVariant

from .. import completion
from ..approval import Artifact
from ..paths import short_paths
from ..standing import standing
from . import status, suggestions, uris
from .attempts import Attempt, Known
from .configuration import Configuration
from .conversations import Conversations
from .counting import Counting
from .diagnostics import DiagnosticsBoard, diagnose
from .documents import DocumentStore
from .faults import typed
from .identities import Identities
from .initialize import Client
from .outlet import Outlet
from .prewarming import Prewarmer
from .progress import LoadProgress
from .recent import Recent
from .requests import LatestWins
from .settings import EditorSettings
from .suggesting import Suggesting
from .trust_prompt import TrustPrompt, may_bring
from .variants import NO_WORKSPACE, RESTRICTED, Nowhere, Place, Variants

#: First parts of the codes of errors that stay until a person does something about them.
_FOR_THE_PERSON: Final = frozenset({"trust", "config", "artifact", "variant"})
#: Another engine may follow.
_UNLOADED: Final = frozenset({State.EMPTY, State.FAILED, State.STOPPING})


class Session:
    """State of one editor's session.

    Parameters
    ----------
    client
        What the editor can do.
    home
        The user's store.
    outlet
        Where messages to the editor go.
    make_engine
        Makes the engine on first need. Called in a thread, since importing native libraries takes long and the loop
        goes on answering meanwhile; the engine's methods are called on the loop.
    """

    def __init__(
        self,
        client: Client,
        home: Path,
        outlet: Outlet,
        make_engine: Callable[[], EngineClient],
    ) -> None:
        self.client = client
        self.client_id = f"lsp-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self.home = home
        self.outlet = outlet
        self.documents = DocumentStore(client.encoding)
        roots = (path for path in map(uris.to_path, client.roots) if path is not None)
        self.variants = Variants(home, tuple(roots), restricted=client.restricted)
        self.prewarm = Prewarmer(self.documents.get, lambda cursor: suggestions.prewarm(self, cursor))
        self.requests: LatestWins[suggestions.Decoded] = LatestWins()
        self.suggesting = Suggesting(self)
        self.identities = Identities(home, self._identity)
        self.status = status.StatusBoard(
            lambda report: outlet.notify(status.METHOD, report), lambda known: standing(home, known)
        )
        self.diagnostics = DiagnosticsBoard(self._publish)
        self.configuration = Configuration(outlet, client.options)
        self.conversations = Conversations()
        self.recent = Recent()
        self.trust_prompt = TrustPrompt(home, outlet)
        self.counting = Counting(
            home, lambda: self.settings.stats.enabled, lambda text: outlet.log(types.MessageType.Warning, text)
        )
        self._load_progress = LoadProgress(outlet)
        self._make_engine = make_engine
        self._engine: EngineClient | None = None
        self._engine_lock = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._attempts = itertools.count(1)
        self._known: dict[str, Known] = {}
        self._loading: dict[str, bool] = {}
        self._loads: set[asyncio.Task[None]] = set()
        self._uri = ""
        self._current = ""

    async def engine(self) -> EngineClient:
        """Give the engine, made on first need.

        Raises
        ------
        BackendError
            ``backend.import``: its libraries can't be imported.
        """
        async with self._engine_lock:
            if self._engine is None:
                try:
                    self._engine = await asyncio.to_thread(self._make_engine)
                except (ImportError, OSError) as error:
                    raise BackendError(
                        f"the engine's libraries cannot be loaded: {error}",
                        code="backend.import",
                        remedy="Install Warmline again",
                    ) from error
                self._start(self._follow(self._engine))
            return self._engine

    @property
    def running_engine(self) -> EngineClient | None:
        """The engine if it has been needed yet."""
        return self._engine

    @property
    def settings(self) -> EditorSettings:
        """What the person set in the editor."""
        return self.configuration.settings

    @property
    def at_hand(self) -> str:
        """URI of the document that was turned to last; empty before."""
        return self._uri

    async def settled(self) -> None:
        """Wait until what is being loaded is, or has failed."""
        while self._loads:
            await asyncio.wait(self._loads)

    def configure(self, raw: object) -> None:
        """Take the editor's settings as they are now."""
        before = self.settings
        if self.configuration.take(raw) != before:
            self.suggesting.configured(before.suggest)
            self.outlet.refresh_lenses()

    async def status_now(self) -> dict[str, Any]:
        """Give the status report as JSON data, after asking the engine if there is one."""
        if self._engine is not None:
            # What is wrong with the engine is told by whatever needs it.
            with contextlib.suppress(WarmlineError, OSError):
                self.status.follow(await self._engine.status(self.client_id))
        report = self.status.report()
        # The answer goes out in the turn of the loop that comes next, and what others tell until then before it.
        loop = asyncio.get_running_loop()
        loop.call_soon(loop.call_soon, self.status.answered, report)
        return report.model_dump(mode="json")

    def prepare(self, uri: str) -> None:
        """Load the variant of a document that was opened, unless it is known to work as it is."""
        place = self.variants.place(uri)
        # Editors open documents of other schemes behind a person's back, as the left side of a comparison.
        if isinstance(place, Nowhere) and place.reason not in (NO_WORKSPACE, RESTRICTED):
            return
        place = self.turn_to(uri)
        if isinstance(place, Nowhere):
            return
        try:
            known = self.is_usable(place, self.variants.resolve(place))
        except WarmlineError:
            known = False
        if known:
            self.prewarm.ready(uri)
        else:
            self._load(place)

    def turn_to(self, uri: str) -> Place | Nowhere:
        """Find what selects a document's variant; the status is about that from here on."""
        self._forget_gone()
        self._uri = uri
        place = self.variants.place(uri)
        self._turn(place if isinstance(place, Place) else None)
        return place

    def is_usable(self, place: Place, variant: ResolvedVariant) -> bool:
        """Tell whether a place's variant, exactly as it is, has worked when it was used last."""
        known = self._known.get(place.name)
        return known is not None and known.usable == variant

    def refresh(self) -> None:
        """Resolve and load again whatever is in use; the document at hand may have another place by now."""
        if self._uri:
            self.turn_to(self._uri)
        for place in [known.place for known in self._known.values() if known.place is not None]:
            self._load(place)

    def begin(self, place: Place) -> Attempt:
        """Begin to use a place's variant; end with `failed` or `worked`."""
        self._turn(place)
        return Attempt(next(self._attempts), place)

    def failed(self, attempt: Attempt, variant: ResolvedVariant | None, error: Exception) -> None:
        """Show what went wrong: status, diagnostics, log."""
        self._forget_gone()
        known = self._judged(attempt)
        if known is None:
            return
        fault = typed(error, self.home)
        if known.error is None or known.error.to_dict() != fault.to_dict():
            self.outlet.log(types.MessageType.Error, f"{fault.code}: {fault}")
        known.variant = variant.name if variant else self.variants.selected_name(attempt.place)
        if known.usable is not None or known.error is None:
            self.outlet.refresh_lenses()
        known.usable, known.error = None, fault
        self._warn(attempt.place, known, fault, variant)
        self.diagnostics.show(attempt.place.name, diagnose(fault, attempt.place, variant, self.client))
        self._show()

    def worked(self, attempt: Attempt, variant: ResolvedVariant, identity: str | None = None) -> None:
        """Take back what was shown as wrong; `identity` is None where it was not told."""
        known = self._judged(attempt)
        if known is None:
            return
        if known.usable != variant:
            self.outlet.refresh_lenses()
        if identity is not None or known.usable != variant:
            known.identity = identity or ""
        known.variant, known.usable, known.error = variant.name, variant, None
        known.warned.clear()
        self.diagnostics.clear(attempt.place.name)
        self._show()

    def suggested(
        self,
        place: Place | Nowhere,
        reason: str,
        result: completion.Completion | None = None,
        sources: tuple[str, ...] = (),
    ) -> None:
        """Note why a document's latest request showed what it did, how its decode went, and what went along with it."""
        known = self._known.get(_name(place))
        if known is not None:
            known.suggestion = reason
        if result is not None and result.started is not None:
            started = result.started
            last = status.LastReport.of(started, result.total_ms, sources)
            self.status.requested(started.identity, last)
            self.recent.completed(known.variant if known is not None else "", result)
        self._show()

    async def offer_trust(self, place: Place, variant: ResolvedVariant, *, unasked: bool) -> list[Artifact]:
        """Ask whether what a workspace brings may be loaded, and load it then; errors as in `TrustPrompt.offer`."""
        root = place.workspace.root if place.workspace else None
        approved = await self.trust_prompt.offer(variant, root, unasked=unasked)
        if approved:
            self.refresh()
        return approved

    async def close(self) -> None:
        """Stop everything and let go of the engine."""
        self.prewarm.close()
        self.suggesting.close()
        self.requests.stop_all()
        self._load_progress.close()
        await self.counting.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        engine, self._engine = self._engine, None
        if engine is not None:
            await engine.close()

    def _turn(self, place: Place | None) -> None:
        name = _name(place)
        if name not in self._known:
            self._known[name] = Known(place, self.variants.selected_name(place) if place else "")
            self._note_chat(place)
        self._known[name].place = place
        self._current = name
        self._show()

    def _note_chat(self, place: Place | None) -> None:
        known = self._known.get(_name(place))
        if known is not None and place is not None:
            known.chat = self.variants.chat_name(place)

    def _forget_gone(self) -> None:
        """Drop what is known of places that select nothing any more, with the errors that they show."""
        places = [known.place for known in self._known.values() if known.place is not None]
        for place in places:
            if not self.variants.exists(place):
                del self._known[place.name]
                self.diagnostics.clear(place.name)
        if self._current not in self._known and self._uri:
            now = self.variants.place(self._uri)
            self._turn(now if isinstance(now, Place) else None)

    def _warn(self, place: Place, known: Known, error: WarmlineError, variant: ResolvedVariant | None) -> None:
        """Tell the person at the editor what only they can mend: once, and again only after it has worked meanwhile."""
        if error.code.partition(".")[0] not in _FOR_THE_PERSON:
            return
        if (error.code, known.variant) not in known.warned:
            known.warned.add((error.code, known.variant))
            asks = self.settings.trust.ask and error.code == "trust.unapproved"
            if asks and variant is not None and may_bring(variant):
                self._start(self._ask_for_trust(place, variant))
                return
            what = f"Warmline: no suggestions from {known.variant or 'the variant'}: {error.message}."
            root = place.workspace.root if place.workspace else None
            self.outlet.show(types.MessageType.Warning, short_paths(f"{what} {error.remedy}".rstrip(), root))

    async def _ask_for_trust(self, place: Place, variant: ResolvedVariant) -> None:
        try:
            await self.offer_trust(place, variant, unasked=True)
        except (WarmlineError, OSError) as error:
            self.outlet.log(types.MessageType.Error, f"nothing could be approved: {typed(error, self.home)}")

    def _show(self) -> None:
        known = self._known.get(self._current)
        if known is not None:
            usable = known.usable is not None
            subject = status.Subject(known.variant, known.identity, usable, known.error, known.suggestion, known.chat)
            self.status.show(subject)

    def _judged(self, attempt: Attempt) -> Known | None:
        """Give what the outcome of an attempt is to be noted in; None when it counts no more."""
        known = self._known.get(attempt.place.name)
        if known is None or attempt.number < known.judged:
            return None
        known.judged = attempt.number
        return known

    def _load(self, place: Place) -> None:
        # While a load runs, any number of changes make one further load, begun after the last of them.
        if place.name in self._loading:
            self._loading[place.name] = True
            return
        self._loading[place.name] = False
        load = self._start(self._load_until_settled(place))
        self._loads.add(load)
        load.add_done_callback(self._loads.discard)

    async def _load_until_settled(self, place: Place) -> None:
        try:
            while True:
                await self._load_once(place)
                if not self._loading[place.name]:
                    return
                self._loading[place.name] = False
        finally:
            del self._loading[place.name]

    async def _load_once(self, place: Place) -> None:
        attempt = Attempt(next(self._attempts), place)
        variant: ResolvedVariant | None = None
        self._note_chat(place)
        try:
            variant = self.variants.resolve(place)
            footing = self.identities.footing(variant)
            described = await (await self.engine()).load(variant, self.client_id)
        except Exception as error:
            self.failed(attempt, variant, error)
        else:
            self.identities.learn(variant, footing, described.identity)
            self.status.know(described)
            self.worked(attempt, variant, described.identity)
            unasked = self.prewarm.unasked
            if unasked and self.variants.place(unasked) == place:
                self.prewarm.ready(unasked)

    async def _identity(self, variant: ResolvedVariant) -> str:
        return (await (await self.engine()).describe(variant)).identity

    async def _follow(self, engine: EngineClient) -> None:
        """Pass the engine's states on for as long as it lives."""
        try:
            async for state in engine.watch(self.client_id):
                if state.state in _UNLOADED:
                    self.identities.forget()
                self.status.follow(state)
                self.status.publish()
                if self.settings.progress.enabled and self.client.progress:
                    self._load_progress.follow(state)
        except Exception as error:
            known = typed(error, self.home)
            self.outlet.log(types.MessageType.Error, f"the engine's state can't be followed: {known}")

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _publish(self, path: Path, items: list[types.Diagnostic]) -> None:
        self.outlet.publish_diagnostics(uris.to_uri(path), items)


def _name(place: Place | Nowhere | None) -> str:
    """Give the key under which a place's state is kept."""
    return place.name if isinstance(place, Place) else ""
