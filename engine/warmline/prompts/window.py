"""The part of a document that a completion sees; its edges move in steps, so that typing keeps the KV.

Everything here is a pure function of the document and the cursor. Stability comes from alignment, not from memory:

- the prefix starts at an absolute line number that is a multiple of ``step``;
- the suffix ends a multiple of ``step`` lines *before the document's end*: a new line above the cursor shifts every
  absolute number below it, but not the distance to the end, so Enter leaves the suffix's text as it is;
- a prefix that is too long in characters or tokens loses whole quarters of its budget, counted from that aligned
  start, which does not move while a person types.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

Tokenize = Callable[[str], list[int]]
Cut = Literal["none", "lines", "tokens"]

# A document is sampled, not read, when asked whether it is text.
_SAMPLE = 65536
_TEXT_CONTROLS = frozenset("\t\n\r\f\b\x1b")


class LineSource(Protocol):
    """A document by lines. A line ends with ``\\n``, ``\\r\\n`` or ``\\r`` (LSP 3.17) and keeps its end."""

    @property
    def line_count(self) -> int:
        """Number of lines; a document that ends with a line end has an empty last line."""
        ...

    def slice_lines(self, first: int, last: int) -> str:
        """Return lines ``first`` (inclusive) to ``last`` (exclusive), line ends included; clamps as a slice does."""
        ...


@dataclass(frozen=True)
class WindowLimits:
    """Sizes of a window, in lines and code points.

    Parameters
    ----------
    prefix_lines, suffix_lines
        Most lines before (the current one included) and after the current line.
    step
        The edges move by this many lines at once; at most ``prefix_lines``.
    max_prefix_chars, max_suffix_chars
        Most code points of each half; they matter for minified files.
    """

    prefix_lines: int = 256
    suffix_lines: int = 64
    step: int = 64
    max_prefix_chars: int = 32768
    max_suffix_chars: int = 8192

    def __post_init__(self) -> None:
        if not 1 <= self.step <= self.prefix_lines:
            raise ValueError("step must be between 1 and prefix_lines")
        if self.suffix_lines < 0 or self.max_prefix_chars < 1 or self.max_suffix_chars < 0:
            raise ValueError("window limits must not be negative, and the prefix needs room")


@dataclass(frozen=True)
class Window:
    """Text around a cursor, line ends normalised to ``\\n``.

    Parameters
    ----------
    prefix, suffix
        Text before and after the cursor.
    first_line, last_line
        Numbers (from 0) of the line in which the prefix starts and of the last line in the suffix.
    clipped_start, clipped_end
        Whether the document goes on before the prefix or after the suffix.
    mid_line
        Whether the prefix starts inside a line (a line longer than the limit).
    newline
        The document's own line end nearest the cursor, to restore in what is inserted.
    step
        The step that the window was cut with; `fit` aligns to a quarter of it.
    """

    prefix: str
    suffix: str
    first_line: int
    last_line: int
    clipped_start: bool
    clipped_end: bool
    mid_line: bool = False
    newline: str = "\n"
    step: int = 64


def window(lines: LineSource, line: int, column: int, limits: WindowLimits | None = None) -> Window:
    """Cut the window around a cursor; a cursor outside the document is moved to the nearest place in it.

    Parameters
    ----------
    line
        Line of the cursor, from 0.
    column
        Code points of that line before the cursor; never past its line end.
    """
    limits = limits or WindowLimits()
    count = max(lines.line_count, 1)
    line = min(max(line, 0), count - 1)
    current = lines.slice_lines(line, line + 1)
    end = _line_end(current)
    column = min(max(column, 0), len(current) - len(end))

    # The smallest multiple of step that leaves at most prefix_lines lines up to and with the current one.
    first = max(0, _ceil_div(line - limits.prefix_lines + 1, limits.step) * limits.step)
    raw = lines.slice_lines(first, line) + current[:column]
    start = _start_in_steps(raw, limits.max_prefix_chars)
    prefix = normalise(raw[start:])
    first_line = first + _line_ends(raw, start)
    mid_line = start > 0 and raw[start - 1] not in "\r\n"
    if start:
        # Prefer a whole line when one begins within the next quarter.
        found = prefix.find("\n", 0, limits.max_prefix_chars // 4) if mid_line else -1
        if found >= 0:
            prefix, first_line, mid_line = prefix[found + 1 :], first_line + 1, False

    after = count - line - 1
    left_out = max(0, _ceil_div(after - limits.suffix_lines, limits.step) * limits.step)
    stop = count - min(left_out, after)
    # Slicing before normalising bounds the work on a giant line; twice the limit is enough even if all is CRLF.
    tail = (current[column:] + lines.slice_lines(line + 1, stop))[: 2 * limits.max_suffix_chars + 1]
    whole = normalise(tail)
    suffix = whole[: limits.max_suffix_chars]
    cut_short = len(whole) > len(suffix)
    if cut_short:
        last_end = suffix.rfind("\n")
        if last_end >= limits.max_suffix_chars // 2:
            suffix = suffix[: last_end + 1]

    return Window(
        prefix=prefix,
        suffix=suffix,
        first_line=first_line,
        last_line=line + suffix[:-1].count("\n") if cut_short else stop - 1,
        clipped_start=first > 0 or start > 0,
        clipped_end=stop < count or cut_short,
        mid_line=mid_line,
        newline=end or (_line_end(lines.slice_lines(line - 1, line)) if line else "") or "\n",
        step=limits.step,
    )


@dataclass(frozen=True)
class FittedWindow:
    """A window as tokens within its budgets.

    Parameters
    ----------
    prefix_ids, suffix_ids
        Token ids of what is left of each half.
    first_line
        Line in which the kept prefix starts, before ``skipped_tokens`` are taken off.
    skipped_tokens
        Tokens dropped after ``first_line`` began, 0 unless ``prefix_cut`` is ``tokens``.
    prefix_cut, suffix_cut
        Whether anything was dropped, and at what grain.
    """

    prefix_ids: tuple[int, ...]
    suffix_ids: tuple[int, ...]
    first_line: int
    skipped_tokens: int
    prefix_cut: Cut
    suffix_cut: Cut

    @property
    def start(self) -> tuple[int, int]:
        """Where the prefix starts; while this stays and a person types at the end, the KV of the prefix stays."""
        return self.first_line, self.skipped_tokens


def fit(view: Window, tokenize: Tokenize, budget_prefix: int, budget_suffix: int) -> FittedWindow:
    """Tokenise a window and drop what exceeds the budgets (tokens): the prefix's front and the suffix's end.

    Each half is tokenised once when it fits, and at most three times over when it does not. Blocks of lines are
    dropped, aligned to absolute line numbers (suffix: to the window's end). Cuts are at least a quarter of the budget
    apart, so a start that must move moves far. Where no cut between blocks leaves at least half of the budget, whole
    quarters of it are dropped as tokens instead.
    """
    grain = max(1, view.step // 4)
    blocks = _blocks(_split_lines(view.prefix), grain - view.first_line % grain, grain)
    half = _fit_half(blocks, tokenize, budget_prefix, keep_end=True)

    tail = _split_lines(view.suffix)
    tail_blocks = [block[::-1] for block in _blocks(tail[::-1], grain, grain)]
    other = _fit_half(tail_blocks, tokenize, budget_suffix, keep_end=False)

    return FittedWindow(
        prefix_ids=half.ids,
        suffix_ids=other.ids,
        first_line=view.first_line + sum(len(block) for block in blocks[: half.dropped_blocks]),
        skipped_tokens=half.dropped_tokens,
        prefix_cut=half.cut,
        suffix_cut=other.cut,
    )


def fit_texts(texts: Sequence[str], tokenize: Tokenize, budget: int) -> tuple[int, ...]:
    """Tokenise texts that stand one after the other and drop what exceeds the budget (tokens), from the front.

    As in `fit`, cuts are at least a quarter of the budget apart and do not depend on the last text, so that one more
    text at the end mostly leaves the tokens before it as they were.
    """
    return _fit_half([[text] for text in texts], tokenize, budget, keep_end=True).ids if texts else ()


@dataclass(frozen=True)
class _Half:
    ids: tuple[int, ...]
    dropped_blocks: int
    dropped_tokens: int

    @property
    def cut(self) -> Cut:
        if self.dropped_tokens:
            return "tokens"
        return "lines" if self.dropped_blocks else "none"


def _fit_half(blocks: list[list[str]], tokenize: Tokenize, budget: int, *, keep_end: bool) -> _Half:
    """Fit one half given as blocks of lines in the order in which they are dropped."""

    def ids_from(first: int) -> list[int]:
        kept = blocks[first:] if keep_end else blocks[first:][::-1]
        text = "".join(line for block in kept for line in block)
        return tokenize(text) if text else []

    if budget <= 0:
        return _Half((), len(blocks), 0)
    ids = ids_from(0)
    if len(ids) <= budget:
        return _Half(tuple(ids), 0, 0)

    quarter = max(1, budget // 4)
    # Token counts of blocks alone decide where cuts may be: those of the blocks before the cursor's do not change
    # while a person types, so neither do the cuts.
    sizes = [len(tokenize("".join(block))) for block in blocks]
    cuts, since = [0], 0
    for index, size in enumerate(sizes[:-1], start=1):
        since += size
        if since >= quarter:
            cuts.append(index)
            since = 0
    before, too_long = 0, ids
    for cut in cuts[1:]:
        # A sum of parts is rarely below the whole; a cut that is hopeless by the sum is not worth tokenising.
        if sum(sizes[cut:]) > 2 * budget:
            before, too_long = cut, []
            continue
        ids = ids_from(cut)
        if len(ids) > budget:
            before, too_long = cut, ids
            continue
        if 2 * len(ids) >= budget:
            return _Half(tuple(ids), cut, 0)
        break
    # Nothing between blocks suits: too much from `before`, too little from the next cut.
    ids = too_long or ids_from(before)
    drop = min(len(ids), _ceil_div(len(ids) - budget, quarter) * quarter) if len(ids) > budget else 0
    return _Half(tuple(ids[drop:] if keep_end else ids[: len(ids) - drop]), before, drop)


def looks_binary(text: str) -> bool:
    """Tell whether a document is no text: a NUL, or over a tenth of control and replacement characters, in a sample."""
    sample = text[:_SAMPLE]
    if "\0" in sample:
        return True
    odd = sum(1 for c in sample if (c < " " and c not in _TEXT_CONTROLS) or "\x7f" <= c <= "\x9f" or c == "\ufffd")
    return odd * 10 > len(sample)


def normalise(text: str) -> str:
    """Return the text with ``\\r\\n`` and ``\\r`` as ``\\n``."""
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def _start_in_steps(raw: str, limit: int) -> int:
    """Return where a too long text starts: a whole number of quarters of the limit, never inside ``\\r\\n``."""
    if len(raw) <= limit:
        return 0
    quarter = max(1, limit // 4)
    start = _ceil_div(len(raw) - limit, quarter) * quarter
    return start + 1 if raw[start - 1 : start + 1] == "\r\n" else start


def _blocks(lines: list[str], first: int, grain: int) -> list[list[str]]:
    """Group lines into blocks: one of ``first`` lines, then ``grain`` lines each."""
    starts = [0, *range(first, len(lines), grain)]
    return [lines[a:b] for a, b in zip(starts, [*starts[1:], len(lines)], strict=True)] if lines else []


def _split_lines(text: str) -> list[str]:
    # Not str.splitlines: it also splits at form feeds and U+2028, which no editor counts as lines.
    lines = [line + "\n" for line in text.split("\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]


def _line_end(line: str) -> str:
    if line.endswith("\r\n"):
        return "\r\n"
    return line[-1:] if line.endswith(("\n", "\r")) else ""


def _line_ends(raw: str, stop: int) -> int:
    """Count line ends that begin before ``stop``."""
    return raw.count("\n", 0, stop) + raw.count("\r", 0, stop) - raw.count("\r\n", 0, stop)


def _ceil_div(a: int, b: int) -> int:
    return -(-a // b)
