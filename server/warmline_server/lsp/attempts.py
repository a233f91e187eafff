"""What is known of the places whose variants are in use, and the tries from which it is known."""

from __future__ import annotations

from dataclasses import dataclass, field

from warmline.errors import WarmlineError
from warmline.variant import ResolvedVariant

from .variants import Place


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try to use a place's variant; a later try's outcome outweighs an earlier one's, whenever it comes."""

    number: int
    place: Place


@dataclass(slots=True)
class Known:
    """What is known of a place; `place` is None for documents that have none.

    `chat` is the variant to chat with where it is another, `judged` the number of the latest attempt that ended,
    `warned` what the person was told since it worked last.
    """

    place: Place | None
    variant: str
    chat: str = ""
    identity: str = ""
    usable: ResolvedVariant | None = None
    error: WarmlineError | None = None
    suggestion: str | None = None
    judged: int = 0
    warned: set[tuple[str, str]] = field(default_factory=set)
