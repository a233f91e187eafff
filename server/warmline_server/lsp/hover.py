"""`textDocument/hover` on workspace and variant files: what the variant is made of and where each part came from."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lsprotocol import types
from warmline.digests import short
from warmline.errors import WarmlineError
from warmline.host.wire import AdapterStatus, VariantStatus
from warmline.variant import ResolvedVariant
from warmline.workspace import WORKSPACE_FOLDER

from ..paths import short_path, short_paths, unreadable
from ..standing import standing
from . import uris
from .markdown import escape, listing, plain, table
from .status import LastReport

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
    except (WarmlineError, OSError) as error:
        typed = error if isinstance(error, WarmlineError) else unreadable(error, session.home)
        text = _error(typed, _root(path), markdown)
    else:
        last = session.status.last_of(described.identity)
        certificate = standing(session.home, described, variant.profile)
        rows = provenance(described, short_path(variant.file, _root(path)), last, certificate)
        text = table(rows) if markdown else listing(rows)
    kind = types.MarkupKind.Markdown if markdown else types.MarkupKind.PlainText
    return types.Hover(types.MarkupContent(kind, text))


def provenance(described: VariantStatus, file: str, last: LastReport | None, certificate: str) -> Rows:
    """List all that is known of a variant, one row each; `file` is the variant's own."""
    context = f"{described.context.n_ctx} tokens" + (" (clamped to the base's)" if described.context.clamped else "")
    base = described.base
    facts = [base.name, short(base.digest), f"trust: {base.trust}"]
    facts += [f"merged from {base.merged_from}"] if base.merged_from else []
    facts += [f"from {base.source}"] if base.source else []
    rows: Rows = [
        ("Variant", described.variant),
        ("Identity", short(described.identity)),
        ("Certificate", certificate),
        ("Base", " · ".join(facts)),
    ]
    for number, adapter in enumerate(described.adapters, start=1):
        rows += _adapter_rows(number, adapter)
    if not described.adapters:
        rows.append(("Adapters", "none"))
    rows += [
        ("Backend", f"{described.backend.name} {described.backend.version}"),
        ("Context", context),
        ("Warm", last.warmth if last else "not asked yet in this session"),
        ("FIM", described.fim),
        ("File", file),
    ]
    if last is not None:
        times = f"first token {last.ttft_ms:.0f} ms, {last.total_ms:.0f} ms in all"
        rows.append(("Last request", f"{times} ({last.reason})"))
        rows += [("Sent along", ", ".join(last.sources))] if last.sources else []
    return rows


def _adapter_rows(number: int, adapter: AdapterStatus) -> Rows:
    claimed = f" (it says: {adapter.declared_base})" if adapter.declared_base else ""
    made_for = "this base" if adapter.verified else f"unverified: not known to be this base{claimed}"
    rows = [
        (f"Adapter {number}", adapter.name),
        ("Scale", f"{adapter.scale}, effective {adapter.effective_scale}"),
        ("Trust", adapter.trust),
        ("Made for", made_for),
        ("Digest", short(adapter.digest)),
        ("Effect", _effect(adapter)),
    ]
    if adapter.source:
        rows.append(("Source", adapter.source))
    return rows


def _effect(adapter: AdapterStatus) -> str:
    """Say what the probe found: how far the adapter moves the base's output when it is loaded."""
    if adapter.effect is None:
        return "not probed yet: it is when the variant is loaded"
    return f"proven: moves a logit by up to {adapter.effect:.3g}"


def _error(error: WarmlineError, root: Path | None, markdown: bool) -> str:
    message, remedy = short_paths(error.message, root), short_paths(error.remedy, root)
    where = f"{short_path(error.file, root)}{f', {error.field}' if error.field else ''}" if error.file else ""
    facts = [(label, value) for label, value in (("Fix", remedy), ("Where", where)) if value]
    if not markdown:
        return "\n".join([f"{plain(error.code)}: {plain(message)}", *([listing(facts)] if facts else [])])
    return "\n\n".join([f"**{escape(error.code)}**: {escape(message)}", *(f"{a}: {escape(b)}" for a, b in facts)])


def _root(path: Path) -> Path | None:
    """Give the workspace that one of our files lies in; None for one of the user's store."""
    return next((folder.parent for folder in path.parents if folder.name == WORKSPACE_FOLDER), None)


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
    return variants.resolve_named(name, workspace)
