"""Variants by number: a stream of requests carries each variant whole once, and its number from then on.

To write and read a variant takes longer than all else of a short request. The client numbers the variants that it sends
whole in rising order, each number once, and never means another variant by it; the host knows those of the last
`KNOWN_VARIANTS` numbers. Whatever is lost on the way, a number means the one variant, or is an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import (
    SerializationInfo,
    SerializerFunctionWrapHandler,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WrapSerializer,
    WrapValidator,
)

from ..variant import ResolvedVariant

KNOWN_VARIANTS: Final = 64


def _by_number(value: object, whole: ValidatorFunctionWrapHandler, info: ValidationInfo) -> Any:
    if type(value) is int and isinstance(info.context, Mapping):
        if value not in info.context:
            raise ValueError("no variant has this number")
        return info.context[value]
    return whole(value)


def _as_number(variant: object, whole: SerializerFunctionWrapHandler, info: SerializationInfo) -> Any:
    return whole(variant) if info.context is None else info.context


# A request's variant: written as a number where that is the context, and read where the context maps it.
AskedVariant = Annotated[ResolvedVariant, WrapValidator(_by_number), WrapSerializer(_as_number)]


class SentVariants:
    """Which variants the host knows by a number, on the client's side.

    Only the very object is known again: to compare variants takes longer than to read them.
    """

    def __init__(self) -> None:
        self._latest = 0
        self._numbers: dict[int, tuple[int, ResolvedVariant]] = {}  # by id(); holding it keeps the id its own

    @property
    def next_number(self) -> int:
        """The number of the variant that is sent whole next."""
        return self._latest + 1

    def number(self, variant: ResolvedVariant) -> int | None:
        """Return by which number the host knows a variant; None where it has to be sent whole."""
        known = self._numbers.get(id(variant))
        return None if known is None else known[0]

    def sent(self, variant: ResolvedVariant) -> None:
        """Note that a variant was sent whole, under `next_number`."""
        self._latest += 1
        self._numbers[id(variant)] = self._latest, variant
        oldest = self._latest - KNOWN_VARIANTS
        for key in [key for key, (number, _) in self._numbers.items() if number <= oldest]:
            del self._numbers[key]

    def forget(self, variant: ResolvedVariant) -> None:
        """Have a variant sent whole the next time: the host may not have understood it."""
        self._numbers.pop(id(variant), None)


class KnownVariants(dict[int, ResolvedVariant]):
    """Variants by number, on the host's side."""

    def keep(self, number: int, variant: ResolvedVariant) -> None:
        """Know a variant that was sent whole; the oldest goes where there are too many."""
        self[number] = variant
        while len(self) > KNOWN_VARIANTS:
            del self[next(iter(self))]
