"""What the suggestions of one session share: settings, kept answers, typing rhythm, what runs, what was seen where."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from cachetools import LRUCache
from warmline.prompts.window import window

from ..context.excerpts import header
from ..context.gitignore import GitIgnore
from ..context.ring import Excerpt, Ring
from ..suggest.cache import ResultCache
from ..suggest.context import Context
from ..suggest.extent import wants_lines
from ..suggest.pipeline import suggest
from ..suggest.question import Question
from ..suggest.rhythm import Rhythm
from ..suggest.settings import SuggestSettings
from ..suggest.typed_along import may_still_agree
from . import refusals, uris
from .speculating import Speculation
from .visits import Visits

if TYPE_CHECKING:
    from warmline.variant import ResolvedVariant

    from .cursor import Cursor
    from .session import Session
    from .variants import Place

_DOCUMENTS: Final = 256


@dataclass(frozen=True, slots=True)
class Asked:
    """A question, and what goes to the model along with it.

    `sources` says of what documents the `context` is; `once` that whoever asks does not ask again for more candidates.
    """

    question: Question
    language: str
    path: str | None
    context: tuple[str, ...]
    header: str
    sources: tuple[str, ...]
    once: bool = False

    @property
    def about(self) -> dict[str, Any]:
        """What belongs to the prompt besides the window."""
        return {
            "document": self.question.document,
            "path": self.path,
            "context": self.context,
            "header": self.header,
        }


class Generation:
    """An answer in the making: what the model has said so far to a question."""

    def __init__(self, asked: Asked) -> None:
        self._question = asked.question
        view = asked.question.view
        self._context = Context(view.prefix, view.suffix, asked.language)
        self._raw = ""

    def told(self, raw: str) -> None:
        """Take all text so far, as the model wrote it."""
        self._raw = raw

    def serves(self, later: Question) -> bool:
        """Tell whether the answer may be to a later question too, since what was typed is what is being said.

        Before the first word there is nothing to agree with, and a prompt with what was typed in it knows more.
        """
        typed = later.typed_since(self._question) if later.most <= self._question.most else None
        if not typed or not self._raw:
            return False
        so_far = suggest(self._context, self._raw, multiline=self._question.multiline).text or ""
        return may_still_agree(so_far, typed)


class Suggesting:
    """State of a session's suggestions."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.results = ResultCache(lambda: self.settings.reuse)
        self.rhythm = Rhythm()
        self.git = GitIgnore()
        self.speculation = Speculation(session)
        self.ring = Ring(lambda: self.settings.context_excerpts, lambda: self.settings.context_declarations)
        self.visits = Visits(session, self.ring)
        self.generations: LRUCache[str, Generation] = LRUCache(_DOCUMENTS)
        self.latest: LRUCache[str, Question] = LRUCache(_DOCUMENTS)
        self._logged: LRUCache[str, str] = LRUCache(_DOCUMENTS)
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def settings(self) -> SuggestSettings:
        """What the person set."""
        return self._session.settings.suggest

    def ask_about(
        self, cursor: Cursor, place: Place, variant: ResolvedVariant, *, explicit: bool, once: bool = False
    ) -> Asked:
        """Put a question about a cursor."""
        snapshot, settings = cursor.snapshot, self.settings
        view = window(cursor.lines, cursor.line, cursor.column)
        around = Context(view.prefix, view.suffix, snapshot.language_id)
        multiline = wants_lines(around, settings, explicit=explicit)
        path = refusals.path_in(place, uris.to_path(snapshot.uri))
        folder = str(place.workspace.root) if place.workspace else ""
        beside = self.ring.beside(folder, snapshot.uri, view.prefix + view.suffix) if folder else ()
        most = settings.candidates if explicit else 1
        question = Question(snapshot.uri, variant, view, multiline, most, settings)
        # Alone a name above the text helps no model that was not trained for it; after other texts it ends them.
        named = header(path, snapshot.language_id) if path and beside else ""
        sources = tuple(_source(place, each) for each in beside)
        return Asked(question, snapshot.language_id, path, tuple(each.text for each in beside), named, sources, once)

    def is_latest(self, question: Question) -> bool:
        """Tell whether no other question about its document has come since."""
        return self.latest.get(question.document) == question

    def is_news(self, uri: str, reason: str) -> bool:
        """Tell whether a document's reason for showing nothing is another one than last time."""
        known, self._logged[uri] = self._logged.get(uri), reason
        return reason != known

    def typed(self) -> None:
        """A document was edited."""
        self.rhythm.typed(time.monotonic())

    def opened(self, uri: str) -> None:
        """A document was opened."""
        self._soon(self.visits.opened(uri))

    def moved(self, uri: str, line: int) -> None:
        """A document got the focus, its cursor at a line."""
        self._soon(self.visits.at(uri, line))

    def closed(self, uri: str) -> None:
        """A document is about to be closed."""
        self.generations.pop(uri, None)
        self.latest.pop(uri, None)
        self._logged.pop(uri, None)
        self.speculation.stop(uri)
        snapshot = self._session.documents.get(uri)
        if snapshot is not None:
            self._soon(self.visits.closed(snapshot))

    def renamed(self, uri: str) -> None:
        """A document, or a folder, has another name than this one from here on."""
        self.speculation.stop()
        if self.visits.renamed(uri):
            self._stop_all()

    def configured(self, before: SuggestSettings) -> None:
        """The settings changed: nothing goes out any more that they would refuse now."""
        if self.settings == before:
            return
        self.speculation.stop()
        if refusals.rules(self.settings) != refusals.rules(before):
            self.ring.clear()
            self._stop_all()

    def close(self) -> None:
        """Stop everything."""
        self.speculation.stop()
        for task in self._tasks:
            task.cancel()

    def _stop_all(self) -> None:
        # What has been asked has the texts from before with it.
        self._session.requests.stop_all()
        self._session.prewarm.close()

    def _soon(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _source(place: Place, excerpt: Excerpt) -> str:
    """Name the document of an excerpt, and which kind of text it is where that is not lines of it."""
    name = refusals.path_in(place, uris.to_path(excerpt.uri)) or uris.name(excerpt.uri)
    return f"{name} (declarations)" if excerpt.declares else name
