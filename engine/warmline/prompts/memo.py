"""Tokenising a document again after a keystroke: only its changed end, proven to join the rest.

Tokenising 10 kB takes some milliseconds, and while a person types nearly all of it is the same as a moment ago. With
a pre-tokenizing BPE vocabulary the split is memoryless from a boundary on: where a new split, begun at an old
boundary, falls into step with the old one over some unchanged text, what stands before it stays as it was. That is
checked on each use; when it does not hold, everything is tokenised.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from cachetools import LRUCache

_KEPT: Final = 16
_LEAST: Final = 2048  # shorter texts are tokenised in some tenths of a millisecond
_KEPT_SHORT: Final = 256  # and are asked for again: a short document's prompt, the blocks of a long one
_BACK: Final = 384  # bytes before the first change at which the new split begins
_STEP_IN: Final = 24  # tokens over which both splits must agree
_CLEAR: Final = 64  # bytes before the first change that a pre-tokenizer's look-ahead may reach into


@dataclass(frozen=True, slots=True)
class _Split:
    data: bytes
    tokens: Sequence[int]
    ends: array[int]


class TokenMemo:
    """Remembers the latest splits of long texts.

    Parameters
    ----------
    tokenize
        Tokenises plain text; must be that of a pre-tokenizing BPE vocabulary.
    piece
        Bytes of a token.
    """

    def __init__(self, tokenize: Callable[[str], list[int]], piece: Callable[[int], bytes]) -> None:
        self._tokenize = tokenize
        self._piece = piece
        self._splits: OrderedDict[bytes, _Split] = OrderedDict()
        self._short: LRUCache[str, tuple[int, ...]] = LRUCache(_KEPT_SHORT)

    def __call__(self, text: str) -> list[int]:
        """Return the tokens that `tokenize` gives for `text`."""
        if len(text) < _LEAST:
            short = self._short.get(text)
            if short is None:
                short = self._short[text] = tuple(self._tokenize(text))
            return list(short)
        data = text.encode("utf-8", "replace")
        start = data[:_CLEAR]
        known = self._splits.get(start)
        tokens = self._joined(data, known) if known is not None else None
        if tokens is None:
            tokens = self._tokenize(text)
        self._keep(start, data, tokens, known)
        return tokens

    def _joined(self, data: bytes, known: _Split) -> list[int] | None:
        shared = _common_bytes(data, known.data)
        if shared == len(data) == len(known.data):
            return list(known.tokens)
        first = bisect_right(known.ends, shared - _BACK)
        cut = known.ends[first - 1] if first else 0
        if cut == 0 or data[cut] & 0xC0 == 0x80:  # inside a character
            return None
        tail = self._tokenize(data[cut:].decode("utf-8"))
        clear = bisect_right(known.ends, shared - _CLEAR) - first
        if clear < _STEP_IN or tail[:clear] != list(known.tokens[first : first + clear]):
            return None
        return [*known.tokens[:first], *tail]

    def _keep(self, start: bytes, data: bytes, tokens: list[int], known: _Split | None) -> None:
        if known is not None and known.data == data:
            self._splits.move_to_end(start)
            return
        ends = array("q", accumulate(len(self._piece(token)) for token in tokens))
        # A vocabulary that does not give its text back byte for byte (or a text with lone surrogates) is not kept.
        if ends and ends[-1] == len(data):
            self._splits[start] = _Split(data, tuple(tokens), ends)
            self._splits.move_to_end(start)
            while len(self._splits) > _KEPT:
                self._splits.popitem(last=False)


def _common_bytes(a: bytes, b: bytes) -> int:
    low, high = 0, min(len(a), len(b))
    if a[:high] == b[:high]:
        return high
    while low < high:
        middle = (low + high + 1) // 2
        if a[:middle] == b[:middle]:
            low = middle
        else:
            high = middle - 1
    return low
