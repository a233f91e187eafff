"""From a cursor to suggestions, or to the reason why there is none: what both completion methods do.

What can be answered without the model is: from answers that were kept, or from the one that is being decoded.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Coroutine
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from lsprotocol import types
from warmline.errors import WarmlineError
from warmline.variant import ResolvedVariant

from .. import completion
from ..completion import Completion
from ..suggest.cache import Answer, IdentityDigest
from ..suggest.question import Question
from ..suggest.typed_along import rest
from . import refusals
from .cursor import Cursor
from .suggesting import Asked, Generation
from .variants import Nowhere, Place

if TYPE_CHECKING:
    from warmline.host.client import EngineClient

    from .session import Session

# Milliseconds that each further candidate may take after its first token: who asked is waiting for all of them.
_FURTHER_MS: Final = 1000
# Seconds after the first candidate at which those there are, are shown; asking again gives the others too.
_PATIENCE: Final = 0.3
# The same where nobody asks again: longer than all others take within their time, unless the engine has more to do.
_ALL_PATIENCE: Final = 4.0
_GIVEN_UP: Final = (completion.SUPERSEDED, completion.CANCELLED)


@dataclass(frozen=True, slots=True)
class Suggested:
    """Text to insert at the cursor, and the variant that wrote it."""

    text: str
    variant: str


@dataclass(frozen=True, slots=True)
class Decoded:
    """What the engine made of a question: the first completion is the variant's own, others are alternatives."""

    question: Question
    completions: tuple[Completion, ...]

    @property
    def identity(self) -> IdentityDigest | None:
        """Which exact variant answered; None when the engine ended it before it began."""
        started = self.completions[0].started
        return IdentityDigest(started.identity) if started else None

    @property
    def answer(self) -> Answer:
        """The texts, without doubles."""
        texts = dict.fromkeys(each.text for each in self.completions if each.text)
        return Answer(tuple(texts), self.completions[0].reason)


async def suggest(session: Session, cursor: Cursor, *, automatic: bool, once: bool = False) -> list[Suggested]:
    """Complete at a cursor.

    Never raises but for cancellation: an error goes to the status and the diagnostics, since editors log or show each
    failed completion, key by key.

    Parameters
    ----------
    automatic
        The editor asked by itself, so that silence is better than a suggestion that gets in the way.
    once
        The editor does not ask again, so that the first answer has to be all of it.
    """
    snapshot, suggesting = cursor.snapshot, session.suggesting
    uri = snapshot.uri
    session.prewarm.asked(cursor)
    place = session.turn_to(uri)
    await suggesting.visits.at(uri, cursor.line)
    reason = refusals.at_cursor(cursor, suggesting.settings, automatic=automatic)
    reason = reason or await refusals.in_document(snapshot, place, suggesting.settings, suggesting.git)
    if reason is not None or isinstance(place, Nowhere):
        session.requests.stop(uri)
        suggesting.speculation.stop(uri)
        _silent(session, place, uri, reason or (place.reason if isinstance(place, Nowhere) else ""))
        return []
    attempt = session.begin(place)
    variant: ResolvedVariant | None = None
    try:
        variant = session.variants.resolve(place)
        asked = suggesting.ask_about(cursor, place, variant, explicit=not automatic, once=once)
        suggesting.latest[uri] = asked.question
        found: tuple[IdentityDigest | None, Answer] | None = await _kept(session, asked.question)
        decoded = None
        if found is not None:
            suggesting.rhythm.had_one()
        else:
            decoded = await _decoded(session, asked, automatic=automatic)
            if decoded is not None:
                found = (decoded.identity, _left(decoded, asked.question) or decoded.answer)
        given_up = found is None or found[1].reason in _GIVEN_UP
        stands = given_up or await _stands(session, uri, variant, decoded)
    except Exception as error:
        session.failed(attempt, variant, error)
        return []
    if found is None or given_up:
        return []
    if not stands:
        _silent(session, place, uri, refusals.IDENTITY_CHANGED)
        return []
    identity, answer = found
    session.worked(attempt, variant, identity)
    if not answer.texts:
        _silent(session, place, uri, answer.reason, decoded, asked)
        return []
    suggesting.is_news(uri, "")
    first = decoded.completions[0] if decoded else suggesting.speculation.first_shown(asked.question)
    session.suggested(place, answer.reason, first, asked.sources)
    session.counting.answered(uri, variant.name, first)
    if suggesting.settings.speculate:
        suggesting.speculation.follow(asked, answer.texts[0])
    eol = session.client.line_end_for(snapshot.eol)
    return [Suggested(text.replace("\n", eol), variant.name) for text in answer.texts]


async def prewarm(session: Session, cursor: Cursor) -> None:
    """Prefill what a request at the cursor would need, if one could be answered there. Never raises; see `suggest`."""
    suggesting, snapshot = session.suggesting, cursor.snapshot
    place = session.variants.place(snapshot.uri)
    if isinstance(place, Nowhere) or refusals.at_cursor(cursor, suggesting.settings, automatic=False) is not None:
        return
    if await refusals.in_document(snapshot, place, suggesting.settings, suggesting.git) is not None:
        return
    # Errors are for the requests that somebody waits for: this is only a guess.
    with contextlib.suppress(WarmlineError):
        variant = session.variants.resolve(place)
        if not session.is_usable(place, variant):
            return
        asked = suggesting.ask_about(cursor, place, variant, explicit=False)
        if suggesting.speculation.is_about(asked):
            return
        engine = await session.engine()
        await completion.prewarm(engine, variant, asked.question.view, client=session.client_id, **asked.about)


def _silent(
    session: Session,
    place: Place | Nowhere,
    uri: str,
    reason: str,
    decoded: Decoded | None = None,
    asked: Asked | None = None,
) -> None:
    """Say why nothing is shown: in the status each time, in the log when it is news."""
    session.suggested(place, reason, decoded.completions[0] if decoded else None, asked.sources if asked else ())
    if session.suggesting.is_news(uri, reason):
        name = uri.rpartition("/")[2]
        session.outlet.log(types.MessageType.Log, f"no suggestion in {name}: {reason}")


async def _stands(session: Session, uri: str, variant: ResolvedVariant, decoded: Decoded | None) -> bool:
    """Tell whether the document's variant still is exactly the one that answered; errors of one that is not usable."""
    # A kept answer's identity was compared when it was found.
    if decoded is not None and decoded.identity not in (None, await session.identities.of(variant)):
        return False
    # Last, with no await before the answer is shown: selecting is answered at any time.
    place = session.variants.place(uri)
    return isinstance(place, Place) and session.variants.resolve(place) == variant


async def _kept(session: Session, question: Question) -> tuple[IdentityDigest, Answer] | None:
    """Give what is left of an answer that was kept, if the variant still is the one that gave it."""
    results = session.suggesting.results
    if not results.holds(question):
        return None
    identity = await session.identities.of(question.variant)
    answer = results.get(identity, question)
    if answer is None or not session.suggesting.is_latest(question):
        return None
    session.requests.stop(question.document, unless=question)
    return identity, answer


async def _decoded(session: Session, asked: Asked, *, automatic: bool) -> Decoded | None:
    """Have the question answered: by the decode that runs, as long as it says what is typed, else by one of its own."""
    question, suggesting = asked.question, session.suggesting

    def start() -> Coroutine[Any, Any, Decoded]:
        # Now, not when the work begins: the next question looks at it.
        generation = suggesting.generations[question.document] = Generation(asked)
        return _decode(session, asked, generation, automatic=automatic)

    def serves() -> bool:
        generation = suggesting.generations.get(question.document)
        return generation is not None and generation.serves(question)

    # Whoever had to ask the engine which variant it is may be late: a later question is not to be stopped.
    while suggesting.is_latest(question):
        decoded = await session.requests.ask(question.document, question, start, serves)
        if decoded is None or decoded.question == question or decoded.completions[0].reason in _GIVEN_UP:
            return decoded
        if _left(decoded, question) and decoded.identity == await session.identities.of(question.variant):
            return decoded
        # It was another text in the end, or is all typed, or another variant's: the next turn begins a decode.
    return None


def _left(decoded: Decoded, question: Question) -> Answer | None:
    """Give what is left of an answer after what was typed since its question; None when nothing is."""
    typed = question.typed_since(decoded.question)
    answer = decoded.answer
    if not typed:
        return answer
    left = [text for text in (rest(each, typed) for each in answer.texts) if text is not None]
    return Answer(tuple(dict.fromkeys(left))[: question.most], answer.reason) if left else None


async def _decode(session: Session, asked: Asked, generation: Generation, *, automatic: bool) -> Decoded:
    question, suggesting = asked.question, session.suggesting
    wait = suggesting.rhythm.wait(time.monotonic(), question.settings.max_debounce_ms / 1000) if automatic else 0.0
    if wait > 0:
        await asyncio.sleep(wait)
    engine = await session.engine()

    def told(raw: str) -> None:
        generation.told(raw)
        session.requests.progressed(question.document)

    how: dict[str, Any] = {
        "client": session.client_id,
        "language": asked.language,
        "multiline": question.multiline,
        "min_probability": question.settings.min_probability,
        **asked.about,
    }
    begun = time.monotonic()
    try:
        first = await completion.complete_view(engine, question.variant, question.view, on_text=told, **how)
    except asyncio.CancelledError:
        suggesting.rhythm.gave_up(time.monotonic() - begun)
        raise
    decoded, took = Decoded(question, (first,)), time.monotonic() - begun
    if first.reason in _GIVEN_UP:
        suggesting.rhythm.gave_up(took)
        return decoded
    suggesting.rhythm.answered(took)
    _keep(session, replace(decoded, question=replace(question, most=1)))
    if question.most > 1:
        patience = _ALL_PATIENCE if asked.once else _PATIENCE
        decoded = await _further(session, engine, decoded, generation, patience, how)
        _keep(session, decoded)
    return decoded


async def _further(
    session: Session,
    engine: EngineClient,
    decoded: Decoded,
    generation: Generation,
    patience: float,
    how: dict[str, Any],
) -> Decoded:
    """Decode the other candidates; once `patience` is over, who waits gets what there is as soon as that is a text."""
    question = decoded.question
    late = shown = False

    def show() -> None:
        nonlocal late, shown
        late = True
        # A generation that was stopped may still get here, when another one has its place.
        if not shown and decoded.answer.texts and session.suggesting.generations.get(question.document) is generation:
            shown = True
            session.requests.answer(question.document, decoded)

    timer = asyncio.get_running_loop().call_later(patience, show)
    try:
        for number in range(1, question.most):
            how |= {"candidate": number, "max_predict_ms": _FURTHER_MS}
            try:
                other = await completion.complete_view(engine, question.variant, question.view, **how)
            except WarmlineError:
                break  # a backend may have no alternatives; what there is, is shown
            decoded = replace(decoded, completions=(*decoded.completions, other))
            if late:
                show()
    finally:
        timer.cancel()
    return decoded


def _keep(session: Session, decoded: Decoded) -> None:
    if decoded.identity is not None:
        session.suggesting.results.put(decoded.identity, decoded.question, decoded.answer)
