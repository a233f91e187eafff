"""`warmline/status`: what answers, where it came from, how the last request went, and what is wrong.

The server sends the notification on every change; a client may also ask, by a request of the same method or by the
command ``warmline.status``. The parameters (and both answers) are a `StatusReport`, of which ``warmline schema status``
prints the JSON Schema.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

from cachetools import LRUCache
from pydantic import Field
from warmline.errors import WarmlineError
from warmline.host.wire import (
    BackendStatus,
    ContextStatus,
    EngineStatus,
    ErrorInfo,
    Message,
    Started,
    State,
    VariantStatus,
)

from ..labels import suggested, warmth

if TYPE_CHECKING:
    from .protocol import WarmlineServer

METHOD: Final = "warmline/status"
_IDENTITIES: Final = 256
M = TypeVar("M", bound=Message)


class BaseReport(Message):
    """The base model; `trust` is who vouches for it, `merged_from` what a merged one was made of."""

    name: str
    digest: str
    source: str = ""
    trust: str = "user"
    merged_from: str | None = None


class AdapterReport(Message):
    """One adapter. `effective_scale` is ``scale * alpha / rank``; `verified`: made for this very base.

    `effect` is the largest change of a logit that was measured when it was loaded; null before that.
    """

    name: str
    digest: str
    scale: str
    effective_scale: str
    trust: str
    verified: bool
    source: str = ""
    declared_base: str = ""
    effect: float | None = None


class LastReport(Message):
    """The latest request of this editor, to this variant, that reached a first token; times in milliseconds."""

    reused_tokens: int
    prompt_tokens: int
    reason: str
    ttft_ms: float
    total_ms: float
    warmth: str = Field(default="", description="How much of the prompt was there, and why not more, in words.")
    sources: tuple[str, ...] = Field(
        default=(),
        description="Other documents of the folder of which text went to the model with it, oldest first, by their "
        "paths; with `(declarations)` where it was what they declare.",
    )

    @classmethod
    def of(cls, started: Started, total_ms: float, sources: tuple[str, ...] = ()) -> LastReport:
        """Put together how a request went from its first event and the time that it took."""
        reused, prompt, reason = started.reused_tokens, started.prompt_tokens, started.reason
        return cls(
            reused_tokens=reused,
            prompt_tokens=prompt,
            reason=reason,
            ttft_ms=started.ttft_ms,
            total_ms=total_ms,
            warmth=warmth(reason, reused, prompt, estimated=started.reused_estimated),
            sources=sources,
        )


class StatusReport(Message):
    """All that an editor shows of Warmline."""

    state: State = Field(description="What the engine is doing; `failed` while `error` is set.")
    variant: str = Field(default="", description="Name of the variant of the document that was turned to last.")
    chat: str = Field(default="", description="Name of the variant to chat with; empty where it is the same.")
    identity: str = Field(default="", description="Digest of the exact variant; empty until it is known.")
    base: BaseReport | None = None
    adapters: tuple[AdapterReport, ...] = ()
    backend: BackendStatus | None = None
    context: ContextStatus | None = None
    last: LastReport | None = None
    certificate: str = Field(
        default="",
        description="`certified`, `failed: ...`, `void: ...` (something of it changed since) or `none`; empty until "
        "the identity is known.",
    )
    suggestion: str | None = Field(
        default=None, description="`shown`, or why the latest request showed nothing or less than was decoded."
    )
    suggestion_text: str = Field(default="", description="The same in words.")
    error: ErrorInfo | None = None


def error_info(error: WarmlineError) -> ErrorInfo:
    """Give an error as data."""
    return ErrorInfo.model_validate(error.to_dict())


@dataclass(frozen=True, slots=True)
class Subject:
    """What the report is about: the variant of the document that was turned to last.

    Attributes
    ----------
    variant, identity
        Its name, and what it was when it worked last; empty while that is not known.
    usable
        Whether it worked when it was used last.
    error
        What is wrong with it.
    suggestion
        How its latest request ended.
    chat
        The variant to chat with, where it is another.
    """

    variant: str = ""
    identity: str = ""
    usable: bool = False
    error: WarmlineError | None = None
    suggestion: str | None = None
    chat: str = ""


class StatusBoard:
    """Puts the report together from what the session and the engine say, and sends it when it has changed.

    One editor has documents of several workspaces. What the engine calls active is whatever was used last, so it counts
    only as a description of what it describes, by name and identity.
    """

    def __init__(
        self, send: Callable[[dict[str, Any]], None], certificate: Callable[[VariantStatus], str] = lambda _: ""
    ) -> None:
        self._send = send
        self._certificate = certificate
        self._sent: StatusReport | None = None
        self._engine = EngineStatus(state=State.EMPTY)
        self._subject = Subject()
        self._described: LRUCache[tuple[str, str], VariantStatus] = LRUCache(_IDENTITIES)
        self._last: LRUCache[str, LastReport] = LRUCache(_IDENTITIES)

    def follow(self, engine: EngineStatus) -> None:
        """Take the engine's status, unless a later one is known: an answer may be overtaken by news."""
        if 0 < engine.revision < self._engine.revision:
            return
        self._engine = engine
        if engine.active is not None:
            self.know(engine.active)

    def know(self, described: VariantStatus) -> None:
        """Take what is known of a variant."""
        self._described[described.variant, described.identity] = described

    def requested(self, identity: str, last: LastReport) -> None:
        """Take how the latest request to an identity went."""
        self._last[identity] = last

    def last_of(self, identity: str) -> LastReport | None:
        """Tell how the latest request to an identity went; None when this editor has had none."""
        return self._last.get(identity)

    def show(self, subject: Subject) -> None:
        """Make the report about this."""
        self._subject = subject
        self.publish()

    def publish(self) -> None:
        """Send the report, if it isn't the one sent last."""
        report = self.report()
        if report != self._sent:
            self._sent = report
            self._send(report.model_dump(mode="json"))

    def answered(self, report: StatusReport) -> None:
        """Hear that somebody was answered with a report: what is newer, and was sent before that, is sent again."""
        if self.report() != report:
            self._sent = None
            self.publish()

    def report(self) -> StatusReport:
        """Put the report together."""
        subject = self._subject
        if subject.error is not None:
            # What answered before answers no more; to go on showing it would be a silent fall back.
            return StatusReport(
                state=State.FAILED,
                variant=subject.variant,
                chat=subject.chat,
                suggestion=subject.suggestion,
                suggestion_text=suggested(subject.suggestion or ""),
                error=error_info(subject.error),
            )
        described = self._described.get((subject.variant, subject.identity))
        return StatusReport(
            state=self._state(),
            chat=subject.chat,
            **(_of(described) if described else {"variant": subject.variant, "identity": subject.identity}),
            certificate=self._certificate(described) if described else "",
            last=self._last.get(subject.identity),
            suggestion=subject.suggestion,
            suggestion_text=suggested(subject.suggestion or ""),
        )

    def _state(self) -> State:
        if self._engine.state is not State.FAILED:
            return self._engine.state
        # Each failure of ours is known where it belongs, so this one belongs to a document of another workspace.
        return State.READY if self._subject.usable else State.EMPTY


def _of(active: VariantStatus) -> dict[str, Any]:
    return {
        "variant": active.variant,
        "identity": active.identity,
        "base": _picked(BaseReport, active.base),
        "adapters": tuple(_picked(AdapterReport, adapter) for adapter in active.adapters),
        "backend": active.backend,
        "context": active.context,
    }


def _picked(report: type[M], known: Message) -> M:
    """Take those fields of what the engine says that a report has."""
    return report.model_validate(known.model_dump(include=set(report.model_fields)))


async def status(ls: WarmlineServer, *_: object) -> dict[str, Any]:
    """Answer the request and the command with the state now."""
    return await ls.session.status_now()
