"""Finished suggestions, kept for when a person types along or comes back; never under another identity."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NewType

from .question import Question
from .typed_along import rest

#: Digest of the exact variant that wrote a text, as the engine reported it with that very text (`Identity.digest`).
IdentityDigest = NewType("IdentityDigest", str)


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a question: texts to insert, best first, line ends ``\\n``; without any, `reason` says why."""

    texts: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class _Kept:
    identity: IdentityDigest
    question: Question
    answer: Answer


class ResultCache:
    """The latest answers, least recently used first out.

    Parameters
    ----------
    size
        Tells how many are kept at most; asked at each use, so that a setting takes effect.
    """

    def __init__(self, size: Callable[[], int]) -> None:
        self._size = size
        self._kept: list[_Kept] = []

    def __len__(self) -> int:
        return len(self._kept)

    def put(self, identity: IdentityDigest, question: Question, answer: Answer) -> None:
        """Keep an answer; it takes the place of an earlier one to the same question."""
        self._kept = [each for each in self._kept if (each.identity, each.question) != (identity, question)]
        self._kept.append(_Kept(identity, question, answer))
        del self._kept[: max(0, len(self._kept) - self._size())]

    def holds(self, question: Question) -> bool:
        """Tell whether some identity has an answer: worth asking the engine which one the variant is now."""
        return next(self._answers(question), None) is not None

    def get(self, identity: IdentityDigest, question: Question) -> Answer | None:
        """Give what is left of the latest answer of this identity, after what was typed since; None without one."""
        for kept, answer in self._answers(question):
            if kept.identity == identity:
                self._kept.remove(kept)
                self._kept.append(kept)
                return answer
        return None

    def _answers(self, question: Question) -> Iterator[tuple[_Kept, Answer]]:
        for kept in reversed(self._kept):
            typed = question.typed_since(kept.question) if question.most <= kept.question.most else None
            if typed is None:
                continue
            left = [text for text in (rest(each, typed) for each in kept.answer.texts) if text is not None]
            texts = tuple(dict.fromkeys(left))
            # That nothing is shown holds for this very question alone.
            if texts or (not typed and question.multiline == kept.question.multiline):
                yield kept, Answer(texts[: question.most], kept.answer.reason)
