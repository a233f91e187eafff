"""`textDocument/hover` on workspace and variant files: what the variant is made of and where each part came from."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lsprotocol import types
from warmline.digests import short
from warmline.errors import WarmlineError
from warmline.host.wire import AdapterStatus, LastRequest, VariantStatus
from warmline.variant import ResolvedVariant

from . import uris
from .markdown import escape, listing, plain, table

if TYPE_CHECKING:
    from .protocol import WarmlineServer
    from .session import Session

Rows = list[tuple[str, str]]


async def hover(ls: WarmlineServer, params: types.HoverParams) -> types.Hover | None:
    """Answer with the provenance of the variant that the file selects or describes; null on other files."""
    session = ls.session
    path = uris.to_path(params.text_document.uri)
    if path is None or not _is_ours(session, path):
        return None
    markdown = session.client.markdown
    try:
        variant = _resolve(session, path)
        engine = await session.engine()
        described = await engine.describe(variant)
        status = await engine.status()
    except WarmlineError as error:
        text = _error(error, markdown)
    else:
        # The engine's last request counts only if this very variant answered it.
        same = status.active is not None and status.active.identity == described.identity
        rows = provenance(described, variant, status.last if same else None)
        text = table(rows) if markdown else listing(rows)
    kind = types.MarkupKind.Markdown if markdown else types.MarkupKind.PlainText
    return types.Hover(types.MarkupContent(kind, text))


def provenance(described: VariantStatus, variant: ResolvedVariant, last: LastRequest | None) -> Rows:
    """List all that is known of a variant, one row each."""
    context = f"{described.context.n_ctx} tokens" + (" (clamped to the base's)" if described.context.clamped else "")
    base = described.base
    rows: Rows = [
        ("Variant", described.variant),
        ("Identity", short(described.identity)),
        ("Base", f"{base.name} · {short(base.digest)}" + (f" · {base.source}" if base.source else "")),
    ]
    for number, adapter in enumerate(described.adapters, start=1):
        rows += _adapter_rows(number, adapter)
    if not described.adapters:
        rows.append(("Adapters", "none"))
    rows += [
        ("Backend", f"{described.backend.name} {described.backend.version}"),
        ("Context", context),
        ("FIM", described.fim),
        ("File", variant.file),
    ]
    if last is not None:
        times = f"first token {last.ttft_ms:.0f} ms, {last.total_ms:.0f} ms in all"
        rows.append(
            ("Last request", f"{last.reused_tokens} of {last.prompt_tokens} tokens reused ({last.reason}), {times}")
        )
    return rows


def _adapter_rows(number: int, adapter: AdapterStatus) -> Rows:
    made_for = "made for this base" if adapter.verified else "unverified: not known to be made for this base"
    rows = [
        (f"Adapter {number}", adapter.name),
        ("Scale", f"{adapter.scale}, effective {adapter.effective_scale}"),
        ("Trust", f"{adapter.trust}, {made_for}"),
        ("Digest", short(adapter.digest)),
    ]
    if adapter.source:
        rows.append(("Source", adapter.source))
    return rows


def _error(error: WarmlineError, markdown: bool) -> str:
    if not markdown:
        return plain(str(error))
    tail = f" {escape(error.remedy)}" if error.remedy else ""
    return f"**{escape(error.code)}**: {escape(error.message)}.{tail}"


def _is_ours(session: Session, path: Path) -> bool:
    variants = session.variants
    return variants.described_by(path) is not None or variants.variant_file(path) is not None


def _resolve(session: Session, path: Path) -> ResolvedVariant:
    variants = session.variants
    place = variants.described_by(path)
    if place is not None:
        return variants.resolve(place)
    found = variants.variant_file(path)
    assert found is not None  # `_is_ours` said that it is one of the two
    name, workspace = found
    return variants.store.resolve(name, workspace)
