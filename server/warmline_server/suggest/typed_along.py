"""A suggestion that is being typed: what is left of it."""

from __future__ import annotations


def rest(text: str, typed: str) -> str | None:
    """Give what of a suggestion is still to come, None when something else was typed or nothing is left."""
    if not text.startswith(typed) or len(text) == len(typed):
        return None
    return text[len(typed) :] if text[len(typed) :].strip() else None


def may_still_agree(text: str, typed: str) -> bool:
    """Tell whether a suggestion of which only the beginning `text` is known may turn out to be what is typed."""
    return text.startswith(typed) or typed.startswith(text)
