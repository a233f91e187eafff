"""A suggestion that says again what stands right above the cursor."""

from warmline_server.suggest.draft import Cut, Draft

_LONGEST = 8


def repeats_above(draft: Draft) -> Cut | None:
    """Nothing is left of a text that begins with the line above, or with the last lines above in their order."""
    count = draft.row + 1
    if count > _LONGEST or not any(c.isalpha() for c in draft.line):
        return None
    above = draft.context.above[-count:]
    if above == [line.rstrip() for line in draft.document_lines]:
        return Cut(0, 0, "repeats-above")
    return None
