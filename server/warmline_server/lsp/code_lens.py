"""`textDocument/codeLens` in our files: above the name, what answers; above each part, where it came from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from lsprotocol import types
from warmline.digests import short
from warmline.errors import WarmlineError
from warmline.host.wire import AdapterStatus, VariantStatus

from ..characters import as_message
from ..labels import vouched, warmth
from .faults import typed
from .json_location import locate_key
from .own_files import OwnFile, own_file, resolved, snapshot_of
from .status import LastReport

if TYPE_CHECKING:
    from .protocol import WarmlineServer

Lens = tuple[str, str, str, list[Any]]  # the field that it stands above, its text, and a command with its arguments


async def code_lens(ls: WarmlineServer, params: types.CodeLensParams) -> list[types.CodeLens] | None:
    """Answer with a line for the variant and for each of its parts; null in documents that are none of ours."""
    session, uri = ls.session, params.text_document.uri
    file = own_file(session.variants, uri)
    if file is None or not session.settings.code_lens.enabled:
        return None
    snapshot = snapshot_of(session, file, uri)
    try:
        variant = resolved(session.variants, file)
        described = await (await session.engine()).describe(variant)
    except (WarmlineError, OSError) as error:
        lenses = list(_failed(file, uri, typed(error, session.home)))
    else:
        lenses = list(_working(file, uri, described, session.status.last_of(described.identity)))
    text, found = snapshot.text, []
    for field, title, command, arguments in lenses:
        span = locate_key(text, field)
        at = snapshot.position_at(span.start if span else 0)
        shown = types.Command(as_message(title), command, arguments=arguments or None)
        found.append(types.CodeLens(types.Range(at, at), command=shown))
    return found


def _working(file: OwnFile, uri: str, described: VariantStatus, last: LastReport | None) -> Iterator[Lens]:
    base, adapters = described.base, described.adapters
    parts = " + ".join(f"{adapter.name}@{adapter.scale}" for adapter in adapters)
    made_of = f"{base.name} -> {parts}" if parts else base.name
    warm = warmth(last.reason, last.reused_tokens, last.prompt_tokens) if last else "not asked yet"
    if file.variant is None:
        yield "variant", f"{described.variant}: {made_of} · {warm}", "warmline.selectVariant", [{"uri": uri}]
        return
    yield "name", f"Use {described.variant} in this workspace", "warmline.selectVariant", [_select(described, uri)]
    yield "name", f"{made_of} · {warm}", "", []
    yield "base", f"{short(base.digest)} · {base.trust}" + (f" · {base.source}" if base.source else ""), "", []
    for index, adapter in enumerate(adapters):
        yield f"adapters[{index}].name", _adapter(adapter), "", []


def _select(described: VariantStatus, uri: str) -> dict[str, str]:
    return {"uri": uri, "variant": described.variant}


def _adapter(adapter: AdapterStatus) -> str:
    facts = [
        short(adapter.digest),
        f"effective scale {adapter.effective_scale}",
        vouched(adapter.trust, verified=adapter.verified),
    ]
    return " · ".join([*facts, adapter.source] if adapter.source else facts)


def _failed(file: OwnFile, uri: str, error: WarmlineError) -> Iterator[Lens]:
    field = "variant" if file.variant is None else "name"
    if error.code == "trust.unapproved":
        yield field, "Not approved: look at what it brings", "warmline.trust", [{"uri": uri}]
    yield field, f"{error.code}: {error.message}", "", []
    if file.variant is None:
        yield field, "Select another variant", "warmline.selectVariant", [{"uri": uri}]
