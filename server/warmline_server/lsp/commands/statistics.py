"""`warmline.statistics`: how answers went, what was accepted, and what is in memory, as numbers to draw."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from warmline.errors import WarmlineError

from ...stats import load, summary
from .call import Arguments, Call

# The engine's gauges by the name under which they are told; all in bytes.
_MEMORY: Final = {"base_bytes": "weights", "snapshot_bytes": "snapshots", "resident_bytes": "process"}


async def statistics(call: Call) -> dict[str, Any]:
    """Answer ``{recent, variants, memory, counting}``.

    `recent` has this session's latest answers, oldest first; `variants` is as ``warmline stats --json``, of all
    sessions; `memory` is the engine's, in bytes by kind, null without an engine: none is started for this.
    """
    call.arguments(Arguments)
    session = call.session
    await session.counting.flush()
    ledger = await asyncio.to_thread(load, session.home)
    return {
        "recent": session.recent.as_json(),
        "variants": summary(ledger),
        "memory": await _memory(call),
        "counting": session.settings.stats.enabled,
    }


async def _memory(call: Call) -> dict[str, int] | None:
    engine = call.session.running_engine
    if engine is None:
        return None
    try:
        text = await engine.metrics()
    except (WarmlineError, OSError):
        return None  # a dead engine has no memory; its next request says what is wrong with it
    from prometheus_client.parser import text_string_to_metric_families

    state = {
        sample.labels["what"]: sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == "warmline_state"
    }
    return {name: int(state[gauge]) for gauge, name in _MEMORY.items() if gauge in state}
