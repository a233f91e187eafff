"""Where a session's messages to the editor go."""

from __future__ import annotations

from typing import Any, Protocol

from lsprotocol import types


class Outlet(Protocol):
    """What a session says to the editor; what the editor cannot do is quietly not done."""

    def notify(self, method: str, params: dict[str, Any]) -> None:
        """Send a notification."""

    def publish_diagnostics(self, uri: str, items: list[types.Diagnostic]) -> None:
        """Send a file's diagnostics."""

    def log(self, kind: types.MessageType, text: str) -> None:
        """Write to the editor's log."""

    def show(self, kind: types.MessageType, text: str) -> None:
        """Show a message to the person at the editor."""

    async def ask(self, kind: types.MessageType, text: str, answers: tuple[str, ...]) -> str | None:
        """Show a message and wait for one of the answers; None when it was put away."""

    async def create_progress(self, token: str) -> bool:
        """Ask for a progress report of the server's own; tell whether there may be one."""

    def send_progress(self, token: int | str, value: Any) -> None:
        """Send ``$/progress``."""

    async def show_document(self, uri: str) -> bool:
        """Open a document; tell whether that was done."""

    def refresh_lenses(self) -> None:
        """Say that code lenses may be others by now."""
