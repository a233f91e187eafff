"""What is asked about a document, and what has been typed from one question to a later one."""

from __future__ import annotations

from dataclasses import dataclass

from warmline.prompts.window import Window
from warmline.variant import ResolvedVariant

from .settings import SuggestSettings


@dataclass(frozen=True, slots=True)
class Question:
    """What of a document the model is asked about. Equal questions have equal answers from one exact variant.

    Attributes
    ----------
    document
        URI.
    variant
        As its files name it; what it exactly is, the engine says (`Identity`).
    view
        The document around the cursor.
    multiline
        Whether several lines are wanted.
    most
        How many different answers are wanted.
    settings
        Settings in force.
    """

    document: str
    variant: ResolvedVariant
    view: Window
    multiline: bool
    most: int
    settings: SuggestSettings

    def typed_since(self, earlier: Question) -> str | None:
        """Give what was typed after an earlier question, empty for none; None when something else has changed."""
        if self.document != earlier.document:
            return None
        # Before the rest, since it is quick to say no.
        typed = typed_between(earlier.view, self.view)
        same = typed is not None and (self.variant, self.settings) == (earlier.variant, earlier.settings)
        return typed if same else None


def typed_between(earlier: Window, now: Window) -> str | None:
    """Give what was inserted at the cursor between two windows, None when they differ in anything else.

    The later window may begin further down in the document: its start moves in steps as a person types.
    """
    if now.suffix != earlier.suffix or now.first_line < earlier.first_line:
        return None
    start = 0
    for _ in range(now.first_line - earlier.first_line):
        start = earlier.prefix.find("\n", start) + 1
        if start == 0:
            return None
    length = len(earlier.prefix) - start
    if len(now.prefix) < length or not now.prefix.startswith(earlier.prefix[start:]):
        return None
    return now.prefix[length:]
