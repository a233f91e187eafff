"""What may stand at the end of an insertion: no spaces or line ends, unless the rest of the line needs them."""

import re

from warmline_server.suggest.brackets import OPENER_OF
from warmline_server.suggest.context import Context

# Half a character: bytes that the detokenizer could not decode yet, or a lone surrogate.
_HALF = re.compile("[\ud800-\udfff\ufffd]+\\Z")


def trim(context: Context, text: str) -> str:
    text = _HALF.sub("", text)
    kept = text.rstrip()
    rest = context.rest
    if not rest or not kept:
        return kept
    tail = text[len(kept) :]
    first = context.cursor_line + kept.partition("\n")[0]
    if "\n" in kept and "\n" in tail and first.rstrip()[-1:] == OPENER_OF.get(rest[0]):
        # `{` and `}` pressed apart by whole lines: the closer after the cursor goes to a line of its own.
        return kept + "\n" + tail.rpartition("\n")[2]
    return kept + " " if tail.startswith(" ") and (rest[0].isalnum() or rest[0] in "_=+-*/<>&|!?") else kept
