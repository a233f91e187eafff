"""Config options of a session: the variant, its context, the scale of each adapter, and the mode.

A current value is what really runs. A value that is not offered is refused, and nothing changes with it.
"""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, Final

from warmline.digests import short
from warmline.errors import WarmlineError
from warmline.host.wire import VariantStatus
from warmline.identity import exact_decimal
from warmline.registry import find_workspace
from warmline.variant import ResolvedVariant

from ..listing import Row, list_rows
from .choice import Choice, resolve, selected_name
from .edge import InvalidParams
from .modes import MODES, Mode

Json = dict[str, Any]
VARIANT: Final = "variant"
CONTEXT: Final = "context"
MODE: Final = "mode"
_SCALE: Final = "scale."
_NONE: Final = "none"
_CONTEXTS: Final = (1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072)
_LADDER: Final = tuple(map(Decimal, ("0.25", "0.5", "0.75", "1", "1.25", "1.5", "2")))


def offered(home: Path, cwd: Path, choice: Choice, mode: Mode, status: VariantStatus | None) -> list[Json]:
    """Give all options with their current values.

    Parameters
    ----------
    status
        What the engine says of the variant that runs; None before it was asked.
    """
    rows = list_rows(home, find_workspace(cwd))
    options = []
    try:
        variant = resolve(home, cwd, choice)
    except WarmlineError as error:
        options.append(_variants(rows, None, status, _unusable(selected_name(home, cwd, choice), error)))
    else:
        options.append(_variants(rows, variant, status, None))
        options.append(_contexts(variant, status))
        options += [_ladder(adapter.name, adapter.scale) for adapter in variant.adapters]
    options.append(_modes(mode))
    return options


def changed(home: Path, cwd: Path, choice: Choice, option: str, value: Any, status: VariantStatus | None) -> Choice:
    """Give the choice with one option changed; raises `InvalidParams` for what is not offered."""
    current = next((each for each in offered(home, cwd, choice, "ask", status) if each["id"] == option), None)
    if current is None or option == MODE:
        raise InvalidParams(f"there is no option `{option}` here")
    if value not in _values(current) or value == _NONE:
        raise InvalidParams(f"`{value}` is none of the values of `{option}`", {"offered": _values(current)})
    if option == VARIANT:
        return Choice(variant=value)
    if option == CONTEXT:
        return choice.model_copy(update={"n_ctx": int(value)})
    try:
        return choice.with_scale(option.removeprefix(_SCALE), Decimal(value))
    except InvalidOperation:
        raise InvalidParams(f"`{value}` is no scale") from None


def exact_name(variant: ResolvedVariant) -> str:
    """Give a variant's name with its backend, which no other variant has."""
    return f"{variant.backend}/{variant.name}"


def describe_row(row: Row) -> str:
    """Say in one line what a variant is made of, who vouches for it, and which bytes it names."""
    digests = [*(adapter.digest for adapter in row.adapters), row.base_digest]
    known = next((digest for digest in digests if digest), None)
    certificate = f"certificate: {row.certificate}"
    return " · ".join(part for part in (row.made_of, row.trust, short(known) if known else "", certificate) if part)


def _variants(
    rows: list[Row], variant: ResolvedVariant | None, status: VariantStatus | None, unusable: Json | None
) -> Json:
    groups: dict[str, list[Json]] = {}
    for row in rows:
        if row.error is None:
            entry = {"value": f"{row.found.backend}/{row.found.name}", "name": row.found.name}
            groups.setdefault(row.base, []).append({**entry, "description": describe_row(row)})
    current = exact_name(variant) if variant is not None else _NONE
    offers = [{"group": base or "base", "name": base or "base", "options": each} for base, each in groups.items()]
    if unusable is not None:
        current = unusable["value"]
        offers.insert(0, {"group": "unusable", "name": "Cannot be used", "options": [unusable]})
    identity = f" Identity {short(status.identity)}." if status is not None and variant is not None else ""
    return _select(VARIANT, "Variant", "model", f"Which exact variant answers.{identity}", current, offers)


def _unusable(name: str, error: WarmlineError) -> Json:
    return {"value": _NONE, "name": f"{name} (cannot be used)" if name else "none selected", "description": str(error)}


def _contexts(variant: ResolvedVariant, status: VariantStatus | None) -> Json:
    n_ctx = status.context.n_ctx if status is not None else variant.profile.n_ctx
    most = status.capacity.n_ctx_train if status is not None and status.capacity is not None else n_ctx
    sizes = sorted({n_ctx, *(size for size in _CONTEXTS if size <= most)})
    offers = [{"value": str(size), "name": f"{size} tokens"} for size in sizes]
    return _select(CONTEXT, "Context", "model_config", "Context in tokens.", str(n_ctx), offers)


def _ladder(adapter: str, scale: Decimal) -> Json:
    steps = sorted({scale, *_LADDER})
    offers = [{"value": exact_decimal(step), "name": f"{adapter}@{exact_decimal(step)}"} for step in steps]
    what = f"How strongly the adapter {adapter} acts."
    return _select(_SCALE + adapter, f"Scale of {adapter}", "model_config", what, exact_decimal(scale), offers)


def _modes(mode: Mode) -> Json:
    offers = [{"value": key, "name": name, "description": what} for key, (name, what) in MODES.items()]
    return _select(MODE, "Mode", "mode", "What the agent may do without asking.", mode, offers)


def _select(key: str, name: str, category: str, description: str, current: str, offers: list[Json]) -> Json:
    about = {"id": key, "name": name, "category": category, "description": description}
    return {**about, "type": "select", "currentValue": current, "options": offers}


def _values(option: Json) -> list[str]:
    return [entry["value"] for offer in option["options"] for entry in offer.get("options", (offer,))]
