"""`warmline/status`: what answers, where it came from, how the last request went, and what is wrong.

The server sends the notification on every change; a client may also ask, by a request of the same method or by the
command ``warmline.status``. The parameters (and both answers) are a `StatusReport`; `StatusReport.model_json_schema()`
is their schema.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from pydantic import Field
from warmline.errors import WarmlineError
from warmline.host.wire import (
    BackendStatus,
    ContextStatus,
    EngineStatus,
    ErrorInfo,
    Message,
    State,
    VariantStatus,
)

if TYPE_CHECKING:
    from .protocol import WarmlineServer

METHOD: Final = "warmline/status"


class BaseReport(Message):
    """The base model."""

    name: str
    digest: str


class AdapterReport(Message):
    """One adapter. `effective_scale` is ``scale * alpha / rank``; `verified`: made for this very base."""

    name: str
    digest: str
    scale: str
    effective_scale: str
    trust: str
    verified: bool
    source: str = ""


class LastReport(Message):
    """The latest request of this editor that reached a first token; times in milliseconds."""

    reused_tokens: int
    prompt_tokens: int
    reason: str
    ttft_ms: float
    total_ms: float


class StatusReport(Message):
    """All that an editor shows of Warmline."""

    state: State = Field(description="What the engine is doing; `failed` while `error` is set.")
    variant: str = Field(default="", description="Name of the variant that answers or was asked for.")
    identity: str = Field(default="", description="Digest of the exact variant; empty until it is known.")
    base: BaseReport | None = None
    adapters: tuple[AdapterReport, ...] = ()
    backend: BackendStatus | None = None
    context: ContextStatus | None = None
    last: LastReport | None = None
    suggestion: str | None = Field(
        default=None, description="`shown`, or why the latest request showed nothing or less than was decoded."
    )
    error: ErrorInfo | None = None


def error_info(error: WarmlineError) -> ErrorInfo:
    """Give an error as data."""
    return ErrorInfo.model_validate(error.to_dict())


class StatusBoard:
    """Puts the report together from what the session and the engine say, and sends it when it has changed.

    Attributes
    ----------
    engine
        The engine's latest status, None before there is an engine.
    last, suggestion
        How this editor's own latest request went: an engine may have other clients too.
    """

    def __init__(self, send: Callable[[dict[str, Any]], None]) -> None:
        self._send = send
        self._sent: StatusReport | None = None
        self._failure: tuple[str, ErrorInfo] | None = None
        self.engine: EngineStatus | None = None
        self.last: LastReport | None = None
        self.suggestion: str | None = None

    def fail(self, variant: str, error: WarmlineError) -> None:
        """Show an error that concerns the variant at hand."""
        self._failure = (variant, error_info(error))
        self.publish()

    def mend(self) -> None:
        """Take the error back."""
        self._failure = None
        self.publish()

    def publish(self) -> None:
        """Send the report, if it isn't the one sent last."""
        report = self.report()
        if report != self._sent:
            self._sent = report
            self._send(report.model_dump(mode="json"))

    def report(self) -> StatusReport:
        """Put the report together."""
        engine = self.engine or EngineStatus(state=State.EMPTY)
        if self._failure is not None:
            # What answered before answers no more; to go on showing it would be a silent fall back.
            variant, error = self._failure
            return StatusReport(
                state=State.FAILED, variant=variant, last=self.last, suggestion=self.suggestion, error=error
            )
        return StatusReport(
            state=engine.state,
            **(_of(engine.active) if engine.active else {}),
            last=self.last,
            suggestion=self.suggestion,
            error=engine.error if engine.state is State.FAILED else None,
        )


def _of(active: VariantStatus) -> dict[str, Any]:
    return {
        "variant": active.variant,
        "identity": active.identity,
        "base": BaseReport(name=active.base.name, digest=active.base.digest),
        "adapters": tuple(
            AdapterReport.model_validate(adapter.model_dump(include=set(AdapterReport.model_fields)))
            for adapter in active.adapters
        ),
        "backend": active.backend,
        "context": active.context,
    }


async def status(ls: WarmlineServer, *_: object) -> dict[str, Any]:
    """Answer the request and the command with the state now."""
    return await ls.session.status_now()
