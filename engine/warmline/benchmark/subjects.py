"""Which variants stand beside each other: each with its base, and with the model that it was merged into, if any."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ..errors import WarmlineError
from ..registry import Found, Store
from ..store.resolution import resolve_base
from ..variant import BaseRef, ResolvedBase, ResolvedVariant

# `qwen+acme`, `qwen+acme@0.5`; spaces around the signs, and `->` for the first one, are what people write too.
_SIGNS: Final = re.compile(r"\s*(?:->|\+)\s*")


@dataclass(frozen=True, slots=True)
class Subject:
    """A variant to measure. `base` is the place of the subject that it is compared with, None for a base itself."""

    variant: ResolvedVariant
    base: int | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MergedFrom:
    """A record's word for what a model was merged from, taken apart."""

    base: str
    adapters: frozenset[str]
    scales: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> MergedFrom:
        """Take ``base+adapter@scale+...`` apart; scales may be left out."""
        base, *adapters = _SIGNS.split(text.strip())
        parts = [adapter.partition("@") for adapter in adapters]
        return cls(base, frozenset(name for name, _, _ in parts), tuple(scale for _, _, scale in parts if scale))


def stand_beside(store: Store, variants: Sequence[ResolvedVariant]) -> list[Subject]:
    """Put each variant beside its base and its merged model; a merged one beside its base and the dynamic one.

    A base stands beside nothing. Bases and merged models take over the variant's profile: contexts are of one size. A
    base that several variants have is in the list once for each of them; what is one identity is measured once.
    """
    subjects: list[Subject] = []
    for variant in variants:
        group = [(variant, _notes(variant))]
        if variant.adapters:
            base: ResolvedVariant | None = _bare(variant, variant.base)
            group += [(_bare(variant, merged), _scale_notes(variant, merged)) for merged in _merged(store, variant)]
        elif variant.base.merged_from:
            made_of = MergedFrom.parse(variant.base.merged_from)
            found = _model(store, variant, made_of.base)
            base = _bare(variant, found) if found is not None else None
            group = [*((other, ()) for other in _dynamic(store, variant, made_of)), *group]
        else:
            base = None
        place = None
        if base is not None:
            place = len(subjects)
            subjects.append(Subject(base))
        subjects += [Subject(one, place, notes) for one, notes in group]
    return subjects


def _bare(variant: ResolvedVariant, base: ResolvedBase) -> ResolvedVariant:
    return variant.model_copy(update={"name": base.name, "base": base, "adapters": ()})


def _merged(store: Store, variant: ResolvedVariant) -> Iterator[ResolvedBase]:
    """Yield the installed models that were merged from this variant's base and adapters."""
    names = frozenset(adapter.name for adapter in variant.adapters)
    for listed in store.list_models(variant.backend):
        if listed.record is None or listed.record.merged_from is None:
            continue
        made_of = MergedFrom.parse(listed.record.merged_from)
        if made_of.base == variant.base.name and made_of.adapters == names:
            found = _model(store, variant, listed.record.name)
            if found is not None:
                yield found


def _dynamic(store: Store, merged: ResolvedVariant, made_of: MergedFrom) -> Iterator[ResolvedVariant]:
    """Yield the store's variants of the base and adapters that a model was merged from."""
    for listed in store.list_variants(merged.backend):
        file = listed.record
        if file is None or file.base.name != made_of.base or {one.name for one in file.adapters} != made_of.adapters:
            continue
        try:
            yield store.resolve(f"{merged.backend}/{file.name}").model_copy(update={"profile": merged.profile})
        except WarmlineError:
            continue  # a variant that is broken stands beside nothing; `doctor` says what is wrong with it


def _model(store: Store, variant: ResolvedVariant, name: str) -> ResolvedBase | None:
    found = Found(variant.name, variant.backend, Path(variant.file), False)
    try:
        return resolve_base(BaseRef(name=name), variant.backend, found, store.places)
    except (WarmlineError, ValueError):
        return None


def _notes(variant: ResolvedVariant) -> tuple[str, ...]:
    if variant.base.merged_from and not variant.adapters:
        return (f"merged from {variant.base.merged_from}",)
    return ()


def _scale_notes(variant: ResolvedVariant, merged: ResolvedBase) -> tuple[str, ...]:
    """Say what a merged model was made of, and where its record leaves open at which scale."""
    made_of = merged.merged_from or ""
    notes = [f"merged from {made_of}"]
    unlike = any(adapter.scale != 1 for adapter in variant.adapters)
    if unlike and not MergedFrom.parse(made_of).scales:
        notes.append("its record does not say at which scale; the dynamic variant's is not 1")
    return tuple(notes)
