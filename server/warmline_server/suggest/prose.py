"""Sentences of a chat-tuned model around its code: never inserted into code."""

import re

from warmline_server.suggest.draft import Cut, Draft

_BEGINS = re.compile(
    r"(?:Sure|Certainly|Absolutely|Of course|Okay|OK|Great|Here(?:['’]s| is| are)|Below (?:is|are)|Explanation"
    r"|Note that|As an AI|To (?:complete|fix|implement|finish|do this)|You can|In this|Let(?:['’]s| me|s)"
    r"|I(?:['’]m|['’]ve|['’]ll| am| have| will| can)|We (?:can|need|have)|It (?:looks|seems)"
    r"|Th(?:is|e|ese) (?:\w+ )?(?:code|function|method|class|snippet|implementation|completion|solution|following"
    r"|missing|completed?|corrected|will|is))\b"
)
_ENDS = re.compile(r"[.:!?]\s*\Z")
_QUOTED = re.compile(r"`[^`]*`")
_CODE = re.compile(r"[;={}()\[\]<>]|::|->")


def is_sentence(line: str) -> bool:
    """Whether a whole line is what an assistant says about code: a known beginning, a full stop, nothing of code."""
    line = _QUOTED.sub("code", line.strip())
    if not _BEGINS.match(line) or not _ENDS.search(line) or _CODE.search(line):
        return False
    return len(line.split()) >= 3 or line.endswith("!")


def turns_to_prose(draft: Draft) -> Cut | None:
    """An explanation after the code ends the code."""
    if draft.row == 0 or draft.context.prose or not is_sentence(draft.line):
        return None
    return Cut(draft.row, 0, "prose")
