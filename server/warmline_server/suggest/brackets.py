"""Brackets of code, read line by line with strings and comments skipped: rough, and silent where it can't be sure."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from warmline_server.suggest import languages

OPENER_OF = {")": "(", "]": "[", "}": "{"}
_CLOSED = re.compile(r"(?P<quote>[\"'`])(?:\\.|(?!(?P=quote))[^\\])*(?P=quote)")
_CLOSERS_ONLY = re.compile(r"\s*[)\]}][)\]};,\s]*")


@dataclass(frozen=True)
class Bracket:
    char: str
    column: int


@dataclass(frozen=True)
class Closing:
    """A closer in the last line of an insertion, and the (line, column) of the inserted opener it closes, if one."""

    column: int
    opened_at: tuple[int, int] | None


@dataclass(frozen=True)
class Walk:
    """How an insertion uses brackets, after some of its lines.

    `stack` holds the open brackets, outermost first, each with the (line, column) where the insertion opened it, None
    for those of the document; `spare` of the document's wait for a closer. Of the last line: `closings`, and in
    `excess` the first closer for which the document has no opener to spare and which the line does not open again.
    """

    stack: tuple[tuple[str, tuple[int, int] | None], ...]
    spare: int
    rows: int = 0
    closings: tuple[Closing, ...] = ()
    excess: Bracket | None = None


def closers_only(line: str) -> bool:
    """Whether a line has closing brackets and punctuation, nothing else."""
    return _CLOSERS_ONLY.fullmatch(line) is not None


@lru_cache(maxsize=64)
def _tokens(language: str) -> re.Pattern[str]:
    # An unclosed string takes the rest of its line: a bracket that may be text must not cost the user a suggestion.
    single = r"'(?:\\.|[^'\\\n])'" if language in languages.LONE_QUOTE else r"'(?:\\.|[^'\\\n])*'?"
    skipped = [r'"(?:\\.|[^"\\\n])*"?', single, r"`(?:\\.|[^`\\\n])*`?", r"/\*.*?(?:\*/|$)"]
    comment = languages.line_comment(language)
    if comment:
        skipped.append(re.escape(comment) + r"[^\n]*")
    return re.compile("|".join([*skipped, r"[()\[\]{}]"]))


def brackets(line: str, language: str) -> Iterator[Bracket]:
    """The brackets of one line that are code."""
    for found in _tokens(language).finditer(line):
        if found[0] in "()[]{}":
            yield Bracket(found[0], found.start())


def open_quote(line: str, language: str) -> str | None:
    """The quote of the string in which `line` ends, None outside of strings."""
    tokens = list(_tokens(language).finditer(line))
    if not tokens or tokens[-1].end() != len(line) or tokens[-1][0][0] not in "\"'`":
        return None
    token = tokens[-1][0]
    return None if _CLOSED.fullmatch(token) else token[0]


def left_open(lines: Sequence[str], language: str) -> list[str]:
    """The openers that `lines` leave open, outermost first."""
    stack: list[str] = []
    for line in lines:
        for bracket in brackets(line, language):
            if bracket.char not in OPENER_OF:
                stack.append(bracket.char)
            elif stack and stack[-1] == OPENER_OF[bracket.char]:
                stack.pop()
    return stack


def left_closed(lines: Sequence[str], language: str) -> list[str]:
    """The closers in `lines` whose openers stand before them, innermost first."""
    depth: list[str] = []
    found: list[str] = []
    for line in lines:
        for bracket in brackets(line, language):
            if bracket.char not in OPENER_OF:
                depth.append(bracket.char)
            elif depth:
                if depth[-1] == OPENER_OF[bracket.char]:
                    depth.pop()
            else:
                found.append(bracket.char)
    return found


def missing(opened: Sequence[str], closed: Sequence[str]) -> int:
    """How many of the openers before the cursor nothing after the cursor closes."""
    stack = list(opened)
    count = 0
    for closer in closed:
        if OPENER_OF[closer] in stack:
            while stack.pop() != OPENER_OF[closer]:
                count += 1
    return count + len(stack)


def walk_on(walk: Walk, head: str, line: str, language: str) -> Walk:
    """`walk` with one more line of the insertion; `head` is what the document has before it on that line.

    `a), (b` between `(` and `)` has no excess: it takes a bracket of the document and gives it back on the same line.
    """
    stack, spare = list(walk.stack), walk.spare
    closings: list[Closing] = []
    debt: list[Bracket] = []
    for bracket in brackets(head + line, language):
        column = bracket.column - len(head)
        if column < 0:
            continue
        if bracket.char not in OPENER_OF:
            if debt and OPENER_OF[debt[-1].char] == bracket.char:
                debt.pop()
                stack.append((bracket.char, None))
            else:
                stack.append((bracket.char, (walk.rows, column)))
            continue
        opened_at = None
        matches = bool(stack) and stack[-1][0] == OPENER_OF[bracket.char]
        if matches:
            opened_at = stack.pop()[1]
        if matches and opened_at is None and spare > 0:
            spare -= 1
        elif opened_at is None:
            debt.append(Bracket(bracket.char, column))
        closings.append(Closing(column, opened_at))
    return Walk(tuple(stack), spare, walk.rows + 1, tuple(closings), debt[0] if debt else None)
