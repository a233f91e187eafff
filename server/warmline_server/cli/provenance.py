"""Where an answer comes from, as a table for people and as JSON for programs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.table import Table
from warmline.digests import short
from warmline.host.wire import VariantStatus

from .output import cell


def as_json(status: VariantStatus) -> dict[str, Any]:
    """Return the status keys that describe a variant: variant, identity, base, adapters, backend, context and more."""
    return status.model_dump(mode="json")


def table(statuses: Iterable[VariantStatus]) -> Table:
    """Make one row for each artifact: what it is, its digest, how strongly it acts and who vouches for it."""
    rows = Table("variant", "identity", "part", "name", "digest", "scale", "trust", "from", box=None, pad_edge=False)
    for column in rows.columns[:-1]:
        column.no_wrap = True
    for status in statuses:
        rows.add_row(
            cell(status.variant, "bold"),
            cell(short(status.identity, 8)),
            cell("base"),
            cell(status.base.name),
            cell(short(status.base.digest)),
            cell(""),
            cell(""),
            cell(status.base.source),
        )
        for adapter in status.adapters:
            same = adapter.scale == adapter.effective_scale
            scale = adapter.scale + ("" if same else f" (effective {adapter.effective_scale})")
            verified = adapter.verified
            rows.add_row(
                cell(""),
                cell(""),
                cell("adapter"),
                cell(adapter.name),
                cell(short(adapter.digest)),
                cell(scale),
                cell(adapter.trust if verified else f"{adapter.trust}, unverified", "" if verified else "yellow"),
                cell(adapter.source),
            )
    return rows
