"""Raw model text to what the editor may show: every filter, in order, and when further text can't matter any more."""

from collections.abc import Sequence
from dataclasses import dataclass

from warmline_server.suggest import line_ends
from warmline_server.suggest.block_end import ends_block
from warmline_server.suggest.brackets import Walk, walk_on
from warmline_server.suggest.closers import excess_closer
from warmline_server.suggest.context import Context
from warmline_server.suggest.draft import Cut, Draft, Rule
from warmline_server.suggest.fences import code_start, ends_at_fence, is_hopeless
from warmline_server.suggest.indentation import indent
from warmline_server.suggest.line_above import repeats_above
from warmline_server.suggest.next_line import repeats_below
from warmline_server.suggest.prose import turns_to_prose
from warmline_server.suggest.repeated_lines import repeats_lines
from warmline_server.suggest.repeated_tokens import first_degenerate
from warmline_server.suggest.same_line import repeats_rest
from warmline_server.suggest.stops import find_stop, sure_length
from warmline_server.suggest.trailing import trim

# Where two cut at the same place, the first one gives the reason.
RULES: tuple[Rule, ...] = (
    ends_at_fence,
    turns_to_prose,
    repeats_above,
    repeats_below,
    repeats_rest,
    excess_closer,
    repeats_lines,
    ends_block,
)


@dataclass(frozen=True)
class Suggestion:
    """The text to insert at the cursor, with the document's line ends; None where nothing is good enough to show.

    `reason` is `shown`, or names what cut or emptied the text: `stop`, `whitespace`, `degenerate`, `prose`, `fence`,
    `repeats-above`, `repeats-suffix`, `repeats-closer`, `unbalanced`, `repeats-lines`, `block-end`, `blank-lines`.
    """

    text: str | None
    reason: str


def suggest(context: Context, raw: str, *, multiline: bool = True) -> Suggestion:
    """What of the model's text `raw` to show at the cursor of `context`. Never raises, whatever the text.

    Without `multiline`, and where words follow the cursor on its line, it is one line.
    """
    text = line_ends.to_lf(raw)
    lines, ended = _until_end(context, text)
    whole = len(lines) if ended else len(lines) - 1
    start = code_start(context, lines, whole)
    if isinstance(start, str):
        return Suggestion(None, start if not ended or is_hopeless(context, lines, whole) else ended)
    shown, cut = _cut(context, lines[start:], whole - start, multiline)
    if cut is not None:
        shown = [*shown[: cut.line], shown[cut.line][: cut.column]]
        ended = cut.reason
    elif _one_line(context, multiline) and (ended == "degenerate" or len(lines) - start > 1):
        ended = None  # the one line was whole before whatever ended the text
    kept = trim(context, "\n".join(shown))
    if not kept.strip():
        return Suggestion(None, ended or "whitespace")
    return Suggestion(line_ends.restore(kept, context.line_end), ended or "shown")


def is_settled(context: Context, raw_so_far: str, *, multiline: bool = True) -> bool:
    """Whether `suggest` gives the same answer for `raw_so_far` and for every text that begins with it.

    Then decoding can stop. Made to be called once for each token: some 0.3 ms for a few hundred characters.
    """
    text = line_ends.to_lf(raw_so_far)
    if find_stop(text, context.language, _stops(context)) is not None:
        return True
    lines = text[: sure_length(text, _stops(context))].split("\n")
    if first_degenerate(lines) is not None:
        return True
    whole = lines[:-1]
    if is_hopeless(context, whole, len(whole)):
        return True
    start = code_start(context, whole, len(whole))
    if isinstance(start, str) or start >= len(whole):
        return False
    return _one_line(context, multiline) or _cut(context, whole[start:], len(whole), multiline)[1] is not None


def _stops(context: Context) -> tuple[str, ...]:
    return tuple(line_ends.to_lf(stop) for stop in context.stops)


def _one_line(context: Context, multiline: bool) -> bool:
    return not multiline or context.rest_has_words


def _until_end(context: Context, text: str) -> tuple[list[str], str | None]:
    """The lines of `text` up to the first stop or degenerate line, and which of both ended them."""
    stop = find_stop(text, context.language, _stops(context))
    lines = (text if stop is None else text[:stop]).split("\n")
    loop = first_degenerate(lines)
    if loop is not None:
        return lines[:loop], "degenerate"
    return lines, None if stop is None else "stop"


def _cut(context: Context, lines: Sequence[str], whole: int, multiline: bool) -> tuple[list[str], Cut | None]:
    """The lines as they are to be inserted, and the first cut in the order of the text.

    The first `whole` lines are complete.
    """
    shown = indent(context, lines[:1] if _one_line(context, multiline) else lines)
    walk = Walk(tuple((char, None) for char in context.opened), context.spare)
    for row, line in enumerate(shown):
        walk = walk_on(walk, "" if row else context.cursor_line, line, context.language)
        draft = Draft(context, shown[: row + 1], row < whole, walk)
        cuts = [cut for rule in RULES if (cut := rule(draft)) is not None]
        if cuts:
            return shown, min(cuts, key=lambda cut: (cut.line, cut.column))
    return shown, None
