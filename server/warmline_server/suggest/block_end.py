"""One suggestion is one block: it ends where the indentation falls below that of the cursor's line."""

import re

from warmline_server.suggest import brackets, languages
from warmline_server.suggest.draft import Cut, Draft
from warmline_server.suggest.indentation import base_width, leading, opens_block, width

_END_WORD = re.compile(r"(?:end|fi|done|esac)\b[;,)]*\s*\Z")
_BLANK_LINES = 3


def ends_block(draft: Draft) -> Cut | None:
    context, row, line = draft.context, draft.row, draft.line
    if row == 0:
        return None
    if not line.strip():
        return _ends_in_blank_lines(draft)
    base = base_width(context, draft.lines[0])
    columns = width(leading(line), context.tab_size)
    text = line.strip()
    if columns < base:
        if context.language in languages.PREPROCESSED and text.startswith("#"):
            return None
        if brackets.closers_only(line) and context.language not in languages.UNPAIRED:
            return None  # `closers` knows whether the document waits for it
        if _END_WORD.match(text) and text not in [below.strip() for below in context.below[:1]]:
            return None
        return Cut(row, 0, "block-end")
    after_blank = not draft.lines[-2].strip() and row > 1
    if columns == base and after_blank and opens_block(draft.document_lines[0], context.language):
        return Cut(row, 0, "block-end")
    return None


def _ends_in_blank_lines(draft: Draft) -> Cut | None:
    run = draft.lines[-_BLANK_LINES:]
    if draft.row >= _BLANK_LINES and not any(line.strip() for line in run):
        return Cut(draft.row - _BLANK_LINES + 1, 0, "blank-lines")
    return None
