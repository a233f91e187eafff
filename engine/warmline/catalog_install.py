"""Carrying out what `catalog.plan` worked out: artifacts come in by digest, then the variant, with its certificate."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from .catalog import AdapterEntry, ModelEntry, Need, Plan, VariantEntry
from .catalog_certificates import check_certificate, keep, uncertified
from .errors import CatalogError
from .registry import Store
from .store.records import AdapterRecord, ModelRecord
from .store.resolution import package_file
from .variant import AdapterSpec, BaseRef, VariantFile

if TYPE_CHECKING:
    from .certificates import Certificate


def install(
    todo: Plan,
    store: Store,
    fetch: Callable[[Need], Path],
    certificate: Callable[[VariantEntry], Certificate] | None = None,
) -> list[ModelRecord | AdapterRecord]:
    """Carry out a plan; return the records of what was new.

    Parameters
    ----------
    fetch
        Brings what `Need.entry` names from its `source`, and returns the file or folder; digests are checked here.
    certificate
        Brings the certificate of a variant; a strict plan of a variant needs it. It is kept with the variant.

    Raises
    ------
    WarmlineError
        As `Store.add_model`, `Store.add_adapter` and `Store.add_variant`; ``catalog.certificate``. What was installed
        before stays: it is whole, and a second attempt goes on from there.
    """
    paper: Certificate | None = None
    if todo.variant is not None and todo.strict:
        if certificate is None:
            raise uncertified(todo.variant, "has a certificate that nobody brings")
        paper = certificate(todo.variant)
        if not paper.passed:
            raise uncertified(todo.variant, f"failed its certificate ({paper.reasons[0]})")
        adapters = [need.entry for need in todo.needs if isinstance(need.entry, AdapterEntry)]
        # Of a PEFT folder the digest follows when it is converted: that one is looked at below.
        known = [None if each.files else each.digest for each in adapters]
        check_certificate(todo.variant, paper, todo.needs[0].entry.digest, known)
    records: list[ModelRecord | AdapterRecord] = []
    for need in todo.to_fetch:
        entry, place = need.entry, fetch(need)
        origin = entry.source
        if isinstance(entry, ModelEntry):
            copy = not origin.startswith("package:")
            given = origin.removeprefix("package:") if not copy else place
            record: ModelRecord | AdapterRecord = store.add_model(
                given,
                entry.name,
                entry.backend,
                copy=copy,
                merged_from=entry.merged_from,
                origin=origin,
                licence=entry.licence,
                expect=need.expect,
            )
        else:
            if origin.startswith("package:"):
                place = package_file(origin.removeprefix("package:"), todo.catalog, f"{entry.name}.source")
            record = store.add_adapter(
                place,
                entry.name,
                entry.backend,
                base=need.base or "",
                origin=origin,
                licence=entry.licence,
                expect=need.expect,
            )
        records.append(record)
    if todo.variant is not None:
        if paper is not None:
            base = store.get_model(todo.variant.base, todo.variant.backend)
            exact = [store.get_adapter(each.name, todo.variant.backend).digest for each in todo.variant.adapters]
            check_certificate(todo.variant, paper, base.digest, exact)
        _write_variant(todo.variant, store)
        if paper is not None:
            keep(paper, store)
    return records


def _write_variant(entry: VariantEntry, store: Store) -> None:
    """Write the variant, pinned to the bytes that were installed; one that is there already and says the same stays."""
    base = store.get_model(entry.base, entry.backend)
    adapters = tuple(
        AdapterSpec(name=each.name, scale=each.scale, digest=store.get_adapter(each.name, entry.backend).digest)
        for each in entry.adapters
    )
    variant = VariantFile(
        name=entry.name,
        backend=entry.backend,
        description=entry.description,
        base=BaseRef(name=base.name, digest=base.digest),
        adapters=adapters,
        profile=entry.profile,
    )
    exact = f"{entry.backend}/{entry.name}"
    if any(f"{found.backend}/{found.name}" == exact for found in store.variants()):
        if store.get_variant(exact) == variant:
            return
        message = f"there is another variant `{exact}`"
        remedy = f"Remove it first: warmline variant remove {exact}"
        raise CatalogError(message, code="catalog.conflict", field=entry.name, remedy=remedy)
    store.add_variant(variant)
