"""The next suggestion, before it is asked for: what would follow the one that is shown, decoded while nothing else is.

It is a guess about the state after acceptance. Whatever is really asked, the engine drops it at once; its prompt is the
present one with the suggestion appended, so that it costs no warm KV of the text before the cursor.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from warmline.errors import WarmlineError

from .. import completion
from ..completion import Completion
from ..suggest.cache import Answer, IdentityDigest
from ..suggest.context import Context
from ..suggest.extent import wants_lines
from ..suggest.question import Question
from . import refusals

if TYPE_CHECKING:
    from .session import Session
    from .suggesting import Asked

# Seconds for which a suggestion must have been shown: who types on within that time has not read it.
DELAY: Final = 0.3


class Speculation:
    """At most one guess at a time: that about the suggestion which was shown last."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._ahead: Asked | None = None
        self._unshown: tuple[Question, Completion] | None = None
        self._task: asyncio.Task[None] | None = None

    def follow(self, asked: Asked, text: str) -> None:
        """A suggestion of `text` is shown as the answer to a question."""
        ahead = after(asked, text)
        if self.is_about(ahead) or self._session.suggesting.results.holds(ahead.question):
            return
        self.stop()
        self._ahead = ahead
        self._task = asyncio.ensure_future(self._decode(ahead))

    def is_about(self, asked: Asked) -> bool:
        """Tell whether the guess that is under way is the answer to a question."""
        under_way = self._task is not None and not self._task.done()
        return under_way and self._ahead is not None and asked.question.typed_since(self._ahead.question) == ""

    def first_shown(self, question: Question) -> Completion | None:
        """Give the decode behind the answer to a question, if it was a guess which is shown for the first time now."""
        if self._unshown is None or question.typed_since(self._unshown[0]) is None:
            return None
        result, self._unshown = self._unshown[1], None
        return result

    def stop(self, uri: str | None = None) -> None:
        """Drop the guess, or only one about this document."""
        if self._task is not None and (
            uri is None or (self._ahead is not None and self._ahead.question.document == uri)
        ):
            self._task.cancel()
            self._task = None

    async def _decode(self, ahead: Asked) -> None:
        await asyncio.sleep(DELAY)
        session, question = self._session, ahead.question
        # Other candidates may still be decoded: the engine would drop the guess for each of them.
        await session.requests.finished(question.document)
        # Errors are for the requests that somebody waits for.
        with contextlib.suppress(WarmlineError):
            engine = await session.engine()
            if not await self._may_ask(question):
                return
            result = await completion.complete_view(
                engine,
                question.variant,
                question.view,
                client=session.client_id,
                language=ahead.language,
                multiline=question.multiline,
                min_probability=question.settings.min_probability,
                idle=True,
                **ahead.about,
            )
            if result.started is not None and result.reason not in (completion.SUPERSEDED, completion.CANCELLED):
                texts = (result.text,) if result.text else ()
                identity = IdentityDigest(result.started.identity)
                session.suggesting.results.put(identity, question, Answer(texts, result.reason))
                self._unshown = (question, result)

    async def _may_ask(self, question: Question) -> bool:
        """Tell whether the document still is one of which text may be sent, by the settings as they are now."""
        suggesting, snapshot = self._session.suggesting, self._session.documents.get(question.document)
        if snapshot is None or not suggesting.settings.speculate:
            return False
        place = self._session.variants.place(question.document)
        return await refusals.in_document(snapshot, place, suggesting.settings, suggesting.git) is None


def after(asked: Asked, text: str) -> Asked:
    """Give the question that is asked once `text` was accepted."""
    question = asked.question
    view = replace(question.view, prefix=question.view.prefix + text)
    lines = wants_lines(Context(view.prefix, view.suffix, asked.language), question.settings, explicit=False)
    return replace(asked, question=replace(question, view=view, multiline=lines, most=1))
