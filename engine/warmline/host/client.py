"""How the faces reach the engine, wherever it runs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Protocol

from ..variant import ResolvedVariant
from .wire import ChatRequest, CompletionRequest, EngineStatus, Event, VariantStatus


class EngineClient(Protocol):
    """The engine as its callers see it; every method may raise any `WarmlineError`.

    An implementation is bound to one asyncio loop.
    """

    def complete(self, request: CompletionRequest) -> AsyncIterator[Event]:
        """Yield `Started`, then `Delta`s, then `Done`.

        Closing the iterator (or cancelling the task that iterates) stops the decode within one token, also inside a
        prefill. A newer request with the same (client, document) ends this one with ``Done(outcome=superseded)``,
        which may then be its only event.
        """
        ...

    def chat(self, request: ChatRequest) -> AsyncIterator[Event]:
        """Yield a chat turn's events as `complete` does; completions interrupt it, and it goes on afterwards."""
        ...

    async def prewarm(self, request: CompletionRequest) -> None:
        """Say which prompt is likely next: it is prefilled when nothing else is to do. Never fails, tells nothing."""
        ...

    async def describe(self, variant: ResolvedVariant) -> VariantStatus:
        """Verify a variant's files and say what would answer, without loading weights where that can be avoided."""
        ...

    async def load(self, variant: ResolvedVariant, client: str = "") -> VariantStatus:
        """Make a variant ready to answer: verify, load, probe its adapters' effect."""
        ...

    async def embed(self, variant: ResolvedVariant, text: str, client: str = "") -> list[float]:
        """Return a text's embedding by the variant's base; refused (``backend.unsupported``) with adapters."""
        ...

    async def metrics(self) -> str:
        """Return the engine's metrics in Prometheus' text format."""
        ...

    async def status(self, client: str = "") -> EngineStatus:
        """Return the engine's state, and of a client its own variant, last request and error."""
        ...

    def watch(self, client: str = "") -> AsyncIterator[EngineStatus]:
        """Yield a client's status now and after every change; slow readers miss states in between, never the latest."""
        ...

    async def close(self) -> None:
        """Let go of the engine; an in-process one frees its models."""
        ...


def connect(home: Path) -> EngineClient:
    """Return the engine of a store: its host's process, started when it is first needed.

    Raises
    ------
    BackendError
        ``backend.runtime_folder``: there is no private place for the socket.
    """
    from .remote import RemoteEngine

    return RemoteEngine(home)
