"""Formats of tool calls: the profile's own, where it names one, else Warmline's."""

from __future__ import annotations

from typing import Final

from warmline.variant import Profile

from .format import Format, Held, Reader
from .native import HERMES, LLAMA3
from .neutral import Neutral

__all__ = ["FORMATS", "NEUTRAL", "Format", "Held", "Reader", "format_of"]

NEUTRAL: Final = Neutral()
FORMATS: Final[dict[str, Format]] = {each.name: each for each in (NEUTRAL, HERMES, LLAMA3)}


def format_of(profile: Profile) -> Format:
    """Give the format that a variant with this profile speaks."""
    return FORMATS[profile.tools] if profile.tools is not None else NEUTRAL
