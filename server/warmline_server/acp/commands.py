"""Commands that a prompt may begin with: they read the session and the engine, never the model."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

from warmline.errors import WarmlineError
from warmline.registry import find_workspace

from ..characters import escape_invisible
from ..listing import list_rows
from ..paths import short_path
from ..standing import standing
from .edge import RequestError
from .formats import format_of
from .live import Live
from .options import VARIANT, describe_row
from .shortening import make_room
from .telling import left_out, told

Json = dict[str, Any]
Command = Callable[[Live, str], Awaitable[str]]


async def variant(live: Live, name: str) -> str:
    """Say which variants there are, or switch to one."""
    if name:
        return await _switch(live, name)
    rows = await asyncio.to_thread(list_rows, live.home, find_workspace(live.cwd))
    lines = [f"{row.found.backend}/{row.found.name}: {describe_row(row)}" for row in rows if row.error is None]
    try:
        running = live.resolve()
        lines.insert(0, f"This session runs {running.backend}/{running.name}. There are:")
    except WarmlineError as error:
        lines.insert(0, f"This session can run nothing: {error}")
    return "\n\n".join(lines)


async def _switch(live: Live, name: str) -> str:
    rows = await asyncio.to_thread(list_rows, live.home, find_workspace(live.cwd))
    exact = [f"{row.found.backend}/{row.found.name}" for row in rows if row.error is None]
    found = [each for each in exact if name in (each, each.partition("/")[2])]
    if len(found) != 1:
        why = f"is more than one: {', '.join(found)}" if found else "is none; /variant lists them"
        return f"Nothing changed: `{name}` {why}."
    try:
        await live.choose(VARIANT, found[0])
    except RequestError as error:
        return f"Nothing changed: {error}"
    return await status(live, "")


async def status(live: Live, _argument: str) -> str:
    """Say what answers here, where it comes from, and what was permitted."""
    from ..lsp.hover import provenance  # lsprotocol is no small thing, and few sessions ask
    from ..lsp.markdown import table

    try:
        described = await live.describe()
    except WarmlineError as error:
        return f"This session can run nothing: {error}"
    engine = await live.engine.status(live.client_id)
    head = live.record.head
    variant = live.resolve()
    certificate = standing(live.home, described, variant.profile)
    last = live.last[1] if live.last is not None and live.last[0] == described.identity else None
    rows = provenance(described, short_path(variant.file, live.cwd), last, certificate)
    rows += [
        ("Engine", str(engine.state)),
        ("Used", f"{live.used} of {described.context.n_ctx} tokens"),
        ("Mode", head.mode),
        ("Always allowed", ", ".join(sorted(live.permissions.always)) or "nothing"),
        ("Always rejected", ", ".join(sorted(live.permissions.never)) or "nothing"),
    ]
    rows += [("Not seen by the model", f"the oldest {head.hidden} entries")] if head.hidden else []
    rows += [(f"Tool server {name}", how) for name, how in live.servers.reports.items()]
    unknown = left_out(live, format_of(variant.profile), described.context.n_ctx)
    rows += [("Tools left out", f"{', '.join(unknown)}: the context has no room for them")] if unknown else []
    return table(rows)


async def adapters(live: Live, _argument: str) -> str:
    """Say which adapters act here, how strongly, and who vouches for them."""
    try:
        described = await live.describe()
    except WarmlineError as error:
        return f"This session can run nothing: {error}"
    if not described.adapters:
        return f"{described.variant} has no adapters: its base {described.base.name} answers alone."
    return "\n\n".join(
        f"{each.name}@{each.scale} (effective {each.effective_scale}), {each.trust}"
        f"{'' if each.verified else ', unverified'}, {each.digest.removeprefix('sha256:')[:12]}"
        for each in described.adapters
    )


async def compact(live: Live, _argument: str) -> str:
    """Let the model see an outline in place of all turns but the latest, and say what that frees."""
    before = _characters(live)
    what = make_room(live.record, most=True)
    if not what:
        return "There is nothing to take away."
    after = _characters(live)
    said = f"{what}."
    if live.record.head.hidden:
        said += " In their place it has an outline, quoted from what was asked, done and answered."
    if live.used and before and after:
        said += f" Of the context's {live.used} used tokens about {round(live.used * after / before)} stay."
    return said


def _characters(live: Live) -> int:
    """Tell how long is what the model would be told now; 0 where that cannot be known."""
    known = live.known()
    if known is None:
        return 0
    return sum(len(turn.content) for turn in told(live, live.resolve().profile, known.context.n_ctx))


async def clear(live: Live, _argument: str) -> str:
    """Forget all that was said in this session."""
    try:
        live.store.forget(live.record)
    except OSError as error:
        return f"Nothing is forgotten, since what was kept cannot be deleted: {error.strerror or error}."
    live.record.entries.clear()
    live.record.change(hidden=0, dropped=0, title="")
    live.used = 0
    return "All that was said is forgotten."


async def help_(_live: Live, _argument: str) -> str:
    """Say which commands there are."""
    return "\n\n".join(f"/{name}: {what}" for name, (what, _hint, _run) in COMMANDS.items())


COMMANDS: Final[dict[str, tuple[str, str, Command]]] = {
    "variant": ("Show the variants, or switch to one", "name of a variant", variant),
    "status": ("Show what answers here, and where it comes from", "", status),
    "adapters": ("Show the adapters that act here", "", adapters),
    "compact": ("Let the model see just an outline of all turns but the latest", "", compact),
    "clear": ("Forget all that was said", "", clear),
    "help": ("Show the commands", "", help_),
}


def available() -> list[Json]:
    """Give the commands as the protocol has them."""
    return [
        {"name": name, "description": what, **({"input": {"hint": hint}} if hint else {})}
        for name, (what, hint, _run) in COMMANDS.items()
    ]


def command_of(text: str) -> tuple[Command, str] | None:
    """Give the command that a prompt is, with its argument; None where it is none of ours."""
    first, _, rest = text.strip().partition(" ")
    known = COMMANDS.get(first.removeprefix("/")) if first.startswith("/") else None
    return (known[2], escape_invisible(rest.strip())) if known is not None else None
