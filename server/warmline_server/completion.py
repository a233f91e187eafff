"""One completion at a cursor, from document to shown text: what the language server and the command line share."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from warmline.errors import BackendError
from warmline.host.client import EngineClient
from warmline.host.wire import CompletionRequest, Delta, Done, Event, Outcome, Started
from warmline.prompts.window import LineSource, Window, WindowLimits, looks_binary, window
from warmline.variant import ResolvedVariant

from .suggest.confidence import WEAK, is_weak
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
        that cut it, a half line left out; ``weak`` when the model was not sure enough; else the suggestion filter that
        cut or emptied the text.
    started, done
        The engine's first and last event. `done` is None when the decode was stopped because the shown text could not
        change any more, `started` when the engine ended the request before it began.
    outcome
        How the decode ended, None when it was stopped.
    total_ms
        Milliseconds from the call until the answer.
    mean_probability
        That of the tokens that were decoded; None unless a floor for it was given and the backend tells it.
    """

    text: str | None
    reason: str
    started: Started | None
    done: Done | None
    outcome: Outcome | None
    total_ms: float
    mean_probability: float | None = None


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
    limits: WindowLimits | None = None,
    **how: Any,
) -> Completion:
    """Complete the text at a cursor: the window around it as `complete_view` does, with the same keywords.

    Parameters
    ----------
    lines
        The document; an immutable one, since it is read once, at the start.
    line, column
        The cursor, from 0, `column` in code points.
    """
    return await complete_view(engine, variant, window(lines, line, column, limits), **how)


async def complete_view(
    engine: EngineClient,
    variant: ResolvedVariant,
    view: Window,
    *,
    client: str,
    document: str,
    language: str = "",
    path: str | None = None,
    context: tuple[str, ...] = (),
    header: str = "",
    eol: str = "\n",
    max_tokens: int | None = None,
    multiline: bool = True,
    stops: tuple[str, ...] = (),
    max_predict_ms: int | None = None,
    min_probability: float = 0.0,
    candidate: int = 0,
    idle: bool = False,
    on_text: Callable[[str], None] | None = None,
) -> Completion:
    """Complete the text at the cursor of a window.

    Cancelling the task stops the decode within one token, and so does text that can't change what is shown any more.

    Parameters
    ----------
    client, document, candidate
        Who asks and about what, and for which of several answers: a newer request with the same three ends this one.
    language
        LSP language id, for the filters.
    path, context, header
        The file's path, if it has one, texts from other documents, and this one's name, for the prompt.
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
    min_probability
        Hide a text whose tokens have a lower mean probability.
    idle
        Nobody waits for it: decode only while nothing else is to do.
    on_text
        Called with all text so far whenever there is more, as the model wrote it.

    Raises
    ------
    WarmlineError
        What the engine raises; ``backend.protocol`` when it ends without saying how.
    """
    begun = time.perf_counter()
    around = Context(view.prefix, view.suffix, language, stops)
    request = _request(
        view,
        client=client,
        document=document,
        variant=variant,
        path=path,
        context=context,
        header=header,
        max_tokens=max_tokens,
        stop=stops,
        max_predict_ms=max_predict_ms,
        probability=min_probability > 0,
        candidate=candidate,
        idle=idle,
    )
    read = await _decode(engine.complete(request), around, multiline, on_text)
    outcome = read.done.outcome if read.done else None
    if outcome is Outcome.SUPERSEDED:
        text, reason = None, SUPERSEDED
    elif outcome is Outcome.CANCELLED:
        text, reason = None, CANCELLED
    else:
        # Where the tokens ran out, the last line is half a line; after whole ones it is better left out.
        ran_out = outcome in (Outcome.LENGTH, Outcome.DEADLINE)
        whole_lines = read.raw[: read.raw.rfind("\n") + 1]
        raw = whole_lines if ran_out and whole_lines.strip() else read.raw
        suggestion = suggest(around, raw, multiline=multiline)
        text, reason = suggestion.text, suggestion.reason
        if outcome is not None and ran_out and reason == "shown":
            reason = outcome.value
        if text is not None and is_weak(read.mean_probability, min_probability):
            text, reason = None, WEAK
    if text is not None and eol != "\n":
        text = text.replace("\n", eol)
    total_ms = (time.perf_counter() - begun) * 1000
    return Completion(text, reason, read.started, read.done, outcome, total_ms, read.mean_probability)


async def prewarm(
    engine: EngineClient,
    variant: ResolvedVariant,
    view: Window,
    *,
    client: str,
    document: str,
    path: str | None = None,
    context: tuple[str, ...] = (),
    header: str = "",
) -> None:
    """Have the prompt of `complete_view` with the same arguments prefilled when nothing else is to do.

    Raises
    ------
    WarmlineError
        The engine cannot be reached.
    """
    about: dict[str, Any] = {"path": path, "context": context, "header": header}
    await engine.prewarm(_request(view, client=client, document=document, variant=variant, **about))


def _request(view: Window, **more: Any) -> CompletionRequest:
    return CompletionRequest(prefix=view.prefix, suffix=view.suffix, first_line=view.first_line, **more)


@dataclass(slots=True)
class _Read:
    """What was read of a generation's events."""

    started: Started | None = None
    done: Done | None = None
    raw: str = ""
    mean_probability: float | None = None


async def _decode(
    events: AsyncIterator[Event], context: Context, multiline: bool, on_text: Callable[[str], None] | None
) -> _Read:
    """Read events until the text is settled or the generation over; whatever happens, the decode is stopped then."""
    read = _Read()
    try:
        async for event in events:
            if isinstance(event, Done):
                read.done, read.raw, read.mean_probability = event, event.text, event.mean_probability
                return read
            if isinstance(event, Started):
                read.started = event
            elif isinstance(event, Delta):
                read.raw += event.text
                read.mean_probability = event.mean_probability
                if on_text is not None:
                    on_text(read.raw)
                if is_settled(context, read.raw, multiline=multiline) or len(read.raw) > _MAX_RAW:
                    return read
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
