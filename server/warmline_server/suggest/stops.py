"""Stop texts and the special tokens of model families: the text ends where the first one does."""

import re
from functools import lru_cache

from warmline_server.suggest import languages

# Written from the tokenizers of the code models that people run locally: the <|...|> families (Qwen, Llama 3, phi),
# DeepSeek's full-width bars, StarCoder's and CodeGemma's names, CodeLlama's and Codestral's marks.
_BARS = r"<\|[^\s<>|]{1,40}\|>|<｜[^\s<>｜]{1,40}｜>"
_NAMES = (
    r"<(?:fim_(?:prefix|suffix|middle|pad)|fim-(?:prefix|suffix|middle)|file_sep|repo_name|reponame|filename|gh_stars"
    r"|issue_(?:start|comment|closed)|jupyter_(?:start|text|code|output)|commit_(?:before|msg|after)|empty_output"
    r"|endoftext|eos|bos|pad|unk|EOT|PRE|SUF|MID|(?:start|end)_of_turn|/?think|/?tool_call)>"
)
_MARKS = r"\[/?INST\]|\[(?:PREFIX|SUFFIX|MIDDLE)\]"
_SENTENCE = r"</s>|(?<!\w)<s>"
_UNFINISHED = re.compile(r"(?:<[^\s<>]{0,44}|\[/?[A-Z]{0,8})\Z")


@lru_cache(maxsize=64)
def special_tokens(language: str) -> re.Pattern[str]:
    """What no suggestion in `language` contains. <s> is a tag in markup, so it ends nothing there."""
    parts = [_BARS, _NAMES, _MARKS]
    if language not in languages.MARKUP:
        parts.append(_SENTENCE)
    return re.compile("|".join(parts))


def find_stop(text: str, language: str, stops: tuple[str, ...] = ()) -> int | None:
    """Where `text` ends because of a stop, None without one.

    The stop that is complete first counts, not the one that starts first: a decoder that looks after each token finds
    the same one.
    """
    found: list[tuple[int, int]] = []
    special = special_tokens(language).search(text)
    if special:
        found.append((special.end(), special.start()))
    for stop in stops:
        at = text.find(stop) if stop else -1
        if at >= 0:
            found.append((at + len(stop), at))
    return min(found)[1] if found else None


def sure_length(text: str, stops: tuple[str, ...] = ()) -> int:
    """How much of `text` no stop can take away any more; the remainder may be the beginning of one."""
    unfinished = _UNFINISHED.search(text)
    sure = unfinished.start() if unfinished else len(text)
    for stop in stops:
        for size in range(min(len(stop) - 1, len(text)), 0, -1):
            if text.endswith(stop[:size]):
                sure = min(sure, len(text) - size)
                break
    return sure
