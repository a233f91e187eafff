"""Identity: the exact variant that KV, snapshots and results belong to.

The canonical encoding is domain-tagged and length-prefixed: every value is written as ``<tag length><tag><value
length><value>`` with 8-byte big-endian lengths, in a fixed order, lists with their count first. No choice of names or
values can therefore make two different variants encode alike. Names, paths, trust labels, thread counts and sampling
are not identity.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import Final

from .digests import short

SCHEME: Final = 1
_DOMAIN: Final = b"warmline.identity"


def exact_decimal(value: Decimal | Fraction | int) -> str:
    """Write a finite rational number in its one canonical exact form.

    A terminating decimal is written plainly without trailing zeros (``0.5``, ``2``, ``-1``); any other rational as a
    reduced fraction (``16/3``), since no decimal holds it exactly.

    Raises
    ------
    ValueError
        For NaN and infinities, and for numbers of more than 400 digits.
    """
    if isinstance(value, Decimal):
        if not value.is_finite():
            raise ValueError(f"not a finite number: {value}")
        if abs(value.adjusted()) > 200 or len(value.as_tuple().digits) > 200:
            raise ValueError("too many digits")
    fraction = Fraction(value)
    denominator = fraction.denominator
    twos = fives = 0
    while denominator % 2 == 0:
        denominator //= 2
        twos += 1
    while denominator % 5 == 0:
        denominator //= 5
        fives += 1
    if denominator != 1:
        return f"{fraction.numerator}/{fraction.denominator}"
    places = max(twos, fives)
    digits = str(abs(fraction.numerator) * 10**places // fraction.denominator).rjust(places + 1, "0")
    sign = "-" if fraction < 0 else ""
    return sign + (f"{digits[:-places]}.{digits[-places:]}" if places else digits)


@dataclass(frozen=True, slots=True)
class AdapterIdentity:
    """One adapter at work: its content digest and its scales as exact decimals.

    `scale` is what the person wrote; `effective_scale` is ``scale * alpha / rank``, what multiplies B·A.
    """

    digest: str
    scale: str
    effective_scale: str


@dataclass(frozen=True, slots=True)
class ContextIdentity:
    """What of the context configuration changes KV or logits; threads and batch sizes do not belong here."""

    n_ctx: int
    type_k: str = "f16"
    type_v: str = "f16"
    rope: str = "model"
    swa: str = "model"
    properties: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Identity:
    """An exact variant. Equal identities may share KV; others never do."""

    backend: str
    backend_version: str
    base: str
    adapters: tuple[AdapterIdentity, ...]
    template: str
    bos: str
    fim: str
    context: ContextIdentity
    reasoning: str = ""
    tools: str = ""
    scheme: int = field(default=SCHEME)

    def fields(self) -> list[tuple[str, str]]:
        """Return (field path, value) of everything that is identity, in canonical order.

        `reasoning` and `tools` stand there only if they are declared: what says nothing of them encodes as it did.
        """
        rows = [
            ("scheme", str(self.scheme)),
            ("backend.name", self.backend),
            ("backend.version", self.backend_version),
            ("base.digest", self.base),
            ("adapters", str(len(self.adapters))),
        ]
        for index, adapter in enumerate(self.adapters):
            rows.append((f"adapters[{index}].digest", adapter.digest))
            rows.append((f"adapters[{index}].scale", adapter.scale))
            rows.append((f"adapters[{index}].effective_scale", adapter.effective_scale))
        rows += [
            ("template", self.template),
            ("bos", self.bos),
            ("fim", self.fim),
            ("context.n_ctx", str(self.context.n_ctx)),
            ("context.type_k", self.context.type_k),
            ("context.type_v", self.context.type_v),
            ("context.rope", self.context.rope),
            ("context.swa", self.context.swa),
            ("context.properties", str(len(self.context.properties))),
        ]
        for name, value in self.context.properties:
            rows += [("context.properties.name", name), (f"context.properties.{name}", value)]
        rows += [("reasoning", self.reasoning)] if self.reasoning else []
        rows += [("tools", self.tools)] if self.tools else []
        return rows

    def encode(self) -> bytes:
        """Return the canonical encoding (module docstring)."""
        parts = [_sized(_DOMAIN)]
        for name, value in self.fields():
            parts += [_sized(name.encode()), _sized(value.encode("utf-8", "surrogatepass"))]
        return b"".join(parts)

    @cached_property
    def digest(self) -> str:
        """sha256 over the canonical encoding, as ``sha256:<hex>``."""
        return "sha256:" + hashlib.sha256(self.encode()).hexdigest()

    def __hash__(self) -> int:
        return hash(self.digest)  # worked out once: every cache asks for it, some for each token

    def difference(self, other: Identity) -> str | None:
        """Return the path of the first field that differs (``adapters[0].scale``), or None when the two are equal.

        A different number of adapters is named ``adapters``.
        """
        for mine, theirs in zip(self.fields(), other.fields(), strict=False):
            if mine != theirs:
                return mine[0]
        return None

    def __str__(self) -> str:
        return short(self.digest)


@dataclass(frozen=True, slots=True)
class Difference:
    """A field in which two identities differ; None where one of them lacks the field."""

    field: str
    one: str | None
    other: str | None


def differences(one: Iterable[tuple[str, str]], other: Iterable[tuple[str, str]]) -> list[Difference]:
    """List all fields in which two identities (their `Identity.fields`) differ, in canonical order."""
    mine, theirs = dict(one), dict(other)
    names = [*mine, *(name for name in theirs if name not in mine)]
    # The names of the backend's properties have fields of their own; `context.properties` counts them.
    return [
        Difference(name, mine.get(name), theirs.get(name))
        for name in names
        if name != "context.properties.name" and mine.get(name) != theirs.get(name)
    ]


def _sized(data: bytes) -> bytes:
    return len(data).to_bytes(8, "big") + data
