"""Certificates of what a catalog vouches for: they have to be passed ones, of the very parts that are installed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .errors import CatalogError
from .identity import exact_decimal

if TYPE_CHECKING:
    from .catalog import VariantEntry
    from .certificates import Certificate
    from .registry import Store


def uncertified(entry: VariantEntry, why: str) -> CatalogError:
    """Make the error ``catalog.certificate``; `why` goes on after the variant's name."""
    return CatalogError(
        f"the variant `{entry.name}` {why}",
        code="catalog.certificate",
        field=entry.name,
        remedy="Ask the curator for one, or install it as your own (--own)",
    )


def check_certificate(
    entry: VariantEntry, paper: Certificate, base: str | None, adapters: Sequence[str | None]
) -> None:
    """Refuse the certificate of another variant: of other bytes, scales or profile; a digest of None is not known yet.

    The backend's version is not compared: it is this machine's, and where it is another one the certificate is void,
    which is said wherever the variant is shown.
    """
    from .certificates import profile_fields  # for those who install: it is slow to import

    said = dict(paper.subject)
    wanted = {"backend.name": entry.backend, "base.digest": base, "adapters": str(len(entry.adapters))}
    for index, (digest, spec) in enumerate(zip(adapters, entry.adapters, strict=True)):
        wanted[f"adapters[{index}].digest"] = digest
        wanted[f"adapters[{index}].scale"] = exact_decimal(spec.scale)
    wanted |= dict(profile_fields(entry.profile))
    other = next((name for name, value in wanted.items() if value is not None and said.get(name) != value), None)
    if other is not None:
        raise uncertified(entry, f"has the certificate of another one: its {other} differs")


def keep(paper: Certificate, store: Store) -> None:
    """Keep a certificate beside the variant; what was measured on this machine is not replaced by it."""
    from .certificate_store import Certificates

    known = Certificates(store.home)
    if not known.path(paper.variant.identity).exists():
        known.put(paper)
