"""A suggestion that goes on with the lines which already stand below the cursor."""

import re

from warmline_server.suggest import brackets
from warmline_server.suggest.draft import Cut, Draft
from warmline_server.suggest.indentation import base_width, leading, width

_WAY_OUT = re.compile(r"\s*(?:return|raise|throw)\b")


def repeats_below(draft: Draft) -> Cut | None:
    below = draft.context.below
    line = draft.document_line.rstrip()
    if not below or not draft.line.strip():
        return None
    cut = Cut(draft.row, 0, "repeats-suffix")
    if line == below[0]:
        # A closer may be ours: it closes what the suggestion opened, and the document's is another one.
        ours = brackets.closers_only(line) and any(closing.opened_at for closing in draft.walk.closings)
        return None if ours else cut
    if _leaves_block(draft, line) and line in below:
        return cut
    # The budget of a generation may end within the repeated line.
    cut_short = not draft.complete and draft.row > 0 and len(line.strip()) >= 3
    return cut if cut_short and below[0].startswith(line) else None


def _leaves_block(draft: Draft, line: str) -> bool:
    """Whether `line` ends the cursor's own block: a block has one such line, so below the cursor it is the same one.

    Of other lines only the next counts: `if err != nil {` stands everywhere, and further down it is another one.
    """
    if not _WAY_OUT.match(line):
        return False
    tab_size = draft.context.tab_size
    return width(leading(line), tab_size) == base_width(draft.context, draft.lines[0])
