"""Starting the engine host on demand: exactly one, whoever asks first; and what runs in its process."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, TypeVar

import grpc
from filelock import FileLock, Timeout

from ..digests import private_folder
from ..errors import BackendError, WarmlineError
from .logs import log_to, parsed
from .paths import HostPaths, host_paths
from .rpc import decoder, encode
from .ways import is_running, way_to
from .wire import Empty, HostInfo, State, StatusRequest, StopRequest, protocol

# glibc keeps freed blocks below its growing threshold: contexts and snapshots that come and go would add up. With a
# fixed threshold they go back to the system (soak: 890 MB flat instead of 1,058 MB).
_ALLOCATOR: Final = {"MALLOC_MMAP_THRESHOLD_": str(1 << 20)}
START_SECONDS: Final = 30.0
T = TypeVar("T")
N = TypeVar("N", int, float)
_POLL_SECONDS: Final = 0.02
# A host that is started while another has the lease leaves at once. After so many of them it is looked at why; before
# each of the others that much longer is waited.
_REFUSED: Final = 3
_REFUSED_SECONDS: Final = 0.1
# What a host that leaves may take to save what is warm, beyond what others may.
_SAVING_SECONDS: Final = 60.0
_LEAVING: Final = "leaving"


async def info(paths: HostPaths, seconds: float = 2.0) -> HostInfo | None:
    """Ask the host who it is; None when none answers."""
    way = way_to(paths)
    if way is None:
        return None
    async with way:
        try:
            answer: bytes = await way.one_answer("Info", encode(Empty()), seconds)
            return decoder(HostInfo)(answer)
        except (grpc.aio.AioRpcError, WarmlineError):
            return None


async def ensure_running(paths: HostPaths, seconds: float = START_SECONDS, metrics_port: int | None = None) -> HostInfo:
    """Return the running host, started if there is none; clients that race start one.

    A host that speaks another protocol, as one of other source with the same version may, is ended and replaced.

    Parameters
    ----------
    metrics_port
        For a host that is started here: port of its Prometheus endpoint on 127.0.0.1, 0 for none; by default as set.

    Raises
    ------
    BackendError
        ``backend.host_start``: it does not come up; the message quotes its log. ``backend.host_protocol``: the host
        that runs speaks another protocol, and is at work for somebody. ``backend.transport``, ``backend.silent``: one
        runs that is reached the other way, or that answers nobody.
    """
    deadline = time.monotonic() + seconds
    running = await _ours(paths, 2.0)
    if running is not None:
        return running
    await check_transport(paths)
    lock = FileLock(paths.spawn_lock, timeout=0)
    process: subprocess.Popen[bytes] | None = None
    refused = 0
    try:
        while time.monotonic() < deadline:
            if process is None:
                with contextlib.suppress(Timeout):
                    lock.acquire()
                    if await _made_way(paths):
                        process = _spawn(paths, metrics_port)
            # One that was started here is taken as it is: if it differs, what is installed was changed since this
            # process began, and another start would give the same.
            running = await (_ours if process is None else info)(paths, 0.5)
            if running is not None:
                return running
            if process is not None and process.poll() is not None:
                # A host that was just leaving still held the lease; it is gone now or soon.
                if process.returncode != _LEASE_HELD:
                    break
                process = None
                lock.release()
                refused += 1
                await check_transport(paths)
                if refused >= _REFUSED:
                    saving = is_leaving(paths)
                    await check_answers(paths)
                    if saving:
                        deadline = time.monotonic() + seconds  # it has had its time; now its successor has
                await asyncio.sleep(_REFUSED_SECONDS * refused)
            await asyncio.sleep(_POLL_SECONDS)
    except OSError as error:  # of the runtime folder, or of the log's
        raise BackendError(
            f"the engine host cannot be started: {error.strerror or type(error).__name__}",
            code="backend.host_start",
            file=str(error.filename or paths.folder),
            remedy="See to it that nothing else stands there, that it is yours to write, and that there is room",
        ) from error
    finally:
        lock.release()
    await check_answers(paths)
    raise BackendError(
        f"the engine host does not start: {_last_line(paths.log)}",
        code="backend.host_start",
        file=str(paths.log),
        remedy="Read the log: warmline engine logs",
    )


async def check_transport(paths: HostPaths) -> None:
    """Raise BackendError ``backend.transport`` when the host that runs is reached the other way."""
    other = paths.otherwise
    if other.socket.exists() and await info(other) is not None:
        raise BackendError(
            f"an engine runs that is reached by {'tcp' if other.tcp else 'unix'}, not by "
            f"{'tcp' if paths.tcp else 'unix'}",
            code="backend.transport",
            file=str(other.socket),
            remedy="Set WARMLINE_TRANSPORT alike for all programs, or end that engine: warmline engine stop",
        )


async def check_answers(paths: HostPaths, seconds: float = 5.0) -> None:
    """For who got no answer: raise BackendError ``backend.silent`` when a host has started, and answers nobody.

    It has so many seconds to answer after all, and one that is leaving a minute more: it may have much to save.
    """
    until = time.monotonic() + seconds
    while paths.pid.exists() and is_running(paths) and await info(paths, 0.5) is None:
        if time.monotonic() < until + (_SAVING_SECONDS if is_leaving(paths) else 0.0):
            await asyncio.sleep(_POLL_SECONDS)
            continue
        raise BackendError(
            f"an engine runs, and does not answer: process {_pid_in(paths) or 'unknown'}",
            code="backend.silent",
            file=str(paths.log),
            remedy="End it, and the next request starts another: warmline engine stop",
        )


async def _ours(paths: HostPaths, seconds: float) -> HostInfo | None:
    found = await info(paths, seconds)
    return found if found is not None and found.protocol == protocol() else None


async def _made_way(paths: HostPaths) -> bool:
    """Tell whether a host may be started: none answers, or one was ended that speaks another protocol.

    To be called with the spawn lock held: else it could end the host that somebody started in the meantime.
    """
    found = await info(paths, 0.5)
    if found is None or found.protocol == protocol():
        return found is None
    if await is_at_work(paths):
        raise BackendError(
            "an engine of the same version but of other source runs, and is at work for another program",
            code="backend.host_protocol",
            file=str(paths.socket),
            remedy="Ask again when it has finished, or end it: warmline engine stop",
        )
    await asyncio.to_thread(stop, paths)
    return True


async def is_at_work(paths: HostPaths) -> bool:
    """Tell whether a host runs and loads or generates something; asking starts none."""
    way = way_to(paths)
    if way is None:
        return False
    # Of the answer only the state is read: the rest may be what the two sides differ in.
    async with way:
        try:
            answer: bytes = await way.one_answer("Status", encode(StatusRequest()), 2.0)
            status = json.loads(answer)
        except (grpc.aio.AioRpcError, ValueError):
            return False
    return isinstance(status, dict) and status.get("state") in (State.LOADING, State.BUSY, State.SWITCHING)


def note_leaving(paths: HostPaths) -> None:
    """Say, as the host, that it is about to leave: it answers no more, and has perhaps much to save."""
    beside = paths.pid.with_suffix(".leaving")
    with contextlib.suppress(OSError):
        beside.write_text(f"{os.getpid()} {_LEAVING}\n")
        beside.replace(paths.pid)  # at no moment is there no number


def is_leaving(paths: HostPaths) -> bool:
    """Tell whether the host has said that it is about to leave."""
    with contextlib.suppress(OSError, ValueError):
        return paths.pid.read_text().split()[1:] == [_LEAVING]
    return False


def stop(paths: HostPaths, seconds: float = 10.0) -> bool:
    """End the host, politely and then not; tell whether one ran. One that is saving has a minute more."""
    # The lease tells a living host from a stale pid that may be somebody else's by now.
    if not is_running(paths):
        return False
    pid = _pid_in(paths)
    if pid is None:
        # Somebody has taken the file away.
        found = _at_once(info(paths)) or _at_once(info(paths.otherwise))
        if found is None:
            return False
        pid = found.pid
    for end in (_ask_to_leave, _kill):
        end(paths, pid)
        until = time.monotonic() + seconds
        while time.monotonic() < until + (_SAVING_SECONDS if is_leaving(paths) and end is not _kill else 0.0):
            if not is_running(paths):
                return True
            time.sleep(_POLL_SECONDS)
    return True


def _pid_in(paths: HostPaths) -> int | None:
    with contextlib.suppress(OSError, ValueError, IndexError):
        pid = int(paths.pid.read_text().split()[0])
        return pid if pid > 1 else None  # other numbers mean more than one process
    return None


def _ask_to_leave(paths: HostPaths, pid: int) -> None:
    if sys.platform != "win32":
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
        return

    # On Windows that signal would end it at once, and with it all that is warm.
    async def ask() -> None:
        way = way_to(paths)
        if way is not None:
            async with way:
                with contextlib.suppress(grpc.aio.AioRpcError):
                    await way.one_answer("Stop", encode(StopRequest()), 2.0)

    _at_once(ask())


def _at_once(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end, whether or not a loop runs in this thread."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


def _kill(_paths: HostPaths, pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM if sys.platform == "win32" else signal.SIGKILL)


_NEW_OBJECTS: Final = 50_000  # between two searches for garbage
_LEASE_HELD: Final = 75  # EX_TEMPFAIL in sysexits.h
# On Windows it would end with the console of whoever started it.
_WITHOUT_CONSOLE: Final = getattr(subprocess, "CREATE_NO_WINDOW", 0) | getattr(
    subprocess, "CREATE_NEW_PROCESS_GROUP", 0
)
_METRICS_PORT: Final = "WARMLINE_METRICS_PORT"


def _spawn(paths: HostPaths, metrics_port: int | None) -> subprocess.Popen[bytes]:
    private_folder(paths.log.parent)
    asked = {} if metrics_port is None else {_METRICS_PORT: str(metrics_port)}
    with open(paths.log, "ab", opener=lambda name, flags: os.open(name, flags, 0o600)) as log:
        return subprocess.Popen(
            [sys.executable, "-m", "warmline.host", str(paths.home)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            creationflags=_WITHOUT_CONSOLE,
            env={**_ALLOCATOR, **os.environ, "WARMLINE_RUNTIME_DIR": str(paths.folder), **asked},
        )


def _last_line(path: Path) -> str:
    try:
        lines = path.read_text("utf-8", "replace").strip().splitlines()
    except OSError:
        return "it wrote no log"
    if not lines:
        return "its log is empty"
    last = parsed(lines[-1])
    return (last["message"] if last is not None else lines[-1])[:300]


def _number(variable: str, read: Callable[[str], N], default: N, most: int) -> N:
    """Return what the environment asks for; what is no number costs nobody the engine."""
    asked = os.environ.get(variable)
    if not asked:
        return default
    try:
        number = read(asked)
        if 0 <= number <= most:
            return number
    except ValueError:
        pass
    logging.getLogger(__name__).warning("%s is not used: `%s` is no number of 0 to %d", variable, asked[:80], most)
    return default


def main(home: str) -> int:
    """Run the host in this process; returns its exit code."""
    from ..settings import usable_settings
    from .local import LocalEngine
    from .server import EngineHost

    # Requests leave next to no cycles behind, and a search for them would hold up whichever runs just then.
    gc.set_threshold(_NEW_OBJECTS)
    os.umask(0o077)  # logs, crash notes and KV are nobody else's
    paths = host_paths(Path(home))
    log_to(paths.log)
    settings = usable_settings(paths.home)
    idle = _number("WARMLINE_ENGINE_IDLE_SECONDS", float, float(settings.engine_idle_seconds), most=10**7)
    port = _number(_METRICS_PORT, int, settings.metrics_port, most=65535)

    async def serve() -> None:
        engine = LocalEngine(paths.home, host=True)
        await EngineHost(paths, engine, idle_seconds=idle if idle > 0 else None, metrics_port=port).run()

    log = logging.getLogger("warmline.host")
    if sys.platform == "win32":  # its own loop cannot wait for a socket to become writable
        asyncio.set_event_loop_policy(asyncio.WindowsSelectorEventLoopPolicy())
    log.info("starting, pid %d, store %s", os.getpid(), paths.home)
    try:
        asyncio.run(serve())
    except BackendError as error:
        log.error("%s", error)
        return _LEASE_HELD if error.code == "backend.host_running" else 1
    except OSError as error:  # of the runtime folder
        log.error("%s: %s", error.filename or paths.folder, error.strerror or type(error).__name__)
        return 1
    log.info("stopped")
    return 0
