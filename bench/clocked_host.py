"""The engine host with a clock in it: where its time goes, call by call, for the bench that started it.

    python bench/clocked_host.py CLOCK HOME [--threads N] [--record FILE]     # the benches start it, nobody else

This is `python -m warmline.host HOME` but for timers around some thirty functions (a microsecond a call): it runs the
host's own `main`. The sums lie in the file CLOCK, mapped by both sides, so that reading them asks the host nothing.
With --record it also keeps every native call of each context and writes them down when the context is closed.
"""

from __future__ import annotations

import argparse
import functools
import json
import mmap
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

#: Milliseconds of each stage, without the stages inside it. `probe` holds its own decodes.
STAGES = (
    *("import", "libraries", "digest", "verify", "vocabulary", "load", "probe", "context"),
    *("tokenize", "disk", "restore", "save", "decode", "sample"),
)
#: Native decodes, probes included: calls, most at one time, those that were aborted, and tokens of those that were not.
COUNTS = ("decodes", "decodes_at_once", "decodes_aborted", "decoded_tokens")
_NAMES = (*STAGES, *COUNTS)
#: What is the model's own time, whoever serves it.
MODEL = ("decode", "sample")
_ABORTED = 2  # llama_decode's answer in llama.h


class Clock:
    """The sums, in memory or in a file that another process maps too."""

    def __init__(self, path: Path | None = None) -> None:
        size = 8 * len(_NAMES)
        if path is None:
            self._memory: mmap.mmap | bytearray = bytearray(size)
        else:
            with path.open("r+b") as file:
                self._memory = mmap.mmap(file.fileno(), size)
        self._values = memoryview(self._memory).cast("d")
        self._stacks = threading.local()
        self._running = 0

    @staticmethod
    def make(path: Path) -> None:
        """Write the file, all zeros."""
        path.write_bytes(bytes(8 * len(_NAMES)))

    def read(self) -> dict[str, float]:
        """Return all sums as they are now."""
        return dict(zip(_NAMES, self._values, strict=True))

    def reset(self) -> None:
        """Begin anew, while nobody counts."""
        for place in range(len(_NAMES)):
            self._values[place] = 0.0

    def model(self) -> float:
        """Return the milliseconds spent in the model so far."""
        now = self.read()
        return sum(now[name] for name in MODEL)

    def timed(self, stage: str, function: Callable[..., Any], *, opaque: bool = False) -> Callable[..., Any]:
        """Add what a function takes to a stage; stages inside an opaque one count as part of it."""
        place = _NAMES.index(stage)

        @functools.wraps(function, updated=())
        def wrapper(*arguments: Any, **named: Any) -> Any:
            stack: list[list[float]] = self._stacks.__dict__.setdefault("frames", [])
            if stack and stack[-1][1]:
                return function(*arguments, **named)
            frame = [0.0, opaque]
            stack.append(frame)
            began = time.perf_counter()
            try:
                return function(*arguments, **named)
            finally:
                took = (time.perf_counter() - began) * 1000
                stack.pop()
                self._values[place] += took - frame[0]
                if stack:
                    stack[-1][0] += took

        return wrapper

    def leaf(self, stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Add what a function takes to a stage: as `timed`, but for one that holds no other stage.

        These two run at each token, after native code has pushed all else out of the caches: what a wrapper touches
        there counts. With all that `timed` does, it cost 50 microseconds a token, a third of what was measured.
        """
        place, values, stacks, now = _NAMES.index(stage), self._values, self._stacks, time.perf_counter

        def wrapper(*arguments: Any) -> Any:
            stack = stacks.__dict__.get("frames")
            if stack:  # within another stage, as the decodes of a probe
                return timed(*arguments)
            began = now()
            try:
                return function(*arguments)
            finally:
                values[place] += (now() - began) * 1000

        timed = self.timed(stage, function)
        return wrapper

    def counted(self, decode: Callable[..., Any]) -> Callable[..., Any]:
        """Time native decodes as `leaf` does, and count them, and how many run at one time."""
        calls, at_once, aborted, tokens = (_NAMES.index(name) for name in COUNTS)
        place, values, stacks, now = _NAMES.index("decode"), self._values, self._stacks, time.perf_counter
        timed = self.timed("decode", decode)

        def wrapper(context: Any, batch: Any) -> Any:
            # No lock: threads take turns at calls only, so none comes between reading a number and writing it.
            running = self._running = self._running + 1
            if running > values[at_once]:
                values[at_once] = running
            result = -1
            began: float | None = now()
            try:
                if stacks.__dict__.get("frames"):  # within another stage, as the decodes of a probe
                    began = None
                    result = timed(context, batch)
                else:
                    result = decode(context, batch)
                return result
            finally:
                if began is not None:
                    values[place] += (now() - began) * 1000
                self._running -= 1
                values[calls] += 1
                if result == 0:
                    values[tokens] += batch.n_tokens
                elif result == _ABORTED:
                    values[aborted] += 1

        return wrapper


def install(clock: Clock, *, threads: int | None = None, record: Path | None = None) -> None:
    """Put the clock into the engine of this process, before its first use.

    Parameters
    ----------
    threads
        For decode and prefill, in place of the engine's own choice.
    record
        Where each context appends its native calls, as a line of JSON, when it is closed.
    """
    from warmline.backends import native

    # First: other modules take these two by name when they are imported.
    native.llama = functools.lru_cache(maxsize=1)(lambda imported=native.llama: _library(clock, imported))
    native.version = clock.timed("libraries", native.version)
    from warmline import verified, verified_gguf
    from warmline.backends.llama import LlamaBackend, LlamaModel
    from warmline.backends.llama_session import LlamaSampler, LlamaSession
    from warmline.digests import DigestCache
    from warmline.kv.disk import DiskSnapshots

    for stage, owner, name in (
        ("digest", DigestCache, "digest_descriptor"),
        ("verify", verified.Verifier, "verify"),
        ("vocabulary", LlamaBackend, "facts"),
        ("load", LlamaBackend, "load"),
        ("probe", LlamaModel, "probe_effect"),
        ("context", LlamaModel, "open_session"),
        ("tokenize", LlamaModel, "tokenize"),
        ("disk", DiskSnapshots, "best"),
        ("restore", LlamaSession, "restore"),
        ("save", LlamaSession, "save"),
    ):
        setattr(owner, name, clock.timed(stage, getattr(owner, name), opaque=stage == "probe"))
    LlamaSampler.pick = clock.leaf("sample", LlamaSampler.pick)  # type: ignore[method-assign]
    settings: dict[str, Any] = {} if threads is None else {"threads": threads}
    if record is not None:
        settings["record"] = True
        LlamaSession.close = _recording(record, LlamaSession.close)  # type: ignore[method-assign]
    # The probes' own contexts stay as they are.
    verified_gguf.ContextConfig = functools.partial(verified_gguf.ContextConfig, **settings)  # type: ignore[misc,assignment]


def _library(clock: Clock, imported: Callable[[], Any]) -> Any:
    module = clock.timed("import", imported)()
    module.llama_decode = clock.counted(module.llama_decode)
    return module


def _recording(path: Path, close: Callable[[Any], None]) -> Callable[[Any], None]:
    def wrapper(session: Any) -> None:
        if session.lineage and not session.closed:
            line = json.dumps({"tokens": list(session.tokens), "lineage": list(session.lineage)})
            with path.open("a") as file:
                file.write(line + "\n")
        close(session)

    return wrapper


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clock", type=Path, help="file of sums, made by the bench")
    parser.add_argument("home", help="the store that the host serves")
    parser.add_argument("--threads", type=int, help="threads of decode and prefill (the engine's own choice)")
    parser.add_argument("--record", type=Path, help="file for each context's native calls")
    options = parser.parse_args()
    # The script's folder is first on the path, and holds a typing.py.
    sys.path[0:1] = []
    from warmline.host.process import main as run_host

    install(Clock(options.clock), threads=options.threads, record=options.record)
    return run_host(options.home)


if __name__ == "__main__":
    sys.exit(main())
