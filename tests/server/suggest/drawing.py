"""A suggestion drawn in its document: the cursor as │, what is inserted as ⟦...⟧ right after it."""

from warmline_server.suggest import Context, Suggestion


def parse(drawing: str, language: str = "python") -> tuple[Context, str | None]:
    """The context that `drawing` shows, and the insertion, None where no ⟦...⟧ follows the cursor."""
    before, cursor, after = drawing.partition("│")
    if not cursor or "│" in after:
        raise ValueError("a drawing has one cursor: │")
    inserted = None
    if after.startswith("⟦"):
        inserted, end, after = after[1:].partition("⟧")
        if not end:
            raise ValueError("an insertion ends with ⟧")
    return Context(before, after, language), inserted


def draw(context: Context, suggestion: Suggestion) -> str:
    """The drawing of `suggestion` in `context`."""
    inserted = "" if suggestion.text is None else f"⟦{suggestion.text}⟧"
    return f"{context.before}│{inserted}{context.after}"
