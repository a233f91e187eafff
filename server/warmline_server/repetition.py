"""A text that goes round in circles, as a small model writes it: told while it streams, so that it can be ended."""

from __future__ import annotations

from typing import Final

# A refrain, a table's rows or a list's equal lines come again a few times; a loop does not stop at six.
_TIMES: Final = 6
_WORDS: Final = 96  # characters that a loop with a letter in it covers at least
_SIGNS: Final = 400  # the same without: rules, and tables of numbers
_LONGEST: Final = 320


def circles(text: str) -> bool:
    """Tell whether the end of a text is one piece, of up to 320 characters, again and again.

    Six times at least, over 96 characters or more, or 400 where no letter is among them. What comes later in the text
    does not matter to the answer: once a loop, it is one until it is left.
    """
    for size in range(1, min(_LONGEST, len(text) // _TIMES) + 1):
        piece = text[-size:]
        least = _WORDS if any(map(str.isalpha, piece)) else _SIGNS
        length = size * max(_TIMES, -(-least // size))
        if length <= len(text):
            end = text[-length:]
            if end[size:] == end[:-size]:
                return True
    return False
