"""One completion at a cursor, from document to shown text: what the language server and the command line share."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from warmline.errors import BackendError
from warmline.host.client import EngineClient
from warmline.host.wire import CompletionRequest, Delta, Done, Event, Outcome, Started
from warmline.prompts.window import LineSource, Window, WindowLimits, looks_binary, window
from warmline.variant import ResolvedVariant

from .suggest.context import Context
from .suggest.pipeline import is_settled, suggest

if TYPE_CHECKING:
    from .lsp.documents import Snapshot

# No profile allows more than 4096 tokens; a backend that goes on past any text those could hold is not believed.
_MAX_RAW: Final = 1 << 18

#: `Completion.reason` of a request that a newer one for the same document replaced, and of one that was cancelled.
SUPERSEDED: Final = "superseded"
CANCELLED: Final = "cancelled"
#: And of one that the engine was not asked for, since the document is no text.
BINARY: Final = "binary"

# Code points looked at for being text, at the start and on each side of the cursor; a look costs 0.1 ms for 1000.
_SAMPLE: Final = 1024


@dataclass(frozen=True, slots=True)
class Completion:
    """What came of one request.

    Attributes
    ----------
    text
        What to insert at the cursor, with the document's line ends; None when there is nothing to show.
    reason
        ``shown``; ``binary``; ``superseded`` or ``cancelled``; ``length`` or ``deadline`` when the text ends where
        that cut it, a half line left out; else the suggestion filter that cut or emptied the text.
    started, done
        The engine's first and last event. `done` is None when the decode was stopped because the shown text could not
        change any more, `started` when the engine ended the request before it began.
    outcome
        How the decode ended, None when it was stopped.
    total_ms
        Milliseconds from the call until the answer.
    """

    text: str | None
    reason: str
    started: Started | None
    done: Done | None
    outcome: Outcome | None
    total_ms: float


def is_binary(document: Snapshot, offset: int) -> bool:
    """Tell whether a document is no text, as far as its start and what is around an offset say."""
    around = document.slice(max(offset - _SAMPLE, 0), offset + _SAMPLE)
    return looks_binary(document.slice(0, _SAMPLE)) or looks_binary(around)


def refused(reason: str) -> Completion:
    """Make the outcome of a request that the engine was not asked for."""
    return Completion(None, reason, None, None, None, 0.0)


async def complete(
    engine: EngineClient,
    variant: ResolvedVariant,
    lines: LineSource,
    line: int,
    column: int,
    *,
    client: str,
    document: str,
    language: str = "",
    path: str | None = None,
    eol: str = "\n",
    max_tokens: int | None = None,
    multiline: bool = True,
    stops: tuple[str, ...] = (),
    max_predict_ms: int | None = None,
    limits: WindowLimits | None = None,
) -> Completion:
    """Complete the text at a cursor.

    Cancelling the task stops the decode within one token, and so does text that can't change what is shown any more.

    Parameters
    ----------
    lines
        The document; an immutable one, since it is read once, at the start.
    line, column
        The cursor, from 0, `column` in code points.
    client, document
        Who asks and about what: a newer request with the same two ends this one.
    language
        LSP language id, for the filters.
    path
        The file's path, if it has one, for the prompt.
    eol
        Line end of the inserted text.
    max_tokens
        At most so many, in place of the profile's.
    multiline
        False for a suggestion of one line.
    stops
        Texts that end a generation, besides those of the FIM format.
    max_predict_ms
        Milliseconds after the first token at which the decode ends with what it has.

    Raises
    ------
    WarmlineError
        What the engine raises; ``backend.protocol`` when it ends without saying how.
    """
    begun = time.perf_counter()
    view = window(lines, line, column, limits)
    context = Context(view.prefix, view.suffix, language, stops)
    request = _request(
        view,
        client=client,
        document=document,
        variant=variant,
        path=path,
        max_tokens=max_tokens,
        stop=stops,
        max_predict_ms=max_predict_ms,
    )
    started, done, raw = await _decode(engine.complete(request), context, multiline)
    outcome = done.outcome if done else None
    if outcome is Outcome.SUPERSEDED:
        text, reason = None, SUPERSEDED
    elif outcome is Outcome.CANCELLED:
        text, reason = None, CANCELLED
    else:
        # Where the tokens ran out, the last line is half a line; after whole ones it is better left out.
        ran_out = outcome in (Outcome.LENGTH, Outcome.DEADLINE)
        whole_lines = raw[: raw.rfind("\n") + 1]
        suggestion = suggest(context, whole_lines if ran_out and whole_lines.strip() else raw, multiline=multiline)
        text, reason = suggestion.text, suggestion.reason
        if outcome is not None and ran_out and reason == "shown":
            reason = outcome.value
    if text is not None and eol != "\n":
        text = text.replace("\n", eol)
    return Completion(text, reason, started, done, outcome, (time.perf_counter() - begun) * 1000)


async def prewarm(
    engine: EngineClient,
    variant: ResolvedVariant,
    lines: LineSource,
    line: int,
    column: int,
    *,
    client: str,
    document: str,
    path: str | None = None,
    limits: WindowLimits | None = None,
) -> None:
    """Have the prompt of `complete` with the same arguments prefilled when nothing else is to do.

    Raises
    ------
    WarmlineError
        The engine cannot be reached.
    """
    view = window(lines, line, column, limits)
    await engine.prewarm(_request(view, client=client, document=document, variant=variant, path=path))


def _request(view: Window, **more: Any) -> CompletionRequest:
    return CompletionRequest(prefix=view.prefix, suffix=view.suffix, first_line=view.first_line, **more)


async def _decode(
    events: AsyncIterator[Event], context: Context, multiline: bool
) -> tuple[Started | None, Done | None, str]:
    """Read events until the text is settled or the generation over; whatever happens, the decode is stopped then."""
    started: Started | None = None
    raw = ""
    try:
        async for event in events:
            if isinstance(event, Done):
                return started, event, event.text
            if isinstance(event, Started):
                started = event
            elif isinstance(event, Delta):
                raw += event.text
                if is_settled(context, raw, multiline=multiline) or len(raw) > _MAX_RAW:
                    return started, None, raw
    finally:
        # An async generator's own clean-up would wait for the garbage collector, and the decode with it.
        close = getattr(events, "aclose", None)
        if close is not None:
            with contextlib.suppress(StopAsyncIteration):
                await close()
    raise BackendError(
        "the engine ended an answer without saying how",
        code="backend.protocol",
        remedy="Ask again; if it happens again: warmline engine logs says more, warmline engine stop starts it anew",
    )
