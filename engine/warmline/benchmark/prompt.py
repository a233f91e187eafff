"""The text that a bench has a model read: code, the same for all variants, different in each round."""

from __future__ import annotations

from ..backends.base import BaseModelHandle
from ..errors import PromptError

# Tokens behind the prompt that a person types before the warm answer.
TYPED = 4
_PIECE = """

def total_of_{number}(rows: list[dict[str, float]], column: str = "amount_{number}") -> float:
    \"\"\"Add up column {number} of all rows that have it.\"\"\"
    total = 0.0
    for index, row in enumerate(rows):
        if column in row and row[column] > {number}:
            total += row[column] * (index + {number})
    return total
"""


def prompt(model: BaseModelHandle, bos: int | None, tokens: int, round_number: int) -> tuple[list[int], list[int]]:
    """Return a prompt of exactly `tokens` tokens, and the `TYPED` tokens that come next.

    No two rounds have more than a few tokens in common at their beginnings, so no cache that outlives a process could
    pass for a prefill.

    Raises
    ------
    PromptError
        ``prompt.invalid``: the model's vocabulary makes no tokens of it.
    """
    first = 1000 * (round_number + 1)
    head = [] if bos is None else [bos]
    wanted = tokens + TYPED - len(head)
    pieces = max(8, tokens // 32)
    while True:
        found = model.tokenize("".join(_PIECE.format(number=first + at) for at in range(pieces)).lstrip())
        if len(found) >= wanted:
            whole = head + found[:wanted]
            return whole[:tokens], whole[tokens:]
        if len(found) < pieces:  # a piece has hundreds of characters
            raise PromptError(
                "the base's vocabulary makes no tokens of code", code="prompt.invalid", remedy="Check the base"
            )
        pieces *= 2
