"""Where an answer comes from, as a table for people and as JSON for programs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from rich.measure import Measurement
from rich.table import Table
from rich.text import Text
from warmline.digests import short
from warmline.host.wire import AdapterStatus, BaseStatus, VariantStatus

from .output import cell

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult


def as_json(status: VariantStatus) -> dict[str, Any]:
    """Return the status keys that describe a variant: variant, identity, base, adapters, backend, context and more."""
    return status.model_dump(mode="json")


def table(statuses: Iterable[VariantStatus], trust: Mapping[str, str] | None = None) -> Provenance:
    """Show each artifact: what it is, its digest, how strongly it acts and who vouches for it.

    Parameters
    ----------
    trust
        By adapter digest, what to show in place of the adapter's own trust.
    """
    return Provenance(tuple(statuses), dict(trust or {}))


class Provenance:
    """A row for each artifact where the terminal is wide enough, else a block for each variant.

    What each artifact came from is the last column, or stands below where that is too wide. Nothing is cut.
    """

    def __init__(self, statuses: tuple[VariantStatus, ...], trust: Mapping[str, str]) -> None:
        self._statuses = statuses
        self._trust = trust

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        def fits(rows: Table) -> bool:
            return Measurement.get(console, options.update(max_width=10_000), rows).maximum <= options.max_width

        if fits(rows := self._rows(sources=True)):
            yield rows
        elif fits(rows := self._rows(sources=False)):
            yield rows
            yield ""
            yield self._sources()
        else:
            yield self._blocks()

    def _rows(self, *, sources: bool) -> Table:
        headers = ["variant", "identity", "part", "name", "digest", "scale", "trust", *(["from"] if sources else [])]
        rows = Table(*headers, box=None, pad_edge=False)
        for status in self._statuses:
            base = status.base
            about = [cell(status.variant, "bold"), cell(short(status.identity, 8)), cell("base")]
            line = [*about, cell(base.name), cell(short(base.digest)), cell(""), cell(""), cell(base.source)]
            rows.add_row(*line[: len(headers)])
            for adapter in status.adapters:
                about = [cell(""), cell(""), cell("adapter"), cell(adapter.name), cell(short(adapter.digest))]
                line = [*about, cell(_scale(adapter)), self._vouched(adapter), cell(adapter.source)]
                rows.add_row(*line[: len(headers)])
        return rows

    def _sources(self) -> Table:
        parts: list[BaseStatus | AdapterStatus] = []
        for status in self._statuses:
            parts += [status.base, *status.adapters]
        grid = Table.grid(padding=(0, 2))
        grid.add_column(no_wrap=True)
        grid.add_column(overflow="fold")
        for (name, _), source in {(part.name, part.digest): part.source for part in parts if part.source}.items():
            grid.add_row(cell(name), cell(f"from {source}"))
        return grid

    def _blocks(self) -> Table:
        blocks = Table.grid(padding=(0, 2))
        blocks.add_column(no_wrap=True)
        blocks.add_column(overflow="fold")
        for number, status in enumerate(self._statuses):
            if number:
                blocks.add_row("", "")
            base = status.base
            _fact(blocks, "variant", cell(status.variant, "bold"))
            _fact(blocks, "identity", cell(short(status.identity, 8)))
            _fact(blocks, "base", cell(f"{base.name} {short(base.digest)}"))
            _fact(blocks, "  from", cell(base.source))
            for adapter in status.adapters:
                _fact(blocks, "adapter", cell(f"{adapter.name} {short(adapter.digest)}"))
                _fact(blocks, "  scale", cell(_scale(adapter)))
                _fact(blocks, "  trust", self._vouched(adapter))
                _fact(blocks, "  from", cell(adapter.source))
        return blocks

    def _vouched(self, adapter: AdapterStatus) -> Text:
        trust = self._trust.get(adapter.digest, adapter.trust)
        return cell(trust) if adapter.verified else cell(f"{trust}, unverified", "yellow")


def _scale(adapter: AdapterStatus) -> str:
    same = adapter.scale == adapter.effective_scale
    return adapter.scale + ("" if same else f" (effective {adapter.effective_scale})")


def _fact(blocks: Table, label: str, value: Text) -> None:
    if value.plain:
        blocks.add_row(cell(label, "dim"), value)
