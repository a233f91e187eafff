"""The engine's process, and what crashed it."""

from __future__ import annotations

import asyncio
from pathlib import Path

from warmline.errors import WarmlineError

from . import Check, fail, ok, warn


def host(home: Path) -> Check:
    """Whether an engine runs; it need not."""
    from warmline import __version__
    from warmline.host.paths import host_paths

    try:
        paths = host_paths(home)
    except WarmlineError as error:
        return fail("engine", f"{error.file}: {error.message}" if error.file else error.message, error.remedy)
    none = ok("engine", f"version {__version__} is not running; the first request starts it", running=False)
    if not paths.socket.exists() and not paths.otherwise.socket.exists():
        return none
    from warmline.host.process import check_transport, info
    from warmline.host.wire import protocol

    try:
        asyncio.run(check_transport(paths))
    except WarmlineError as error:
        return warn("engine", f"{error.file}: {error.message}", error.remedy, running=True)
    if not paths.socket.exists():
        return none

    running = asyncio.run(info(paths))
    if running is not None and running.protocol != protocol():
        message = f"runs, but from other source of the same version: process {running.pid}"
        return warn("engine", message, "warmline engine stop; the next request starts a new one", running=True)
    if running is not None:
        message = f"runs: process {running.pid}, version {running.version}, {running.requests} requests"
        return ok("engine", message, running=True, pid=running.pid)
    message = f"{paths.socket} is there, and nobody answers"
    return warn("engine", message, "warmline engine stop; the next request starts a new one", running=False)


def quarantine(home: Path) -> list[Check]:
    """What crashed the engine: a row for each that is refused, and one for the rest."""
    from warmline.digests import short
    from warmline.host.quarantine import CrashLedger

    from ..amounts import count

    suspects = CrashLedger(home / "crashes").suspects()
    if not suspects:
        return [ok("quarantine", "nothing crashed the engine")]
    rows = []
    for each in suspects:
        name = f"quarantine {each.name}"
        message = f"{short(each.digest)} crashed the engine {count(each.crashes, 'time')}: {each.last}"
        remedy = f"Replace the file, or try once more: warmline engine release {short(each.digest)}"
        if each.quarantined:
            rows.append(fail(name, f"{message}; it is refused", remedy, digest=each.digest))
        else:
            rows.append(warn(name, message, "Once more, and it is refused", digest=each.digest))
    return rows
