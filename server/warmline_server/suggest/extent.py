"""How far a suggestion reaches: one line or several, by where the cursor stands."""

from __future__ import annotations

from .context import Context
from .indentation import opens_block
from .settings import SuggestSettings


def wants_lines(context: Context, settings: SuggestSettings, *, explicit: bool) -> bool:
    """Tell whether a suggestion may have several lines.

    On a blank line, after what opens a block, and inside brackets that nothing closes, the natural end is further down.
    In the middle of a statement it is the line's end: to decode on would only make the answer later.
    """
    if settings.lines != "auto":
        return settings.lines == "several"
    if explicit or context.blank:
        return True
    if context.rest:
        return context.cursor_line.rstrip().endswith("{")  # a block that the editor has closed already
    return opens_block(context.cursor_line, context.language) or (context.line_spare > 0 and not context.prose)
